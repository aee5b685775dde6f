"""The routes that serve the explorer page alone, and its files."""

import base64
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from clients import Client, client_of
from explorer_models import make_models

from cloze.explorer.encoder_internals import attention_map, input_embeddings, trace_token
from cloze.explorer.text_window import max_window_tokens, text_window
from cloze.serving.app import PAGE
from cloze.serving.served_model import ServedModel, load_models
from cloze.tasks.texts import LabeledText

TEXT = {"model": "pretrained", "text": "she was born in london", "pair": "it is warm"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServedModel]:
    return load_models(make_models(tmp_path_factory.mktemp("models")), device="cpu")


@pytest.fixture(scope="module")
def client(models: dict[str, ServedModel]) -> Iterator[Client]:
    with client_of(models) as client:
        yield client


def test_only_the_files_of_the_page_are_served(client: Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    for path in PAGE.iterdir():
        answer = client.get(f"/page/{path.name}")
        assert answer.content == path.read_bytes()
        assert "default-src 'self'" in answer.headers["content-security-policy"]
    for name in ("../explorer.py", "..%2Fexplorer.py", "explorer.py", "%2Fetc%2Fpasswd", ""):
        assert client.get(f"/page/{name}").status_code == 404


def test_the_file_of_an_evaluation_is_read_again_for_each_request(
    client: Client, models: dict[str, ServedModel], tmp_path: Path
) -> None:
    assert client.get("/explore/evaluation").json() == {"name": None, "content": None}
    file = tmp_path / "answers.csv"
    with client_of(models, evaluation=file, api_key="sesame") as other:
        assert other.get("/explore/evaluation").status_code == 401
        for content in ('"text","gold","label"\n', '"text","gold","label"\n"ä","a","b"\n'):
            file.write_text(content, "utf-8")
            answer = other.get("/explore/evaluation", headers={"Authorization": "Bearer sesame"})
            assert answer.json() == {"name": "answers.csv", "content": content}


def test_inside_returns_the_weights_of_every_head(client: Client, models: dict[str, ServedModel]) -> None:
    found = client.ask("/explore/inside", **TEXT)
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


def test_the_input_is_that_of_inside_without_attention(client: Client) -> None:
    whole, found = client.ask("/explore/inside", **TEXT), client.ask("/explore/input", **TEXT)
    assert found == {key: whole[key] for key in found}
    assert set(whole) - set(found) == {"layers", "heads", "weights"}


def test_layers_returns_the_vectors_of_a_token_and_what_the_heads_read(
    client: Client, models: dict[str, ServedModel]
) -> None:
    texts = {"text": "she was [MASK] in london", "pair": "it is warm"}
    view = client.ask("/explore/layers", model="pretrained", **texts)
    served, token = models["pretrained"], view["token"]
    assert view["tokens"][token] == "[MASK]"

    def check(shown: dict[str, Any], expected: torch.Tensor) -> None:
        values = np.frombuffer(base64.b64decode(shown["values"]), "<f4")
        np.testing.assert_allclose(values, expected, atol=1e-6)
        assert shown["norm"] == pytest.approx(np.linalg.norm(values), abs=1e-5)

    trace = trace_token(served.encoder, served.tokenizer, **texts, token=token)
    attention = attention_map(served.encoder, served.tokenizer, **texts)
    embeddings = input_embeddings(served.encoder, served.tokenizer.encode(*texts.values()))
    for name, shown in view["input"].items():
        check(shown, embeddings[name][token])
    for layer, steps, heads, movements in zip(
        view["layers"], trace.layers, attention.layers, trace.movements, strict=True
    ):
        projections = {name: getattr(heads, name)[:, token].flatten() for name in ("query", "key", "value")}
        for name, expected in (projections | steps).items():
            check(layer["steps"][name], expected)
        np.testing.assert_allclose(layer["scores"], heads.scores[:, token], atol=1e-6)
        np.testing.assert_allclose(layer["weights"], heads.weights[:, token], atol=1e-6)
        np.testing.assert_allclose(layer["movements"], movements, atol=1e-6)
    assert served.next_sentence is not None
    is_next = served.next_sentence(*texts.values()).probability
    assert view["pooler"]["is_next"] == pytest.approx(is_next, abs=1e-5)


def test_a_model_without_heads_of_pre_training_has_no_predictions(client: Client) -> None:
    trace = client.ask("/explore/layers", model="tagger", text="she was born")
    assert (trace["masked_lm"], trace["pooler"]) == (None, None)
    assert trace["token"] == 2  # the middle one


@pytest.fixture(scope="module")
def without_a_head(models: dict[str, ServedModel]) -> Iterator[dict[str, ServedModel]]:
    """Copies of models whose second head of layer 1 and all of layer 2 are multiplied by 0 in the dense layer."""
    others = {name: copy.deepcopy(models[name]) for name in ("pretrained", "classifier")}
    for served in others.values():
        first, second = (layer.attention_output.weight for layer in served.encoder.layers)
        with torch.no_grad():
            first[:, 8:16] = 0
            second[:] = 0
    return others


HEADS_OFF = [[0, 1], [1, 0], [1, 1], [1, 2]]


def test_answers_without_heads_are_those_of_a_model_whose_heads_count_nothing(
    client: Client, models: dict[str, ServedModel], without_a_head: dict[str, ServedModel]
) -> None:
    request = {"model": "pretrained", "text": "she was [MASK] in [MASK]", "heads": HEADS_OFF}
    found = client.ask("/explore/ablation", **request)
    assert (found["masked"], found["layers"], found["heads"]) == ([3, 5], 2, 3)
    for name, served in (("all", models["pretrained"]), ("without", without_a_head["pretrained"])):
        expected = served.fill_mask(request["text"])
        shown = [[candidate["token"] for candidate in mask] for mask in found[name]["masks"]]
        assert shown == [[candidate.token for candidate in mask] for mask in expected]
        probabilities = [candidate["probability"] for mask in found[name]["masks"] for candidate in mask]
        assert probabilities == pytest.approx([c.probability for mask in expected for c in mask], abs=1e-6)
        assert found[name]["is_next"] is found[name]["labels"] is None
    assert found["all"] != found["without"]
    nothing_off = client.ask("/explore/ablation", **request | {"heads": []})
    assert nothing_off["all"] == nothing_off["without"] == found["all"]


def test_a_pair_and_a_label_are_answered_without_heads(
    client: Client, models: dict[str, ServedModel], without_a_head: dict[str, ServedModel]
) -> None:
    pair = client.ask("/explore/ablation", **TEXT, heads=HEADS_OFF, token=2)
    label = client.ask("/explore/ablation", model="classifier", text="it is warm", heads=HEADS_OFF)
    assert pair["masked"] == [2]
    for name, all_models in (("all", models), ("without", without_a_head)):
        served = all_models["pretrained"]
        is_next = served.next_sentence(TEXT["text"], TEXT["pair"]).probability
        assert pair[name]["is_next"] == pytest.approx(is_next, abs=1e-6)
        (expected,), _ = all_models["classifier"].predictor.predict([LabeledText("it is warm")])
        assert label[name]["labels"] == pytest.approx(expected.probabilities, abs=1e-6)
        assert (label[name]["masks"], label[name]["is_truncated"]) == (None, False)
    long = client.ask("/explore/ablation", model="classifier", text="it is warm " * 60, heads=[])
    assert long["all"]["is_truncated"]


def test_a_long_text_is_shown_in_windows(client: Client, models: dict[str, ServedModel]) -> None:
    served = models["pretrained"]
    words = [f"{word} river" for word in ("bank", "london", "money", "warm")] * 40
    text = " ".join(words)  # 320 tokens, of which 254 fit
    later = client.ask("/explore/inside", model="pretrained", text=text, start=9)
    assert later["window"] == {"start": 9, "count": 254, "total": 320}
    assert later["tokens"] == ["[CLS]", *text.split()[9:263], "[SEP]"]
    alone = client.ask("/explore/inside", model="pretrained", text=" ".join(text.split()[9:263]))
    assert alone["weights"] == later["weights"]
    assert client.ask("/explore/inside", model="pretrained", text=text, start=400)["window"]["start"] == 66
    row = client.ask("/explore/row", model="pretrained", text=text, start=9, layer=1, head=2, token=3)
    shape = (later["layers"], later["heads"], 256, 256)
    weights = np.frombuffer(base64.b64decode(later["weights"]), "<f4").reshape(shape)
    np.testing.assert_allclose(row["weights"], weights[1, 2, 3], atol=1e-6)
    masked = client.ask("/explore/layers", model="pretrained", text=f"{text} [MASK] {text}")
    assert masked["tokens"][masked["token"]] == "[MASK]"
    assert masked["window"] == {"start": 193, "count": 254, "total": 641}
    with_pair = client.ask("/explore/layers", model="pretrained", text=text, pair="it is warm")
    assert with_pair["tokens"][-5:] == ["[SEP]", "it", "is", "warm", "[SEP]"]
    assert len(with_pair["tokens"]) == max_window_tokens(served.encoder) == 256
    told = client.refusal("/explore/inside", model="pretrained", text="she", pair=text)
    assert told == "pair: 323 tokens beside the text, at most 255 can be shown. Give a shorter second text."


def test_a_window_cuts_no_word(models: dict[str, ServedModel]) -> None:
    tokenizer = models["pretrained"].tokenizer
    text = "she xyzzy she"  # a word of five tokens
    for start in range(7):
        window = text_window(tokenizer, text, start=start, max_tokens=8)
        assert len(tokenizer.encode(window.text)) == window.count + 2 <= 8
        assert window.text in ("she xyzzy", "xyzzy she"), start
    assert text_window(tokenizer, "xyzzy", max_tokens=5).text == "xyz"  # but one that is longer than a window


def test_attention_weights_limit_the_window(models: dict[str, ServedModel]) -> None:
    encoder = models["pretrained"].encoder
    assert max_window_tokens(encoder, max_weights=600) == 10  # of 6 heads


def test_unknown_characters_are_shown_as_they_were_written(client: Client) -> None:
    text = "she was 😀 in ☃ london"
    for route in ("/explore/inside", "/explore/layers"):
        shown = client.ask(route, model="pretrained", text=text, pair="☃ it")
        assert shown["tokens"] == ["[CLS]", *text.split(), "[SEP]", "☃", "it", "[SEP]"]
        assert shown["unknown"] == [3, 5, 8]
    span = client.ask("/explore/span", model="answers", question="☃?", context=text)
    assert span["tokens"] == text.split()


def test_sentences_that_take_long_are_refused_unread(client: Client) -> None:
    refused = client.post("/explore/word", json={"word": "a", "sentences": ["a" * 5000] * 2})
    assert (refused.status_code, refused.json()["error_type"]) == (413, "Validation")
    assert "10001 characters, at most 10000 are read. Give fewer or shorter" in refused.json()["error"]
