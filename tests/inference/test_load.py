"""Each class loads, answers one input as in a list, shows itself shortly, and saves a model with the same answers.

All heads of a model share its weights.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cloze
from answering_models import INPUTS, TOKENS, answers, write_models
from cloze import artifacts
from cloze.inference.answerer import open_model
from cloze.inference.model import Ensemble
from cloze.models.bert import BertModel
from cloze.models.heads import BertForMaskedLM, BertForPreTraining
from cloze.serving.served_model import ServedModel
from cloze.tokenization.loading import load_tokenizer
from tiny_models import tiny_config, write_checkpoint

FACTS: Mapping[str, str] = {
    "TextClassifier": "3 classes, 1.9k parameters",
    "MultiLabelClassifier": "3 classes, 1.9k parameters",
    "TextRegressor": "1.9k parameters",
    "TextRanker": "1.9k parameters",
    "EntityTagger": "3 classes, 1.9k parameters",
    "QuestionAnswerer": "1.9k parameters",
    "ChoiceAnswerer": "1.9k parameters",
    "FillMask": "2.1k parameters",
    "SentenceScorer": "2.1k parameters",
    "NextSentence": "1.9k parameters",
    "Embedder": "width 12, 1.9k parameters",
}

LOAD_SERVED_MODEL = """
import sys
from pathlib import Path
import cloze
cloze.configure_process("requests")  # as the server does
from cloze.serving.served_model import ServedModel

def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

small, large = map(Path, sys.argv[1:3])
ServedModel.load("small", small, precision=sys.argv[3])  # imports and buffers
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
before = memory("VmRSS")
served = ServedModel.load("large", large, precision=sys.argv[3])
print((memory("VmHWM") - before) / (large / "model.safetensors").stat().st_size)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    place = tmp_path_factory.mktemp("models")
    write_models(place)
    return {name: cloze.load(place / name, device="cpu") for name in INPUTS}


def test_a_model_is_loaded_as_the_class_that_answers_with_it(models, tmp_path):
    for name, model in models.items():
        assert type(model) is getattr(cloze, name)
        assert isinstance(model.encoder, BertModel)
        assert model.tokenizer.encode("a b").input_ids == [2, 5, 6, 3]
    more_rows = tiny_config(TOKENS, vocab_size=len(TOKENS) + 3)
    path = write_checkpoint(tmp_path / "model", BertForMaskedLM(BertModel(more_rows)), TOKENS)
    fill_mask = cloze.load(path, device="cpu")
    assert type(fill_mask) is cloze.FillMask
    assert {candidate.token for candidate in fill_mask("[MASK]", top_k=len(TOKENS))[0]} == {*TOKENS}
    assert type(cloze.load("cloze-mini-sentences", device="cpu")) is cloze.Embedder


@pytest.mark.parametrize("name", INPUTS)
def test_one_input_is_answered_as_in_a_list_and_results_are_shown(name, models):
    model, inputs = models[name], INPUTS[name]
    in_two_lists = name in ("TextRanker", "ChoiceAnswerer")
    together = answers(name, model)
    assert len(together) == 2
    assert len(model([], []) if in_two_lists else model([])) == 0
    for one, expected in zip(inputs, together, strict=True):
        alone = model(*one) if in_two_lists else model(one)
        if name == "Embedder":
            assert alone == pytest.approx(expected, abs=1e-5)
            continue
        assert _rounded(alone) == _rounded(expected)
        result = alone
        while isinstance(result, list):
            result = result[0] if result else None
        if result is not None:
            assert repr(result).startswith(type(result).__name__ + "(")
            assert "<table><tr><th>" in result._repr_html_()


def _rounded(value: Any) -> Any:
    """Return a result as its repr, without the last digits, which depend on the batch."""
    return [_rounded(item) for item in value] if isinstance(value, list) else repr(value)


def test_passages_are_ranked(models):
    ranker, passages = models["TextRanker"], ["c", "a", "d e"]
    ranked = ranker("a b", passages)
    assert sorted(passage.index for passage in ranked) == [0, 1, 2]
    assert [passages[passage.index] for passage in ranked] == [passage.text for passage in ranked]
    scores = [passage.score for passage in ranked]
    assert scores == sorted(scores, reverse=True)
    assert ranker("a b", passages, top_k=1) == ranked[:1]
    with pytest.raises(cloze.InputError, match="passages: 1 lists, expected 2"):
        ranker(["a", "b"], [["c"]])
    with pytest.raises(cloze.InputError, match="choices has 1 texts"):
        models["ChoiceAnswerer"]("a", ["b"])


