"""Encoders of a study that are not pre-trained: a checkpoint, or a combination of the encoders of other variants.

RUN/origin.json   the kind, the settings of its sources, and the SHA-256 of their weights
RUN/start/        the combined encoder
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import torch

from cloze import artifacts, file_io
from cloze.config import from_dict, to_dict
from cloze.errors import InputError
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import KIND, load_model, save_model
from cloze.models.encoder import Encoder
from cloze.models.weight_files import weight_files
from cloze.pretraining.config import PretrainConfig
from cloze.tokenization.loading import load_tokenizer
from cloze.training.checkpoints import CheckpointConfig
from experiments.encoders.bidirectional_lm import BidirectionalLM
from experiments.encoders.bilstm_on_top import BiLSTMOnBert

OriginKind: TypeAlias = Literal["checkpoint", "bilstm_on", "concatenates"]

_ORIGIN = "origin.json"
_WEIGHTS = "weights"
_START = "start"


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of an encoder that is not pre-trained."""

    kind: OriginKind
    sources: tuple[Path, ...]
    """Checkpoints or runs."""
    settings: tuple[PretrainConfig, ...] = ()
    """Settings of the runs; none for a checkpoint."""

    def check(self, directory: Path, trained: Collection[Path]) -> None:
        """Refuse a run whose encoder has another origin.

        Args:
            trained: the runs whose encoders will not change any more.

        Raises:
            InputError: its encoder was made from other settings, or from other weights than a source has now.
        """
        file = directory / _ORIGIN
        if not file.exists():
            return
        recorded = json.loads(file.read_text("utf-8"))
        identities = [
            from_dict(PretrainConfig, identity, where=str(file)) if isinstance(identity, dict) else identity
            for identity in recorded.get(self.kind, [])
        ]
        differences = []
        if identities != self._identities:
            differences.append(f"with another {self.kind} than the study has now")
        for source, weights in zip(self.sources, recorded.get(_WEIGHTS, ()), strict=False):
            is_final = self.kind == "checkpoint" or source in trained
            if is_final and _hash_weights(source) not in (None, weights):
                differences.append(f"from other weights than {source} has now")
        if differences:
            remedy = "Choose another --output, or delete it"
            raise InputError(f"was made {differences[0]}", where=directory, remedy=remedy)

    def is_made(self, directory: Path) -> bool:
        """Return whether the combined encoder exists, so that its sources are not needed."""
        return (directory / _START).exists()

    def encoder(self, directory: Path, seed: int) -> Path:
        """Return a checkpoint with the encoder of a run, which is made and recorded if needed.

        Raises:
            InputError: a source cannot be read, or two do not fit together.
        """
        if not (file := directory / _ORIGIN).exists():
            identities = [
                identity if isinstance(identity, str) else to_dict(identity) for identity in self._identities
            ]
            weights = [_hash_weights(source) for source in self.sources]
            file_io.write_json(file, {self.kind: identities, _WEIGHTS: weights})
        if self.kind == "checkpoint":
            return resolve_checkpoint(self.sources[0], "latest")
        start = directory / _START
        if not start.exists():
            checkpoints = [resolve_checkpoint(source, "latest") for source in self.sources]
            model = combine(self.kind, [load_model(checkpoint) for checkpoint in checkpoints], seed)
            with artifacts.write_directory(start, kind=KIND) as temporary:
                save_model(temporary, model, load_tokenizer(checkpoints[0]))
        return start

    @property
    def _identities(self) -> list[str] | list[PretrainConfig]:
        """The identity of each source: a path, or settings without the place of data and checkpoints."""
        if self.kind == "checkpoint":
            return list(map(str, self.sources))
        return [replace(settings, data="", checkpoints=CheckpointConfig()) for settings in self.settings]


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
