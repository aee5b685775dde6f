"""Serve models that other programs fine-tuned."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cloze.inference.embedder import Embedder
from cloze.models.bert import BertModel
from cloze.models.heads import BertForSequenceClassification, BertForTokenClassification
from cloze.serving.served_model import ServedModel
from tiny_models import SPECIAL, tiny_config, write_checkpoint

PIECES = (*SPECIAL, "a", "b")
LABELS = {"0": "a", "1": "b", "2": "c"}
Head = type[BertForSequenceClassification] | type[BertForTokenClassification]


def foreign(path: Path, head: Head, num_labels: int, **config: object) -> ServedModel:
    """Return what is served of a model whose config says no more than this of its labels."""
    generator = torch.Generator().manual_seed(1)
    model = head(
        BertModel(tiny_config(PIECES), generator=generator), num_labels=num_labels, generator=generator
    )
    write_checkpoint(path, model, PIECES)
    (path / "manifest.json").unlink()
    table = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(table | config))
    return ServedModel.load("foreign", path, device="cpu")


@pytest.mark.parametrize(
    ("num_labels", "config", "task"),
    [
        (2, {}, "classification"),  # transformers does not write down labels that nobody named
        (3, {"id2label": LABELS}, "classification"),
        (1, {"id2label": {"0": "LABEL_0"}}, "regression"),
        (3, {"id2label": LABELS, "problem_type": "multi_label_classification"}, "multi-label"),
    ],
)
def test_the_task_of_a_classifier_follows_its_config(
    tmp_path: Path, num_labels: int, config: dict[str, object], task: str
) -> None:
    served = foreign(tmp_path / "model", BertForSequenceClassification, num_labels, **config)
    assert served.task.name == task
    assert "predict" in served.abilities


def test_a_tagger_without_a_pooler_is_served(tmp_path: Path) -> None:
    """As transformers saves token classification, questions and masked words."""
    labels = {"0": "O", "1": "B-X", "2": "I-X"}
    foreign(tmp_path / "model", BertForTokenClassification, 3, id2label=labels)
    weights = load_file(tmp_path / "model/model.safetensors")
    without = {name: weight for name, weight in weights.items() if "pooler" not in name}
    assert len(without) < len(weights)
    save_file(without, tmp_path / "model/model.safetensors", {"format": "pt"})
    served = ServedModel.load("foreign", tmp_path / "model", device="cpu")
    assert "tag" in served.abilities
    assert Embedder.load(tmp_path / "model", device="cpu")(["a b"]).shape == (1, 12)


def test_an_unusable_head_leaves_the_encoder(tmp_path: Path) -> None:
    unnamed = {"0": "LABEL_0", "1": "LABEL_1"}
    with pytest.warns(UserWarning, match="served without its head: no tagger"):
        served = foreign(tmp_path / "model", BertForTokenClassification, 2, id2label=unnamed)
    assert served.task is None
    assert "embed" in served.abilities


def test_parts_of_speech_are_plain_tags(tmp_path: Path) -> None:
    parts_of_speech = {"0": "NOUN", "1": "VERB"}
    served = foreign(tmp_path / "model", BertForTokenClassification, 2, id2label=parts_of_speech)
    assert served.task.answer.scheme == "plain"