@pytest.mark.parametrize("name", FACTS)
def test_a_saved_model_gives_the_same_answers(name, models, tmp_path):
    model_class: Any = getattr(cloze, name)
    directory = shutil.copytree(models.get(name, models["FillMask"]).directory, tmp_path / "model")
    (directory / "README.md").write_text("license: cc-by-sa-4.0\n")
    loaded = model_class.load(directory, device="cpu")
    assert repr(loaded) == f"{name}('model', {FACTS[name]})"
    loaded.save(str(tmp_path / "again"))
    artifacts.verify(tmp_path / "again", kind="checkpoint")
    assert (tmp_path / "again" / "README.md").read_text() == "license: cc-by-sa-4.0\n"
    again = model_class.load(tmp_path / "again", device="cpu")
    assert repr(again) == repr(loaded).replace("'model'", "'again'")
    np.testing.assert_equal(answers(name, again), answers(name, loaded))
    with pytest.raises(cloze.InputError, match="again: already exists"):
        loaded.save(tmp_path / "again")
    loaded.save(tmp_path / "again", overwrite=True)
    with pytest.raises(cloze.InputError, match="is an input, and would be replaced"):
        loaded.save(directory, overwrite=True)


def test_changed_settings_are_saved(models, tmp_path):
    classifier = models["TextClassifier"]
    replace(classifier, task=classifier.task.with_settings({"long_texts": "windows"})).save(
        tmp_path / "again"
    )
    assert cloze.load(tmp_path / "again", device="cpu").task.answer.long_texts == "windows"


def test_the_name_is_that_of_the_run(models, tmp_path):
    for inner in ("checkpoints/step-00000010", "trials/seed-7/checkpoints/step-00000010"):
        path = shutil.copytree(models["TextClassifier"].directory, tmp_path / "triage" / inner)
        assert repr(cloze.TextClassifier.load(path, device="cpu")).startswith("TextClassifier('triage', ")


def test_vectors_of_other_layers_and_ensembles_are_not_saved(models, tmp_path):
    path = models["Embedder"].directory
    with pytest.raises(cloze.InputError, match="only the last layer"):
        cloze.Embedder.load(path, device="cpu", layers=(0,)).save(tmp_path / "again")
    first = models["TextClassifier"]
    ensemble = replace(first, model=Ensemble([first.model] * 2))
    with pytest.raises(cloze.InputError, match="an ensemble has no weights"):
        ensemble.save(tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_sentence_transformers_reads_a_saved_embedder(models, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    path = models["Embedder"].directory
    embedder = cloze.Embedder.load(path, device="cpu", pooling="max", normalize=True, max_seq_length=9)
    embedder.save(tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").model_max_length == 9
    theirs = library.SentenceTransformer(str(tmp_path / "again"), device="cpu")
    texts = ["a b", "c d e " * 9]
    np.testing.assert_allclose(theirs.encode(texts), embedder(texts), atol=1e-6)


def test_all_heads_share_the_encoder(tmp_path):
    path = write_checkpoint(tmp_path / "model", BertForPreTraining(BertModel(tiny_config(TOKENS))), TOKENS)
    model = open_model(path, device="cpu")
    fill_mask, next_sentence = cloze.FillMask(model), cloze.NextSentence(model)
    assert fill_mask.module is not next_sentence.module
    assert fill_mask.encoder is next_sentence.encoder is model.encoder
    assert fill_mask("a [MASK]") == cloze.FillMask.load(path, device="cpu")("a [MASK]")
    assert next_sentence("a", "b") == cloze.NextSentence.load(path, device="cpu")("a", "b")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads /proc")
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_served_model_is_in_memory_once_even_while_it_is_loaded(precision, tmp_path):
    sizes = {"hidden_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "intermediate_size": 4096}
    models = []
    for name, config in (("small", tiny_config(TOKENS)), ("large", tiny_config(TOKENS, **sizes))):
        models.append(write_checkpoint(tmp_path / name, BertForPreTraining(BertModel(config)), TOKENS))
        if precision == "int8":
            ServedModel.load(
                name, models[-1], device="cpu", precision=precision
            )  # traced once, for the cache
    command = [sys.executable, "-c", LOAD_SERVED_MODEL, *map(str, models), precision]
    copies = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(copies) < 1.3
