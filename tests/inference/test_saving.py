"""Loaded models have a short repr, and what they save gives the same answers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cloze
from cloze import artifacts
from cloze.errors import InputError
from cloze.inference.ensemble import load_ensemble
from cloze.models.bert import BertModel
from cloze.models.heads import BertForPreTraining
from cloze.tasks.custom import Classification, CustomTagging
from cloze.tasks.squad import SquadV2
from tiny_models import SPECIAL, tiny_config, write_checkpoint, write_finetuned

TOKENS = (*SPECIAL, *"abcdefgh")
TASKS = {
    "TextClassifier": Classification(labels=("bad", "good", "so-so"), text_column="said"),
    "EntityTagger": CustomTagging(labels=("O", "B-X", "I-X")),
    "QuestionAnswerer": SquadV2(doc_stride=5, null_threshold=0.5, max_query_length=4),
}
ANSWERS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "TextClassifier": ("'model', 3 classes, 1.9k parameters", lambda my: my(["a b", "c"])),
    "EntityTagger": ("'model', 3 classes, 1.9k parameters", lambda my: my(["a b", "c"])),
    "QuestionAnswerer": ("'model', 1.9k parameters", lambda my: my(["a"], ["c d e"])),
    "FillMask": ("'model', 2.1k parameters", lambda my: my("a [MASK] b")),
    "NextSentence": ("'model', 1.9k parameters", lambda my: my("a", "b")),
    "SentenceScorer": ("'model', 2.1k parameters", lambda my: my(["a b", "c"])),
    "Embedder": ("'model', width 12, 1.9k parameters", lambda my: my(["a b", "c"]).tolist()),
}


def write_model(name: str, path: Path) -> Path:
    if name in TASKS:
        return write_finetuned(path, TASKS[name], TOKENS, max_seq_length=16)
    return write_checkpoint(path, BertForPreTraining(BertModel(tiny_config(TOKENS))), TOKENS)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_saved_model_gives_the_same_answers(name: str, tmp_path: Path) -> None:
    shown, answer = ANSWERS[name]
    model: Any = getattr(cloze, name)
    loaded = model.load(write_model(name, tmp_path / "model"), device="cpu")
    assert repr(loaded) == f"{name}({shown})"
    (tmp_path / "model" / "README.md").write_text("license: cc-by-sa-4.0\n")
    loaded.save(str(tmp_path / "again"))
    artifacts.verify(tmp_path / "again", kind="checkpoint")
    assert (tmp_path / "again" / "README.md").read_text() == "license: cc-by-sa-4.0\n"
    again = model.load(tmp_path / "again", device="cpu")
    assert repr(again) == repr(loaded).replace("'model'", "'again'")
    assert answer(again) == answer(loaded)
    with pytest.raises(InputError, match="again: already exists"):
        loaded.save(tmp_path / "again")
    loaded.save(tmp_path / "again", overwrite=True)
    with pytest.raises(InputError, match="is an input, and would be replaced"):
        loaded.save(tmp_path / "model", overwrite=True)


def test_changed_settings_are_saved(tmp_path: Path) -> None:
    predictor = cloze.load(write_model("TextClassifier", tmp_path / "model"), device="cpu")
    replace(predictor, task=replace(predictor.task, long_texts="windows")).save(tmp_path / "again")
    assert cloze.load(tmp_path / "again", device="cpu").task.long_texts == "windows"


def test_the_name_is_that_of_the_run(tmp_path: Path) -> None:
    for inner in ("checkpoints/step-00000010", "trials/seed-7/checkpoints/step-00000010"):
        path = write_model("TextClassifier", tmp_path / "triage" / inner)
        assert repr(cloze.TextClassifier.load(path, device="cpu")).startswith("TextClassifier('triage', ")


def test_vectors_of_other_layers_and_ensembles_are_refused(tmp_path: Path) -> None:
    path = write_model("Embedder", tmp_path / "model")
    for settings in ({"layers": (0,)}, {"pooling": "idf_mean"}, {"precision": "bfloat16"}):
        with pytest.raises(InputError, match="only the last layer"):
            cloze.Embedder.load(path, device="cpu", **settings).save(tmp_path / "again")
    models = [
        write_finetuned(tmp_path / str(seed), TASKS["TextClassifier"], TOKENS, seed=seed) for seed in (1, 2)
    ]
    with pytest.raises(InputError, match="an ensemble is several models"):
        load_ensemble(models, device="cpu").save(tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_sentence_transformers_reads_a_saved_embedder(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    path = write_model("Embedder", tmp_path / "model")
    embedder = cloze.Embedder.load(path, device="cpu", pooling="max", normalize=True, max_seq_length=9)
    embedder.save(tmp_path / "again")
    theirs = library.SentenceTransformer(str(tmp_path / "again"), device="cpu")
    texts = ["a b", "c d e " * 9]
    np.testing.assert_allclose(theirs.encode(texts), embedder(texts), atol=1e-6)
