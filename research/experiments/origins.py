"""Encoders of a study that are not pre-trained: a checkpoint, or a combination of the encoders of other variants.

RUN/origin.json   the kind, its sources, and the SHA-256 of their weights
RUN/start/        the combined encoder
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import torch

from cloze import artifacts, file_io
from cloze.errors import InputError
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import KIND, load_model, save_model
from cloze.models.encoder import Encoder
from cloze.models.weight_files import weight_files
from cloze.tokenization.loading import load_tokenizer
from experiments.encoders.bidirectional_lm import BidirectionalLM
from experiments.encoders.bilstm_on_top import BiLSTMOnBert

OriginKind: TypeAlias = Literal["checkpoint", "bilstm_on", "concatenates"]

_ORIGIN = "origin.json"
_WEIGHTS = "weights"
START = "start"
"""The combined encoder, beside which its sources are not needed."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of an encoder that is not pre-trained."""

    kind: OriginKind
    sources: tuple[Path, ...]
    """Checkpoints or runs."""

    def check(self, directory: Path, trained: Collection[Path]) -> None:
        """Refuse a run whose encoder has another origin.

        Args:
            trained: the runs whose encoders will not change any more.
        """
        file = directory / _ORIGIN
        if not file.exists():
            return
        recorded = json.loads(file.read_text("utf-8"))
        differences = []
        if recorded.get(self.kind) != self._names:
            differences.append(f"with another {self.kind} than the study has now")
        for source, weights in zip(self.sources, recorded.get(_WEIGHTS, ()), strict=False):
            is_final = self.kind == "checkpoint" or source in trained
            if is_final and _hash_weights(source) not in (None, weights):
                differences.append(f"from other weights than {source} has now")
        if differences:
            remedy = "Choose another --output, or delete it"
            raise InputError(f"was made {differences[0]}", where=directory, remedy=remedy)

    def encoder(self, directory: Path, seed: int) -> Path:
        """Return a checkpoint with the encoder of a run, which is made and recorded if needed."""
        if not (file := directory / _ORIGIN).exists():
            weights = [_hash_weights(source) for source in self.sources]
            file_io.write_json(file, {self.kind: self._names, _WEIGHTS: weights})
        if self.kind == "checkpoint":
            return resolve_checkpoint(self.sources[0], "latest")
        start = directory / START
        if not start.exists():
            checkpoints = [resolve_checkpoint(source, "latest") for source in self.sources]
            model = combine(self.kind, [load_model(checkpoint) for checkpoint in checkpoints], seed)
            with artifacts.write_directory(start, kind=KIND) as temporary:
                save_model(temporary, model, load_tokenizer(checkpoints[0]))
        return start

    @property
    def _names(self) -> list[str]:
        """The path of a checkpoint, or the variants that are combined."""
        return [str(path) if self.kind == "checkpoint" else path.parent.name for path in self.sources]


def _hash_weights(source: Path) -> list[str] | None:
    """Return the SHA-256 of the weight files of a checkpoint or a run's newest; None if they are not there."""
    try:
        files = weight_files(resolve_checkpoint(source, "latest"))
    except InputError:
        return None
    return [file_io.sha256_of_file(file) for file in files] if all(file.is_file() for file in files) else None


def combine(kind: Literal["bilstm_on", "concatenates"], encoders: Sequence[Encoder], seed: int) -> Encoder:
    """Return an encoder made from others."""
    if kind == "concatenates":
        return BidirectionalLM.of(*encoders)
    return BiLSTMOnBert.of(encoders[0], generator=torch.Generator().manual_seed(seed))
