"""Engines compute the outputs of a model for a packed batch, NumPy on both sides.

Shapes: T tokens in the packed batch, B sequences.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from cloze.data.batch import Indices, PackedBatch, batch_by_length
from cloze.models.encoder_config import EncoderConfig
from cloze.models.threads import map_concurrently, num_concurrent_batches

FloatArray: TypeAlias = npt.NDArray[np.float32]
BatchT = TypeVar("BatchT", bound=PackedBatch)

MAX_TOKENS_ON_CPU = 1024
"""Tokens of a batch: their widest activations stay in the cache."""

RUNNING: set[Any] = set()
"""Options of the computations of ONNX Runtime that are running; setting `terminate` ends one."""


class Engine(Protocol):
    """A model on a device, in a number format."""

    @property
    def config(self) -> EncoderConfig:
        """The architecture of the encoder."""

    @property
    def device_type(self) -> str:
        """The kind of device that computes: cpu, cuda or mps."""

    @property
    def batch_tokens(self) -> int:
        """The number of tokens that it reads at once where it is fastest."""

    @property
    def number_format(self) -> str:
        """The format of the encoder's matrix products: float32, bfloat16 or int8."""

    @property
    def num_parameters(self) -> int:
        """The number of parameters."""

    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        """Return the outputs for a batch, by their names in transformers: [T, …] or [B, …]."""


def run_by_length(
    engine: Engine,
    num_tokens: Sequence[int],
    make_batch: Callable[[Indices], BatchT],
    *,
    max_tokens: int | None = None,
) -> Iterator[tuple[Indices, BatchT, Mapping[str, FloatArray]]]:
    """Yield batches of inputs of similar lengths: their indices, the batch and its outputs.

    On a CPU several batches are computed concurrently, if there are enough tokens for all threads. By default batches
    have as many tokens as the device computes fastest.
    """
    limit, total = max_tokens or engine.batch_tokens, sum(num_tokens)
    concurrency = num_concurrent_batches(total) if engine.device_type == "cpu" else 1
    if concurrency > 1:
        # an equal share of the tokens for each, plus half of the longest input, which may not fit
        rounds = -(-total // (limit * concurrency))
        limit = min(limit, -(-total // (rounds * concurrency)) + max(num_tokens) // 2)
    batches = ((indices, make_batch(indices)) for indices in batch_by_length(num_tokens, limit))
    computed = map_concurrently(lambda indexed: engine.run(indexed[1]), batches, concurrency)
    try:
        for (indices, batch), outputs in computed:
            yield indices, batch, outputs
    except KeyboardInterrupt:
        for options in tuple(RUNNING):
            options.terminate = True
        raise
