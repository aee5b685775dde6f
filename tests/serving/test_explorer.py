"""What the page asks beyond the public routes, its files, and the runs it watches."""

import base64
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from explorer_models import make_models, make_run
from fastapi import FastAPI
from fastapi.testclient import TestClient

from cloze.errors import InputError
from cloze.inference.attention_map import attention_map
from cloze.serving.app import create_app
from cloze.serving.engine import Engine
from cloze.serving.explorer import PAGE, explorer
from cloze.serving.limits import Limits
from cloze.serving.models import ServedModel, load_models
from cloze.serving.run import serve
from cloze.serving.service import Service
from cloze.serving.watch import new_rows
from cloze.training.metrics_log import MetricsLog

TEXT = {"model": "pretrained", "text": "she was born in london", "pair": "it is warm"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServedModel]:
    return load_models(make_models(tmp_path_factory.mktemp("models")), device="cpu")


@pytest.fixture(scope="module")
def client(models: dict[str, ServedModel], tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    run = make_run(tmp_path_factory.mktemp("runs") / "run")
    engine = Engine(Limits(), threads=1)
    app = FastAPI()
    app.include_router(explorer(Service(models, engine), {"mini": run}))
    with TestClient(app) as made:
        yield made
    engine.close()


def test_every_file_of_the_page_is_served_and_none_else(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    for path in PAGE.iterdir():
        answer = client.get(f"/page/{path.name}")
        assert answer.content == path.read_bytes()
        assert "default-src 'self'" in answer.headers["content-security-policy"]
    for name in ("../explorer.py", "..%2Fexplorer.py", "explorer.py", "%2Fetc%2Fpasswd", ""):
        assert client.get(f"/page/{name}").status_code == 404


def test_the_page_names_no_other_host_and_writes_no_markup() -> None:
    for path in PAGE.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "//" not in text.replace("// ", "").replace("//\n", ""), path.name
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style="):
            assert way not in text, path.name


def test_inside_holds_the_weights_of_every_head(client: TestClient, models: dict[str, ServedModel]) -> None:
    found = client.post("/explore/inside", json=TEXT).json()
    served = models["pretrained"]
    expected = attention_map(served.encoder, served.tokenizer, TEXT["text"], TEXT["pair"])
    assert found["tokens"] == list(expected.tokens)
    shape = (found["layers"], found["heads"], len(found["tokens"]), len(found["tokens"]))
    weights = np.frombuffer(base64.b64decode(found["weights"]), "<f4").reshape(shape)
    np.testing.assert_array_equal(weights, np.stack([layer.weights for layer in expected.layers]))
    assert set(found["embeddings"]) == {"word", "segment", "position", "normalized"}
    for rows in found["embeddings"].values():
        assert np.shape(rows["norms"]) == (len(found["tokens"]),)
        assert np.shape(rows["first"]) == (len(found["tokens"]), 8)


def test_a_row_adds_up(client: TestClient) -> None:
    row = client.post("/explore/row", json=TEXT | {"layer": 1, "head": 2, "piece": 3}).json()
    row = {name: np.array(values) for name, values in row.items()}
    np.testing.assert_allclose(row["key"] @ row["query"], row["products"], atol=1e-4)
    np.testing.assert_allclose(row["products"] / np.sqrt(8), row["scores"], atol=1e-5)
    weights = np.exp(row["scores"]) / np.exp(row["scores"]).sum()
    np.testing.assert_allclose(weights, row["weights"], atol=1e-5)
    np.testing.assert_allclose(weights[:, None] * row["value"], row["weighted"], atol=1e-5)
    np.testing.assert_allclose(row["weighted"].sum(0), row["context"], atol=1e-4)


@pytest.mark.parametrize(("name", "limit"), [("layer", 1), ("head", 2), ("piece", 10)])
def test_what_is_not_there_is_told(client: TestClient, name: str, limit: int) -> None:
    asked = TEXT | {"layer": 0, "head": 0, "piece": 0} | {name: 99}
    with pytest.raises(InputError, match=rf"{name}: 99 is not in 0\.\.{limit}"):
        client.post("/explore/row", json=asked)


def test_too_many_weights_are_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloze.serving.explorer._MOST_WEIGHTS", 600)
    with pytest.raises(InputError, match="11 pieces; to look at all 6 heads, 10 at most"):
        client.post("/explore/inside", json=TEXT)


def test_too_many_occurrences_are_refused(client: TestClient) -> None:
    asked = {"model": "pretrained", "word": "bank", "sentences": ["bank " * 5] * 13}
    with pytest.raises(InputError, match="'bank' stands there 65 times, 64 at most are compared"):
        client.post("/explore/word", json=asked)


def test_a_word_and_a_span(client: TestClient) -> None:
    asked = {
        "model": "pretrained",
        "word": "bank",
        "sentences": ["the bank of the river", "money is in the bank"],
    }
    found = client.post("/explore/word", json=asked).json()
    assert [place["sentence"] for place in found["occurrences"]] == [0, 1]
    assert np.shape(found["points"]) == (3, 2, 2)
    assert found["points"][0] == [[0, 0], [0, 0]]
    assert np.shape(found["cosines"]) == (3, 2, 2)
    span = client.post(
        "/explore/span", json={"model": "answers", "question": "who?", "context": "the man went to london"}
    ).json()
    assert span["pieces"] == ["the", "man", "went", "to", "london"]
    assert span["offsets"][4] == [16, 22]
    assert len(span["start_logits"]) == len(span["end_logits"]) == 5
    with pytest.raises(InputError, match="'pretrained' does not answer"):
        client.post("/explore/span", json={"model": "pretrained", "question": "a", "context": "b"})


def test_requests_name_runs_never_paths(client: TestClient) -> None:
    assert client.get("/explore/runs").json() == ["mini"]
    with pytest.raises(InputError, match=r"no run .passwd. is watched"):
        client.get("/explore/runs/passwd")


def test_the_name_of_a_run_may_have_slashes(models: dict[str, ServedModel], tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 1}\n')
    app = create_app(models, Limits(), runs={"a/b": tmp_path})
    with TestClient(app) as client:
        assert client.get("/explore/runs").json() == ["a/b"]
        assert len(client.get("/explore/runs/a%2Fb").json()["rows"]) == 1


def test_a_run_is_read_from_where_one_left_off(client: TestClient) -> None:
    first = client.get("/explore/runs/mini").json()
    assert len(first["rows"]) == 44
    assert not first["more"]
    again = client.get(f"/explore/runs/mini?after={first['place']}").json()
    assert again["rows"] == []
    assert again["place"] == first["place"]
    assert (first["is_anew"], again["is_anew"]) == (True, False)


def test_half_lines_wait_and_numbers_that_are_none_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "train", "step": 1, "loss": NaN, "rate": 2.0}\nno JSON\n{"kind": "train", "st')
    found = new_rows(tmp_path)
    assert found.rows == ({"kind": "train", "step": 1, "rate": 2.0},)
    with path.open("a") as stream:
        stream.write('ep": 2}\n')
    later = new_rows(tmp_path, found.place)
    assert later.rows == ({"kind": "train", "step": 2},)
    assert not later.is_anew


@pytest.mark.parametrize("later_steps", [1, 50])
def test_a_file_that_was_written_anew_is_read_from_its_beginning(tmp_path: Path, later_steps: int) -> None:
    MetricsLog(tmp_path, resume_step=0).write("train", 1)
    MetricsLog(tmp_path, resume_step=1).write("train", 2)
    found = new_rows(tmp_path)
    assert [row["step"] for row in found.rows] == [1, 2]
    log = MetricsLog(tmp_path, resume_step=1)  # it may be longer than before when it is asked for again
    for step in range(3, 3 + later_steps):
        log.write("train", step)
    anew = new_rows(tmp_path, found.place)
    assert anew.is_anew
    assert [row["step"] for row in anew.rows] == [1, *range(3, 3 + later_steps)]


def test_a_long_run_comes_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloze.serving.watch._MOST_BYTES", 1000)
    run = make_run(tmp_path / "run", steps=100)
    rows, after, more = [], "", True
    while more:
        found = new_rows(run, after)
        rows += found.rows
        after, more = found.place, found.more
    assert len(rows) == 110
    with pytest.raises(InputError, match="not a run, or not yet"):
        new_rows(tmp_path)


def test_a_run_that_is_not_there_is_not_watched(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run"):
        serve(
            {},
            {"mini": tmp_path / "none"},
            Limits(),
            host="127.0.0.1",
            port=0,
            threads=1,
            api_key=None,
            device="cpu",
            tell=print,
        )
