"""Engines compute the outputs of a model for a packed batch, NumPy on both sides.

Shapes: T tokens in the packed batch, B sequences.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from cloze.data.batch import Indices, PackedBatch, batch_by_length
from cloze.models.encoder_config import EncoderConfig

FloatArray: TypeAlias = npt.NDArray[np.float32]
BatchT = TypeVar("BatchT", bound=PackedBatch)

_MAX_TOKENS_ON_CPU = 1024  # the widest activations of 1,024 tokens stay in the cache
_MAX_TOKENS = 65_536  # other devices need more work at once


class Engine(Protocol):
    """A model on a device, in a number format."""

    @property
    def config(self) -> EncoderConfig:
        """The architecture of the encoder."""

    @property
    def device_type(self) -> str:
        """The kind of device that computes: cpu, cuda or mps."""

    @property
    def number_format(self) -> str:
        """The format of matrix products."""

    @property
    def num_parameters(self) -> int:
        """The number of parameters."""

    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        """Return the outputs for a batch, by their names in transformers: [T, …] or [B, …]."""


def fastest_batch_tokens(device_type: str) -> int:
    """Return the number of tokens that an encoder reads at once where it is fastest."""
    return _MAX_TOKENS_ON_CPU if device_type == "cpu" else _MAX_TOKENS


def run_by_length(
    engine: Engine,
    num_tokens: Sequence[int],
    make_batch: Callable[[Indices], BatchT],
    *,
    max_tokens: int | None = None,
) -> Iterator[tuple[Indices, BatchT, Mapping[str, FloatArray]]]:
    """Yield batches of inputs of similar lengths: their indices, the batch and its outputs.

    Args:
        engine: the model.
        num_tokens: the length of each input.
        make_batch: packs the inputs of some indices.
        max_tokens: of a batch; None is where the device is fastest.
    """
    for indices in batch_by_length(num_tokens, max_tokens or fastest_batch_tokens(engine.device_type)):
        batch = make_batch(indices)
        yield indices, batch, engine.run(batch)
