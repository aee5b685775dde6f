"""Small files and models for the tests of the command line, and settings of runs that take a second."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cloze import artifacts
from cloze.models.bert import BertConfig, BertModel
from cloze.models.checkpoint import save_model
from cloze.tokenization.wordpiece import WordPieceTokenizer

REPOSITORY = Path(__file__).resolve().parents[2]
NANO = tuple(
    f"--set={setting}"
    for setting in (
        "precision=float32",
        "device=cpu",
        "micro_batch_tokens=256",
        "model.num_hidden_layers=1",
        "model.hidden_size=16",
        "model.num_attention_heads=2",
        "model.intermediate_size=24",
        "model.max_position_embeddings=32",
        "phases=[{max_seq_length=32, fraction=1, batch_size=8}]",
        "optimizer.learning_rate=1e-3",
        "evaluation.times=2",
        "evaluation.max_instances=16",
    )
)
"""Settings of pre-training."""
NANO_TASK = tuple(
    f"--set={setting}"
    for setting in ("precision=float32", "device=cpu", "max_seq_length=32", "micro_batch_tokens=256")
)
"""Settings of fine-tuning."""


@dataclass(frozen=True)
class Samples:
    """Paths of a text, a vocabulary, a data set, a run, labeled data and a classifier."""

    text: Path
    vocab: Path
    data: Path
    run: Path
    table: Path
    classifier: Path

    @property
    def checkpoint(self) -> Path:
        return sorted((self.run / "checkpoints").iterdir())[-1]


def sample_paths(tmp: Path, samples: Samples) -> dict[str, Path]:
    return {"tmp": tmp, "out": tmp / "out", "checkpoint": samples.checkpoint, **asdict(samples)}


def fill_in(template: str, paths: dict[str, Path]) -> str:
    for name, path in paths.items():
        template = template.replace("{" + name + "}", str(path))
    return template


class Printed(NamedTuple):
    """Output of a command."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Cloze = Callable[..., Printed]
"""The fixture `cloze`."""


FILM_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "book")


def save_film_encoder(directory: Path, **config: Any) -> None:
    """Save an encoder that learns within seconds whether a film or a book is good or bad."""
    bert_config = BertConfig(
        vocab_size=len(FILM_TOKENS),
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=16,
        initializer_range=0.2,
        **config,
    )
    with artifacts.write_directory(directory, kind="checkpoint") as checkpoint:
        encoder = BertModel(bert_config, generator=torch.Generator().manual_seed(1))
        save_model(checkpoint, encoder, WordPieceTokenizer.from_tokens(FILM_TOKENS))
