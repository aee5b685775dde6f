"""Scores of classifiers with one label: those of text-embeddings-inference, sentence-transformers and transformers."""

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from clients import client_of, listening

import cloze
from cloze.inference.predictor import Predictor
from cloze.models.heads import BertForSequenceClassification
from cloze.serving.app import create_app
from cloze.serving.limits import Limits
from cloze.serving.served_model import load_models
from cloze.tasks.config import save_finetuned
from cloze.tasks.texts import LabeledText
from helpers import task_of
from tiny_models import SPECIAL, tiny_config, write_checkpoint, write_finetuned

pytestmark = pytest.mark.protected

PIECES = (*SPECIAL, ".", ",", "?", *"abcdefghij", *(f"##{letter}" for letter in "abcdefghij"))
QUERY, TEXTS = "ab c?", ["a b c", "d", "e f g " * 30, "h, j."]
SIGMOID = {"activation_fn": "torch.nn.modules.activation.Sigmoid"}
IDENTITY = {"activation_fn": "torch.nn.modules.linear.Identity"}
CONFIGS: dict[str, tuple[dict[str, object], bool]] = {
    "silent": ({}, True),
    "version 4, sigmoid": ({"sentence_transformers": SIGMOID}, True),
    "version 4, identity": ({"sentence_transformers": IDENTITY}, False),
    "version 3, identity": ({"sbert_ce_default_activation_function": "torch.nn.Identity"}, False),
    "sigmoid of a regression": ({"problem_type": "regression", "sentence_transformers": SIGMOID}, True),
}
"""Entries of config.json, and whether sentence-transformers takes the sigmoid."""


def write_classifier(path: Path, num_labels: int = 1, **entries: object) -> Path:
    """Write a classifier as transformers does, without files of cloze alone."""
    generator = torch.Generator().manual_seed(5)
    encoder = cloze.BertModel(tiny_config(PIECES, max_position_embeddings=40), generator=generator)
    model = BertForSequenceClassification(encoder, num_labels=num_labels, generator=generator)
    write_checkpoint(path, model, PIECES, labels=[f"LABEL_{i}" for i in range(num_labels)])
    (path / "manifest.json").unlink()
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | entries))
    return path


def served_scores(path: Path, *, raw_scores: bool) -> tuple[list[float], list[float]]:
    """Return the scores of /rerank, in the order of the texts, and of /predict."""
    with client_of({"model": path}) as client:
        ranked = client.ask("/rerank", query=QUERY, texts=TEXTS, raw_scores=raw_scores)
        labels = client.ask("/predict", inputs=[[QUERY, text] for text in TEXTS], raw_scores=raw_scores)
    scores = [entry["score"] for entry in ranked]
    assert scores == sorted(scores, reverse=True)
    assert [[entry["label"] for entry in labels_of_text] for labels_of_text in labels] == [["LABEL_0"]] * 4
    by_index = sorted(ranked, key=lambda entry: entry["index"])
    return [entry["score"] for entry in by_index], [entry["score"] for (entry,) in labels]


def cross_encoder(path: Path) -> Any:
    return pytest.importorskip("sentence_transformers").CrossEncoder(str(path), device="cpu")


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.slow
def test_scores_are_those_of_sentence_transformers(tmp_path, name):
    entries, has_sigmoid = CONFIGS[name]
    path = write_classifier(tmp_path / "model", **entries)
    cloze.import_model(path, output=tmp_path / "imported")
    pairs = [(QUERY, text) for text in TEXTS]
    scores = cross_encoder(path).predict(pairs)
    logits = cross_encoder(path).predict(pairs, activation_fn=torch.nn.Identity())
    assert np.allclose(scores, 1 / (1 + np.exp(-logits)) if has_sigmoid else logits, atol=1e-6)
    assert np.ptp(scores) > 0.1
    for directory in (path, tmp_path / "imported"):
        with pytest.warns(UserWarning, match="longer than 40 tokens: truncated"):
            ranked = (ranker := cloze.TextRanker.load(directory, device="cpu"))(QUERY, TEXTS)
        ranker.save(tmp_path / "saved", overwrite=True)
        np.testing.assert_allclose(cross_encoder(tmp_path / "saved").predict(pairs), scores, atol=1e-6)
        by_index = sorted(ranked, key=lambda passage: passage.index)
        np.testing.assert_allclose([passage.score for passage in by_index], scores, atol=1e-5)
        with pytest.warns(UserWarning, match="longer than 40 tokens: truncated"):
            loaded = [answer.score for answer in cloze.load(directory, device="cpu")(pairs)]
        np.testing.assert_allclose(loaded, scores, atol=1e-5)
        for raw_scores, expected in ((False, scores), (True, logits)):
            for found in served_scores(directory, raw_scores=raw_scores):
                np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(cross_encoder(directory).predict(pairs), scores, atol=1e-6)


