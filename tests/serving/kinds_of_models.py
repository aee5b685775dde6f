"""Models of every kind, small and random."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import cloze
from cloze.models.heads import BertForPreTraining
from cloze.models.sentence_transformers import SentenceEncoderConfig, save_sentence_encoder_config
from helpers import task_of
from tiny_models import tiny_config, write_checkpoint

LETTERS = "abcdefghij"
PIECES = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "?"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
)
CONFIG = tiny_config(PIECES, num_hidden_layers=2, max_position_embeddings=40)
TASKS: dict[str, cloze.Task] = {
    "classifier": task_of("classification", labels=("bad", "good", "so-so")),
    "tagger": task_of("tagging", labels=("O", "B-X", "I-X", "B-Y", "I-Y")),
    "squad": task_of("squad_v2", null_threshold=-0.25, doc_stride=8),
    "chooser": task_of("multiple-choice"),
    "ranker": task_of("ranking"),
    "topics": task_of("multi-label", labels=("x", "y"), thresholds={"x": 0.25}),
    "matcher": task_of("classification", labels=("other", "same"), pair_column="pair"),
}


def write_model(
    path: Path, head: Callable[[cloze.BertModel], nn.Module], task: cloze.Task | None = None
) -> Path:
    model = head(cloze.BertModel(CONFIG, generator=torch.Generator().manual_seed(len(path.name))))
    problem_type = None if task is None else task.answer.problem_type
    return write_checkpoint(path, model, PIECES, task, max_seq_length=24, problem_type=problem_type)


def write_models(folder: Path) -> dict[str, Path]:
    """Write a model of every kind; return where they are by their names."""
    generator = torch.Generator().manual_seed(3)
    found = {"bert": write_model(folder / "bert", lambda bert: BertForPreTraining(bert, generator=generator))}
    for name, task in TASKS.items():
        found[name] = write_model(
            folder / name, lambda bert, t=task: t.answer.head(bert, generator=generator), task=task
        )
    return found | {"encoder": write_sentence_encoder(folder / "encoder")}


def write_sentence_encoder(path: Path) -> Path:
    """Write an encoder with prompts and a short limit, in the files of sentence-transformers."""
    write_checkpoint(path, cloze.BertModel(CONFIG, generator=torch.Generator().manual_seed(4)), PIECES)
    (path / "manifest.json").unlink()
    prompts = {"query": "a b: ", "empty": ""}
    settings = SentenceEncoderConfig(pooling="mean", normalize=True, max_seq_length=20, prompts=prompts)
    save_sentence_encoder_config(path, settings, hidden_size=CONFIG.hidden_size)
    return path
