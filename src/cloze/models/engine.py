"""Engines compute the outputs of a model for a packed batch, NumPy on both sides.

Shapes: T tokens in the packed batch, B sequences.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cloze.data.batch import Indices, PackedBatch, batch_by_length
from cloze.models.batch import to_device
from cloze.models.encoder import get_encoder
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
    def num_parameters(self) -> int:
        """The number of parameters."""

    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        """Return the outputs for a batch, by their names in transformers: [T, …] or [B, …]."""


@dataclass(frozen=True, eq=False)
class TorchEngine:
    """An encoder or a head on one, in PyTorch."""

    module: nn.Module

    def __post_init__(self) -> None:
        self.module.eval()

    @property
    def config(self) -> EncoderConfig:
        """The architecture of the encoder."""
        return get_encoder(self.module).config

    @property
    def device_type(self) -> str:
        """The kind of device that computes: cpu, cuda or mps."""
        return self._device.type

    @property
    def num_parameters(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    @torch.inference_mode()
    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        """Return the outputs for a batch."""
        module: Any = self.module
        return _DeviceOutputs(module.named_outputs(to_device(batch, self._device)))

    @property
    def _device(self) -> torch.device:
        return next(self.module.parameters()).device


class _DeviceOutputs(Mapping[str, FloatArray]):
    """Outputs on a device. Each is copied when it is read, so that the device need not wait after every batch."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors

    def __getitem__(self, name: str) -> FloatArray:
        return self._tensors[name].float().cpu().numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


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
