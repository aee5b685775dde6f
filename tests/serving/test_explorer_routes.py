"""What the page asks beyond the public routes, and its files."""

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from explorer_models import make_models
from fastapi.testclient import TestClient

from cloze.errors import InputError
from cloze.explorer.encoder_internals import attention_map, encode_untruncated
from cloze.explorer.views import view_attention
from cloze.serving.app import create_app
from cloze.serving.explorer_routes import PAGE
from cloze.serving.limits import Limits
from cloze.serving.served_model import ServedModel, load_models

TEXT = {"model": "pretrained", "text": "she was born in london", "pair": "it is warm"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServedModel]:
    return load_models(make_models(tmp_path_factory.mktemp("models")), device="cpu")


@pytest.fixture(scope="module")
def client(models: dict[str, ServedModel]) -> Iterator[TestClient]:
    with TestClient(create_app(models, Limits())) as client:
        yield client


def refused(client: TestClient, route: str, **request: object) -> str:
    response = client.post(route, json=request) if request else client.get(route)
    assert response.status_code == 422
    return str(response.json()["error"])


def test_only_the_files_of_the_page_are_served(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    for path in PAGE.iterdir():
        answer = client.get(f"/page/{path.name}")
        assert answer.content == path.read_bytes()
        assert "default-src 'self'" in answer.headers["content-security-policy"]
    for name in ("../explorer.py", "..%2Fexplorer.py", "explorer.py", "%2Fetc%2Fpasswd", ""):
        assert client.get(f"/page/{name}").status_code == 404


def test_inside_returns_the_weights_of_every_head(client: TestClient, models: dict[str, ServedModel]) -> None:
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


def test_each_step_of_a_row_follows_from_the_one_before(client: TestClient) -> None:
    row = client.post("/explore/row", json=TEXT | {"layer": 1, "head": 2, "token": 3}).json()
    row = {name: np.array(values) for name, values in row.items()}
    np.testing.assert_allclose(row["key"] @ row["query"], row["products"], atol=1e-4)
    np.testing.assert_allclose(row["products"] / np.sqrt(8), row["scores"], atol=1e-5)
    weights = np.exp(row["scores"]) / np.exp(row["scores"]).sum()
    np.testing.assert_allclose(weights, row["weights"], atol=1e-5)
    np.testing.assert_allclose(weights[:, None] * row["value"], row["weighted"], atol=1e-5)
    np.testing.assert_allclose(row["weighted"].sum(0), row["context"], atol=1e-4)


def test_the_way_of_a_token_is_that_of_the_encoder(
    client: TestClient, models: dict[str, ServedModel]
) -> None:
    request = {"model": "pretrained", "text": "she was [MASK] in london", "pair": "it is warm"}
    trace = client.post("/explore/layers", json=request).json()
    served = models["pretrained"]
    assert trace["tokens"][trace["token"]] == "[MASK]"

    def numbers(vector: dict[str, Any]) -> Any:
        values = np.frombuffer(base64.b64decode(vector["values"]), "<f4")
        assert vector["norm"] == pytest.approx(np.linalg.norm(values), abs=1e-5)
        return values

    parts = {name: numbers(vector) for name, vector in trace["input"].items()}
    total = parts["word"] + parts["segment"] + parts["position"]
    normalized = (total - total.mean()) / total.std()
    assert np.corrcoef(normalized, parts["normalized"])[0, 1] > 0.9  # but for the learned scale and shift
    _, batch = encode_untruncated(served.encoder, served.tokenizer, request["text"], request["pair"])
    with torch.inference_mode():
        output = served.encoder(batch, output_hidden_states=True)
    for layer, hidden in zip(trace["layers"], output.hidden_states[1:], strict=True):
        steps = {name: numbers(vector) for name, vector in layer["steps"].items()}
        np.testing.assert_array_equal(steps["normalized"], hidden[trace["token"]].numpy())
        weights = np.exp(layer["scores"]) / np.exp(layer["scores"]).sum(-1, keepdims=True)
        np.testing.assert_allclose(weights, layer["weights"], atol=1e-5)
        assert len(steps["query"]) == len(steps["key"]) == len(steps["value"]) == 24
    assert served.fill_mask is not None
    [expected] = served.fill_mask(request["text"], top_k=5)
    one_text = client.post("/explore/layers", json=request | {"pair": None}).json()
    last = one_text["masked_lm"]["candidates"][-1]
    assert [candidate["token"] for candidate in last] == [candidate.token for candidate in expected]
    assert [candidate["probability"] for candidate in last] == pytest.approx(
        [candidate.probability for candidate in expected], abs=1e-5
    )
    share = np.exp(one_text["masked_lm"]["logits"])
    assert share / share[0] == pytest.approx(
        [c.probability / expected[0].probability for c in expected], rel=1e-3
    )
    assert served.next_sentence is not None
    is_next = served.next_sentence(request["text"], request["pair"]).probability
    assert trace["pooler"]["is_next"] == pytest.approx(is_next, abs=1e-5)


def test_a_model_without_heads_of_pre_training_has_no_predictions(client: TestClient) -> None:
    trace = client.post("/explore/layers", json={"model": "tagger", "text": "she was born"}).json()
    assert (trace["masked_lm"], trace["pooler"]) == (None, None)
    assert trace["token"] == 2  # the middle one


@pytest.mark.parametrize(("name", "limit"), [("layer", 1), ("head", 2), ("token", 10)])
def test_a_layer_head_or_token_out_of_range_is_refused(client: TestClient, name: str, limit: int) -> None:
    request = TEXT | {"layer": 0, "head": 0, "token": 0} | {name: 99}
    assert refused(client, "/explore/row", **request) == f"{name}: 99 is not in 0..{limit}"


def test_too_many_attention_weights_are_refused(models: dict[str, ServedModel]) -> None:
    served = models["pretrained"]
    with pytest.raises(InputError, match="11 tokens, at most 10 can be shown for all 6 heads"):
        view_attention(served.encoder, served.tokenizer, TEXT["text"], TEXT["pair"], max_weights=600)


def test_too_many_occurrences_are_refused(client: TestClient) -> None:
    sentences = ["bank " * 5] * 13
    told = refused(client, "/explore/word", model="pretrained", word="bank", sentences=sentences)
    assert "'bank' occurs 65 times, at most 64 are compared" in told


def test_a_word_has_vectors_in_every_layer(client: TestClient) -> None:
    sentences = ["the bank of the river", "money is in the bank"]
    request = {"model": "pretrained", "word": "bank", "sentences": sentences}
    found = client.post("/explore/word", json=request).json()
    assert [place["sentence"] for place in found["occurrences"]] == [0, 1]
    assert np.shape(found["points"]) == (3, 2, 2)
    assert found["points"][0] == [[0, 0], [0, 0]]
    assert np.shape(found["cosines"]) == (3, 2, 2)


def test_a_span_has_logits_for_every_token(client: TestClient) -> None:
    request = {"model": "answers", "question": "who?", "context": "the man went to london"}
    span = client.post("/explore/span", json=request).json()
    assert span["tokens"] == ["the", "man", "went", "to", "london"]
    assert span["offsets"][4] == [16, 22]
    assert len(span["start_logits"]) == len(span["end_logits"]) == 5
    told = refused(client, "/explore/span", model="pretrained", question="a", context="b")
    assert "'pretrained' does not answer" in told
