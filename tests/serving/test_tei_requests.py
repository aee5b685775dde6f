"""Requests by the schema of text-embeddings-inference 1.9, answered as it answers them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clients import Client, client_of

from cloze.inference.embedder import Embedder
from cloze.models.bert import BertModel
from cloze.models.sentence_transformers import SentenceEncoderConfig, save_sentence_encoder_config
from cloze.serving.served_model import ServedModel
from cloze.tokenization.loading import load_tokenizer
from tiny_models import SPECIAL, tiny_config, write_checkpoint

pytestmark = pytest.mark.protected

PIECES = (*SPECIAL, ".", ",", "?", *"abcdefghij", *(f"##{letter}" for letter in "abcdefghij"))
LONG = " ".join("abcdefghij"[i % 10] for i in range(60))
MAX_LENGTH = 20
QUERY = "a b: "


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_checkpoint(
        tmp_path_factory.mktemp("tei") / "encoder", BertModel(tiny_config(PIECES)), PIECES
    )
    settings = SentenceEncoderConfig(
        pooling="mean",
        normalize=True,
        max_seq_length=MAX_LENGTH,
        prompts={"query": QUERY, "empty": ""},
    )
    (path / "manifest.json").unlink()
    save_sentence_encoder_config(path, settings, hidden_size=12)
    return path


@pytest.fixture(scope="module")
def server(encoder: Path) -> Iterator[Client]:
    with client_of({"encoder": encoder}) as client:
        yield client


@pytest.fixture(scope="module")
def embedder(encoder: Path) -> Embedder:
    return Embedder.load(encoder, device="cpu")


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_prompt_names(server: Client, embedder: Embedder) -> None:
    plain, prompted = embedder(["c d"]), embedder([QUERY + "c d"])
    assert not np.allclose(plain, prompted, atol=1e-3)
    for name, expected in ((None, plain), ("empty", plain), ("query", prompted)):
        close(server.ask("/embed", inputs="c d", prompt_name=name), expected)
        close(np.mean(server.ask("/embed_all", inputs=["c d"], prompt_name=name)[0], 0), _raw(embedder, name))
    both = {"source_sentence": "c d", "sentences": ["e"]}
    vectors = embedder([QUERY + "c d", QUERY + "e"])
    parameters = {"prompt_name": "query", "truncate": None, "truncation_direction": "Left"}
    close(server.ask("/similarity", inputs=both, parameters=parameters), [vectors[0] @ vectors[1]])
    (tokens,) = server.ask("/tokenize", inputs="c", prompt_name="query")
    assert [token["text"] for token in tokens] == ["[CLS]", "a", "b", "[UNK]", "c", "[SEP]"]
    refused = server.refusal("/embed", inputs="c", prompt_name="passage")
    assert "no prompt 'passage'. The directory has 'query', 'empty'" in refused


def _raw(embedder: Embedder, name: str | None) -> Any:
    return np.mean(embedder.embed_tokens([(QUERY if name == "query" else "") + "c d"])[0], 0)


@pytest.mark.parametrize("direction", ["Left", "left", "Right", "right", None])
def test_long_texts_are_truncated_on_either_side(
    server: Client, embedder: Embedder, direction: str | None
) -> None:
    words = LONG.split()
    side = words[2 - MAX_LENGTH :] if direction in ("Left", "left") else words[: MAX_LENGTH - 2]
    expected = embedder([" ".join(side)])
    close(server.ask("/embed", inputs=LONG, truncation_direction=direction), expected)
    close(server.ask("/embed", inputs=LONG, truncate=True, truncation_direction=direction), expected)
    assert len(server.ask("/embed_all", inputs=LONG, truncation_direction=direction)[0]) == MAX_LENGTH
    refused = server.refusal("/embed", inputs=LONG, truncate=False, truncation_direction=direction)
    assert f"62 tokens, 'encoder' reads {MAX_LENGTH}" in refused


def test_left_truncation_of_pairs_is_that_of_tokenizers(encoder: Path) -> None:
    tokenizer = load_tokenizer(encoder)
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(str(encoder), truncation_side="left")
    for text, pair in ((LONG, None), (LONG, "a b c"), ("a b c", LONG)):
        ours = tokenizer.encode(text, pair, max_length=MAX_LENGTH, truncation_side="left")
        expected = theirs(text, pair, truncation=True, max_length=MAX_LENGTH)
        assert ours.input_ids == expected["input_ids"]
        assert ours.token_type_ids == expected["token_type_ids"]


def test_classifiers_truncate_on_either_side(client: Client) -> None:
    words = LONG.split()
    for direction, short in (("Left", words[-22:]), ("Right", words[:22])):
        found = client.ask("/predict", inputs=LONG, truncation_direction=direction)
        expected = client.ask("/predict", inputs=" ".join(short))
        assert [entry["label"] for entry in found] == [entry["label"] for entry in expected]
        close([entry["score"] for entry in found], [entry["score"] for entry in expected])


def test_token_ids_are_inputs(server: Client, embedder: Embedder) -> None:
    ids = embedder.tokenizer.encode("c d e").input_ids
    expected = embedder(["c d e"])
    for inputs in (ids, ids[1:-1], [ids]):
        close(server.ask("/embed", inputs=inputs), expected)
        (tokens,) = server.ask("/embed_all", inputs=inputs)
        assert len(tokens) == 5
    mixed = server.ask("/embed", inputs=[ids, "f g", ids[1:-1]])
    close(mixed, embedder(["c d e", "f g", "c d e"]))
    close(server.ask("/embed", inputs=ids, prompt_name="query"), embedder([QUERY + "c d e"]))
    assert "token id 999 is not in the vocabulary" in server.refusal("/embed", inputs=[[999]])


def test_names_of_the_model(server: Client, client: Client) -> None:
    for name in (None, "encoder", "text-embeddings-inference"):
        server.ask("/embed", inputs="a", model=name)
        server.ask("/v1/embeddings", input="a", model=name)
        server.ask("/embeddings", input="a", model=name)
    assert "no model 'other' is served" in server.refusal("/embed", inputs="a", model="other")
    info = server.get("/info").json()
    assert info["served_model_name"] == info["model_id"] == "encoder"
    assert info["model_type"] == {"embedding": {"pooling": "mean"}}
    assert info["max_input_length"] == MAX_LENGTH
    refused = client.refusal("/embed", inputs="a", model="text-embeddings-inference")
    assert "Choose from bert, classifier, tagger" in refused


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bert", "embedding"),
        ("classifier", "classifier"),
        ("ranker", "reranker"),
        ("squad", "embedding"),
    ],
)
def test_info_names_the_kind_of_the_model(
    models: Mapping[str, ServedModel], directories: Mapping[str, Path], name: str, kind: str
) -> None:
    with client_of({"first": models[name]}) as client:
        info = client.get("/info").json()["model_type"]
        assert client.get("/").status_code == 200
        assert client.post("/", json={"inputs": "a"}).status_code == 405
        assert client.post("/vertex", json={"instances": [{"inputs": "a"}]}).status_code == 404
    assert list(info) == [kind]
    if kind != "embedding":
        labels = json.loads((directories[name] / "config.json").read_text())
        assert info[kind] == {key: labels[key] for key in ("id2label", "label2id")}


def test_parameters_of_text_classification(models: Mapping[str, ServedModel]) -> None:
    with client_of({"model": models["classifier"]}) as client:
        plain = client.ask("/predict", inputs="a b")
        assert client.ask("/predict", inputs="a b", parameters={}) == [plain]
        assert client.ask("/predict", inputs="a b", parameters={"top_k": 1}) == [plain[:1]]
        logits = client.ask("/predict", inputs="a b", raw_scores=True)
        functions = {
            "none": lambda logits: logits,
            "sigmoid": lambda logits: 1 / (1 + np.exp(-logits)),
            "softmax": lambda logits: np.exp(logits) / np.exp(logits).sum(),
        }
        for name, function in functions.items():
            (found,) = client.ask("/predict", inputs="a b", parameters={"function_to_apply": name})
            assert [entry["label"] for entry in found] == [entry["label"] for entry in logits]
            expected = function(np.array([entry["score"] for entry in logits]))
            close([entry["score"] for entry in found], expected)
        parameters = {"function_to_apply": "sigmoid"}
        assert "exclude" in client.refusal("/predict", inputs="a", raw_scores=True, parameters=parameters)
