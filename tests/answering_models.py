"""A random model for each class that answers, and inputs for it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cloze
from cloze.models.encoder import Encoder
from cloze.models.heads import BertForNextSentencePrediction, BertForPreTraining
from cloze.models.sentence_transformers import SentenceEncoderConfig, save_sentence_encoder_config
from helpers import task_of
from tiny_models import SPECIAL, tiny_config, write_checkpoint, write_finetuned

TOKENS = (*SPECIAL, *"abcdefgh")
TASKS: Mapping[str, cloze.Task] = {
    "TextClassifier": task_of("classification", labels=("bad", "good", "so-so")),
    "MultiLabelClassifier": task_of("multi-label", labels=("x", "y", "z"), thresholds=0.01),
    "TextRegressor": task_of("regression", minimum=0.0, maximum=5.0, pair_column="pair"),
    "TextRanker": task_of("ranking"),
    "EntityTagger": task_of("tagging", labels=("O", "B-X", "I-X")),
    "QuestionAnswerer": task_of("squad_v2", null_threshold=1e9),
    "ChoiceAnswerer": task_of("multiple-choice"),
}
HEADS: Mapping[str, Callable[[Encoder], Any]] = {
    "FillMask": BertForPreTraining,
    "NextSentence": BertForNextSentencePrediction,
    "Embedder": lambda encoder: encoder,
}
INPUTS: Mapping[str, tuple[Any, ...]] = {
    "TextClassifier": ("a b", "c"),
    "MultiLabelClassifier": ("a b", "c"),
    "TextRegressor": (("a", "b c"), ("d", "e")),
    "TextRanker": (("a b", ["c", "a", "d e"]), ("d", ["e", "f"])),
    "EntityTagger": ("a b", "c"),
    "QuestionAnswerer": (("a", "b c d"), ("d", "e f")),
    "ChoiceAnswerer": (("a b", ["c", "d"]), ("d", ["e", "f", "a"])),
    "FillMask": ("a [MASK]", "[MASK] b [MASK]"),
    "NextSentence": (("a", "b"), ("c d", "e")),
    "Embedder": ("a b", "c"),
}


def write_models(folder: Path) -> None:
    """Write the models into folders by the names of their classes."""
    for name, task in TASKS.items():
        write_finetuned(folder / name, task, TOKENS, max_seq_length=16)
    for name, head in HEADS.items():
        write_checkpoint(folder / name, head(cloze.BertModel(tiny_config(TOKENS))), TOKENS)


def write_graphs(folder: Path) -> None:
    """Write the models and a model of texts into `models`, and the graphs of all into `graphs`."""
    write_models(folder / "models")
    vectors = write_checkpoint(folder / "models" / "Vectors", cloze.BertModel(tiny_config(TOKENS)), TOKENS)
    settings = SentenceEncoderConfig(
        pooling="max",
        normalize=True,
        max_seq_length=9,
        prompts={"query": "a "},
        default_prompt_name="query",
        truncate_dim=7,
    )
    (vectors / "manifest.json").unlink()
    save_sentence_encoder_config(vectors, settings, hidden_size=12)
    for model in (folder / "models").iterdir():
        cloze.export_model(model, output=folder / "graphs" / model.name)


def answers(name: str, model: Any) -> Any:
    """Return the answers of a model to both inputs."""
    if name in ("TextRanker", "ChoiceAnswerer"):
        return model(*map(list, zip(*INPUTS[name], strict=True)))
    return model(list(INPUTS.get(name, ("a b", "c"))))


def flat(value: Any) -> list[Any]:
    """Return the texts and numbers of an answer in order."""
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return flat(asdict(value))
    if isinstance(value, Mapping):
        return [part for key in value for part in [key, *flat(value[key])]]
    if isinstance(value, list | tuple):
        return [part for item in value for part in flat(item)]
    return [value]


def assert_same(found: Any, expected: Any, *, tolerance: float = 1e-4) -> None:
    pairs = list(zip(flat(found), flat(expected), strict=True))
    assert pairs
    for one, other in pairs:
        assert one == (pytest.approx(other, abs=tolerance) if isinstance(other, float) else other)
