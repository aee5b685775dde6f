"""Small random models and their checkpoints."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

import cloze
from cloze import artifacts
from cloze.file_names import TASK_FILE
from cloze.models.checkpoint import save_model
from cloze.tasks.config import TaskSettings, to_toml

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SIZES: dict[str, int] = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 28,
    "max_position_embeddings": 32,
}
"""Sizes of a model that transformers writes, all of them different."""


def numbered_tokens(size: int) -> list[str]:
    """Return a vocabulary: the special tokens, w0, w1 and so on."""
    return [*SPECIAL, *(f"w{number}" for number in range(size - len(SPECIAL)))]


def tiny_config(tokens: Sequence[str], **settings: float) -> cloze.BertConfig:
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 20}
    other = {"max_position_embeddings": 30, "initializer_range": 0.5}
    return cloze.BertConfig(**{"vocab_size": len(tokens), **sizes, **other, **settings})


def write_checkpoint(
    path: Path,
    model: nn.Module,
    tokens: Sequence[str],
    task: cloze.Task | None = None,
    *,
    max_seq_length: int = 12,
    labels: Sequence[str] = (),
    problem_type: str | None = None,
) -> Path:
    """Write a model with its tokenizer, and the task it is fine-tuned for."""
    with artifacts.write_directory(path, kind="checkpoint") as directory:
        labels = labels or (() if task is None else task.answer.class_names)
        save_model(
            directory,
            model,
            cloze.WordPieceTokenizer.from_tokens(tokens),
            labels=labels,
            problem_type=problem_type,
        )
        if task is not None:
            (directory / TASK_FILE).write_text(to_toml(task, TaskSettings(max_seq_length=max_seq_length)))
    return path


def write_finetuned(
    path: Path,
    task: cloze.Task,
    tokens: Sequence[str],
    *,
    seed: int = 4,
    max_seq_length: int = 12,
    **settings: float,
) -> Path:
    """Write a random model of a task."""
    generator = torch.Generator().manual_seed(seed)
    encoder = cloze.BertModel(tiny_config(tokens, **settings), generator=generator)
    model = task.answer.head(encoder, generator=generator)
    return write_checkpoint(path, model, tokens, task, max_seq_length=max_seq_length)
