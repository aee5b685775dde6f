"""Routes that other servers have: their answers are those of the predictors."""

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clients import Client, client_of

from cloze.models.checkpoint import save_model
from cloze.serving.limits import Limits
from cloze.serving.served_model import ServedModel
from cloze.tasks.texts import LabeledText
from cloze.tokenization.loading import load_tokenizer
from encoder_families import FAMILIES, make_encoder
from tiny_models import tiny_config

Post = Callable[..., Any]


def test_embed(post: Post, models: Mapping[str, ServedModel]) -> None:
    texts = ["a b c", "d" * 50 + " e" * 60]
    expected = models["bert"].embedder(texts)
    found = post("/embed", inputs=texts, normalize=False)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    (alone,) = post("/embed", inputs=texts[0])
    np.testing.assert_allclose(np.linalg.norm(alone), 1, atol=1e-6)
    np.testing.assert_allclose(alone, expected[0] / np.linalg.norm(expected[0]), atol=1e-5)
    (short,) = post("/embed", inputs=[texts[0]], dimensions=5)
    assert len(short) == 5
    np.testing.assert_allclose(np.linalg.norm(short), 1, atol=1e-6)


def test_embed_all(post: Post, models: Mapping[str, ServedModel]) -> None:
    one, two = post("/embed_all", inputs=["a b", "ab. c"])
    assert [len(one), len(two)] == [4, 6]
    np.testing.assert_allclose(np.mean(one, 0), models["bert"].embedder(["a b"])[0], atol=1e-5)


