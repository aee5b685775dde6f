"""Encoders of a study that it does not pre-train: a checkpoint, or what is made of encoders of other variants.

RUN/origin.json   what the encoder is, and the SHA-256 of the weights that it was made of
RUN/start/        the encoder, where it is made of others
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import torch

from cloze import artifacts
from cloze.config import from_table, to_table
from cloze.errors import InputError
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertModel
from cloze.model.bilstm_on_top import BiLSTMOnBert
from cloze.model.checkpoint import KIND, load_model, weight_files, write_model_files
from cloze.model.two_way import TwoWayBert
from cloze.pretraining.config import PretrainConfig
from cloze.text.tokenizer import Tokenizer
from cloze.training.checkpoints import CheckpointConfig

OriginKind: TypeAlias = Literal["checkpoint", "bilstm_on", "concatenates"]
"""Where a variant that is not pre-trained has its encoder from: a checkpoint, or encoders of other variants."""

_ORIGIN = "origin.json"
_WEIGHTS = "weights"
_START = "start"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a run that is not pre-trained has its encoder from."""

    kind: OriginKind
    sources: tuple[Path, ...]
    """Checkpoints or runs."""
    settings: tuple[PretrainConfig, ...] = ()
    """Of the runs; a checkpoint has none."""

    def check(self, directory: Path, trained: Collection[Path]) -> None:
        """Refuse a run that was made of something else.

        Args:
            directory: of the run.
            trained: the runs whose encoders will not change any more.

        Raises:
            InputError: it was; of other settings, or of other weights than a source has now.
        """
        file = directory / _ORIGIN
        if not file.exists():
            return
        found = json.loads(file.read_text("utf-8"))
        made_of = [
            from_table(PretrainConfig, each, where=str(file)) if isinstance(each, dict) else each
            for each in found.get(self.kind, [])
        ]
        if made_of != list(self._made_of()):
            what = f"was made with another {self.kind} than the study has now"
            raise InputError(what, where=directory, remedy="Choose another --output, or delete it")
        for source, weights in zip(self.sources, found.get(_WEIGHTS, ()), strict=False):
            if (self.kind == "checkpoint" or source in trained) and _weights_of(source) not in (
                None,
                weights,
            ):
                what = f"was made of other weights than {source} has now"
                raise InputError(what, where=directory, remedy="Choose another --output, or delete it")

    def is_made(self, directory: Path) -> bool:
        """Say whether the encoder is there, and its sources are not wanted any more."""
        return (directory / _START).exists()

    def encoder(self, directory: Path, seed: int) -> Path:
        """Return a checkpoint with the encoder; what it is is noted, and it is made where it is not there.

        Args:
            directory: of the run.
            seed: of new weights.

        Raises:
            InputError: a source cannot be read, or two do not belong together.
        """
        if not (file := directory / _ORIGIN).exists():
            made_of = [each if isinstance(each, str) else to_table(each) for each in self._made_of()]
            noted = {self.kind: made_of, _WEIGHTS: [_weights_of(source) for source in self.sources]}
            artifacts.write_text(file, json.dumps(noted, indent=1) + "\n")
        if self.kind == "checkpoint":
            return resolve_checkpoint(self.sources[0])
        start = directory / _START
        if not start.exists():
            checkpoints = [resolve_checkpoint(source) for source in self.sources]
            model = combine(self.kind, [load_model(checkpoint) for checkpoint in checkpoints], seed)
            with artifacts.write_directory(start, kind=KIND) as temporary:
                write_model_files(temporary, model, Tokenizer.load(checkpoints[0]))
        return start

    def _made_of(self) -> Iterator[str | PretrainConfig]:
        """Yield what a source is, wherever the data lie and whatever is saved of a run."""
        if self.kind == "checkpoint":
            yield from map(str, self.sources)
        for each in self.settings:
            yield replace(each, data="", checkpoints=CheckpointConfig())


def _weights_of(source: Path) -> list[str] | None:
    """Return what identifies the weights of a checkpoint, or of a run's newest; None where they are not there."""
    try:
        files, _ = weight_files(resolve_checkpoint(source))
    except InputError:
        return None
    return [artifacts.sha256_of(file) for file in files] if all(file.is_file() for file in files) else None


def combine(
    kind: Literal["bilstm_on", "concatenates"], encoders: Sequence[BertModel], seed: int
) -> BertModel:
    """Return the encoder that is made of others."""
    if kind == "concatenates":
        return TwoWayBert.of(*encoders)
    return BiLSTMOnBert.of(encoders[0], generator=torch.Generator().manual_seed(seed))