@pytest.mark.parametrize("activation", ["Sigmoid", "Identity"])
@pytest.mark.slow
def test_cross_encoders_of_version_6_keep_activation_and_length(tmp_path, activation):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    written = sentence_transformers.CrossEncoder(
        str(write_classifier(tmp_path / "model")),
        device="cpu",
        activation_fn=getattr(torch.nn, activation)(),
        max_length=16,
        prompts={"query": "a "},
    )
    path = tmp_path / "version-6"
    written.save(str(path))
    cloze.import_model(path, output=tmp_path / "imported")
    expected = written.predict([(QUERY, text) for text in TEXTS])
    for directory in (path, tmp_path / "imported"):
        for found in served_scores(directory, raw_scores=False):
            np.testing.assert_allclose(found, expected, atol=1e-5)
    ours, theirs = (
        json.loads((directory / "config_sentence_transformers.json").read_text())
        for directory in (tmp_path / "imported", path)
    )
    assert ours == theirs


@pytest.mark.parametrize(("num_labels", "problem_type"), [(1, None), (1, "regression"), (3, None)])
def test_scores_are_those_of_the_pipeline(tmp_path, num_labels, problem_type):
    transformers = pytest.importorskip("transformers")
    entries = {} if problem_type is None else {"problem_type": problem_type}
    path = write_classifier(tmp_path / "model", num_labels, **entries)
    pipeline = transformers.pipeline("text-classification", str(path), device="cpu", top_k=None)
    inputs = [{"text": QUERY, "text_pair": text} for text in TEXTS]
    expected = pipeline(inputs, truncation=True)
    raw = pipeline(inputs, truncation=True, function_to_apply="none")
    with client_of({"model": path}) as client:
        for raw_scores, of_pipeline in ((False, expected), (True, raw)):
            ours = client.ask("/predict", inputs=[[QUERY, text] for text in TEXTS], raw_scores=raw_scores)
            for row, expected_row in zip(ours, of_pipeline, strict=True):
                assert [entry["label"] for entry in row] == [entry["label"] for entry in expected_row]
                scores = [entry["score"] for entry in row]
                np.testing.assert_allclose(scores, [entry["score"] for entry in expected_row], atol=1e-5)


def test_sentence_transformers_scores_regressions_of_cloze_alike(tmp_path):
    task = task_of("regression", minimum=0.0, maximum=1.0, pair_column="pair")
    predictor = Predictor.load(
        write_finetuned(tmp_path / "regression", task, PIECES, max_seq_length=30), device="cpu"
    )
    (tmp_path / "saved").mkdir()
    save_finetuned(tmp_path / "saved", predictor.module, predictor.tokenizer, task, max_seq_length=30)
    scores, _ = predictor.predict([LabeledText(QUERY, text) for text in TEXTS])
    theirs = cross_encoder(tmp_path / "saved").predict([(QUERY, text) for text in TEXTS])
    np.testing.assert_allclose(theirs, scores, atol=1e-5)


@pytest.mark.parametrize(
    ("num_labels", "activation", "message"),
    [
        (1, {"activation_fn": "torch.nn.modules.activation.Tanh"}, "Tanh"),
        (1, {"activation_fn": "os.system"}, "os.system"),
        (3, SIGMOID, "see the task multi-label"),
    ],
)
def test_other_activations_are_refused_by_name(tmp_path, num_labels, activation, message):
    path = write_classifier(tmp_path / "model", num_labels, sentence_transformers=activation)
    with pytest.raises(cloze.InputError, match=message):
        Predictor.load(path, device="cpu")


@pytest.mark.parametrize(
    ("settings", "modules", "message"),
    [
        ({"default_prompt_name": "q", "prompts": {"q": "a "}}, None, "'q'"),
        ({}, [{"type": "sentence_transformers.LogitScore", "path": "1"}], "'LogitScore'"),
    ],
)
def test_prompts_and_modules_of_cross_encoders_are_refused_by_name(tmp_path, settings, modules, message):
    path = write_classifier(tmp_path / "model")
    table = {"model_type": "CrossEncoder", **settings}
    (path / "config_sentence_transformers.json").write_text(json.dumps(table))
    if modules is not None:
        (path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(cloze.InputError, match=message):
        Predictor.load(path, device="cpu")


@pytest.fixture(scope="module")
def ranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_classifier(tmp_path_factory.mktemp("ranker") / "model")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_coheres_client(ranker):
    cohere = pytest.importorskip("cohere")
    from cohere.core import ApiError

    app = create_app(load_models({"model": ranker}, device="cpu"), Limits())
    with listening(app) as address:
        request = {"query": QUERY, "documents": TEXTS}
        expected = httpx.post(f"{address}/v2/rerank", json=request).json()["results"]
        with cohere.ClientV2("key", base_url=address) as theirs:
            found = theirs.rerank(model="model", top_n=3, **request).results
            with pytest.raises(ApiError, match="no model 'other' is served"):
                theirs.rerank(model="other", **request)
        assert [entry.index for entry in found] == [entry["index"] for entry in expected[:3]]
        assert found[0].relevance_score == expected[0]["relevance_score"]


def test_a_regression_of_single_texts_ranks_nothing(tmp_path):
    task = task_of("regression", minimum=1.0, maximum=5.0)
    model = write_finetuned(tmp_path / "stars", task, PIECES, max_seq_length=30)
    with client_of({"stars": model}) as client:
        assert {"predict", "rerank"} & {*client.get("/info").json()["models"][0]["abilities"]} == {"predict"}
        assert "Serve a ranker: cloze finetune ranking" in client.refusal("/rerank", query="a", texts=["b"])