def test_similarity(post: Post, models: Mapping[str, ServedModel]) -> None:
    texts = ["a b", "a b", "c d e"]
    found = post("/similarity", inputs={"source_sentence": texts[0], "sentences": texts[1:]})
    vectors = models["bert"].embedder(texts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(found, vectors[1:] @ vectors[0], atol=1e-5)
    assert found[0] == pytest.approx(1, abs=1e-5)


def test_openai_embeddings(post: Post, models: Mapping[str, ServedModel]) -> None:
    tokenizer = models["bert"].tokenizer
    ids = tokenizer.encode("a b ab").input_ids
    as_text = post("/v1/embeddings", input="a b ab", model="bert")
    assert as_text["usage"] == {"prompt_tokens": len(ids), "total_tokens": len(ids)}
    assert (as_text["object"], as_text["model"]) == ("list", "bert")
    (expected,) = (each["embedding"] for each in as_text["data"])
    for given in (ids, ids[1:-1], [ids], ["a b ab"]):
        (found,) = post("/v1/embeddings", input=given)["data"]
        np.testing.assert_allclose(found["embedding"], expected, atol=1e-6)
    several = post("/v1/embeddings", input=[[8], [9, 10]], encoding_format="base64", dimensions=3)
    assert [each["index"] for each in several["data"]] == [0, 1]
    for each in several["data"]:
        vector = np.frombuffer(base64.b64decode(each["embedding"]), "<f4")
        assert vector.shape == (3,)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_predict(post: Post, models: Mapping[str, ServedModel]) -> None:
    (text, other), _ = models["classifier"].finetuned.predict([LabeledText("a b"), LabeledText("c")])
    single = post("/predict", inputs="a b")
    assert {each["label"]: each["score"] for each in single} == pytest.approx(text.probabilities, abs=1e-6)
    assert [each["score"] for each in single] == sorted((each["score"] for each in single), reverse=True)
    batch = post("/predict", inputs=[["a b"], ["c"]])
    assert [each[0]["label"] for each in batch] == [text.label, other.label]
    assert post("/predict", inputs=["a b"]) == [single]
    (pair,), _ = models["matcher"].finetuned.predict([LabeledText("a b", "c")])
    found = post("/predict", inputs=["a b", "c"], model="matcher")
    assert found[0]["score"] == pytest.approx(pair.probability, abs=1e-6)
    assert post("/predict", inputs=[["a b", "c"]], model="matcher") == [found]


def test_labels_come_with_their_thresholds(post: Post, models: Mapping[str, ServedModel]) -> None:
    answers = post("/predict", inputs="a b", model="topics")
    assert {each["label"]: each["threshold"] for each in answers} == {"x": 0.25, "y": 0.5}
    ([answer], _) = models["topics"].finetuned.predict([LabeledText("a b")])
    above = {each["label"] for each in answers if each["score"] > each["threshold"]}
    assert above == set(answer.labels)
    for plain in ({"raw_scores": True}, {"parameters": {}}):
        assert "threshold" not in json.dumps(post("/predict", inputs="a b", model="topics", **plain))
    assert "threshold" not in post("/predict", inputs="a b")[0]


def test_at_most_top_k_classes_are_returned(post: Post, models: Mapping[str, ServedModel]) -> None:
    everything = post("/predict", inputs=[["a b"], ["c"]])
    assert [len(each) for each in everything] == [3, 3]
    assert post("/predict", inputs=[["a b"], ["c"]], top_k=2) == [each[:2] for each in everything]
    assert len(post("/predict", inputs="a b", top_k=9)) == 3
    with client_of({"classifier": models["classifier"]}, Limits(classes=1)) as client:
        for top_k in (None, 1, 2):
            answer = client.ask("/predict", inputs="a b", top_k=top_k)
            assert [each["label"] for each in answer] == [everything[0][0]["label"]]
        assert client.post("/predict", json={"inputs": "a b", "top_k": 0}).status_code == 422
        assert client.get("/info").json()["limits"]["classes"] == 1


def test_rerank(post: Post, models: Mapping[str, ServedModel]) -> None:
    predictor = models["ranker"].predictor
    assert predictor is not None
    texts = ["a b c", "d", "e f g " * 30, "h"]
    scores, _ = predictor.predict([LabeledText("a?", text) for text in texts])
    found = post("/rerank", query="a?", texts=texts, return_text=True)
    assert [each["index"] for each in found] == sorted(range(4), key=lambda i: -scores[i])
    for each in found:
        assert each["score"] == pytest.approx(scores[each["index"]], abs=1e-6)
        assert each["text"] == texts[each["index"]]
    assert "text" not in post("/rerank", query="a?", texts=texts)[0]


def test_tokenize_and_decode(post: Post) -> None:
    text = "Ab, \U0001f642c"
    (pieces,) = post("/tokenize", inputs=text)
    assert [each["text"] for each in pieces] == ["[CLS]", "a", "##b", ",", "[UNK]", "[SEP]"]
    assert [each["special"] for each in pieces] == [True, False, False, False, True, True]
    assert [text[each["start"] : each["stop"]] for each in pieces[1:-1]] == ["A", "b", ",", "\U0001f642c"]
    assert pieces[0]["start"] is None
    ids = [each["id"] for each in pieces]
    assert post("/decode", ids=ids) == ["ab,"]
    assert post("/decode", ids=[ids[1:4], ids], skip_special_tokens=False) == ["ab,", "[CLS] ab, [UNK] [SEP]"]
    (bare,) = post("/tokenize", inputs=[text], add_special_tokens=False)
    assert bare == pieces[1:-1]


def test_tokens_of_a_space_alone_have_a_place(tmp_path: Path) -> None:
    tokenizer = FAMILIES["roberta"].tokenizer(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    save_model(
        tmp_path, make_encoder("roberta", tiny_config(tokenizer.get_vocab())), load_tokenizer(tmp_path)
    )
    with client_of({"roberta": ServedModel.load("roberta", tmp_path, device="cpu")}) as client:
        (tokens,) = client.ask("/tokenize", inputs="a  film")
    places = [(token["start"], token["stop"]) for token in tokens]
    assert places == [(None, None), (0, 1), (1, 2), (3, 7), (None, None)]


@pytest.mark.parametrize(
    ("route", "request_", "reads"),
    [
        ("/embed", {"model": "classifier", "inputs": "a " * 30}, None),  # vectors are made of up to 40 pieces
        ("/embed", {"model": "classifier", "inputs": "a " * 39}, 40),
        ("/predict", {"model": "classifier", "inputs": "a " * 30}, 24),
        ("/rerank", {"query": "a?", "texts": ["a " * 30]}, None),  # read in windows
        (
            "/similarity",
            {"model": "classifier", "inputs": {"source_sentence": "a", "sentences": ["a " * 39]}},
            40,
        ),
    ],
)
def test_truncate_false_refuses_long_inputs(
    client: Client, route: str, request_: dict[str, Any], reads: int | None
) -> None:
    client.ask(route, **request_)
    options: dict[str, Any] = {"truncate": False}
    request_ |= {"parameters": options} if route == "/similarity" else options
    if reads is None:
        client.ask(route, **request_)
    else:
        assert f"reads {reads}" in client.refusal(route, **request_)
