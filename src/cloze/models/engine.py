"""Engines compute one output of a model for packed batches, NumPy on both sides.

Threads that share a batch wait for each other at every operation, on a busy machine also for a processor: so on a CPU
several batches run concurrently, each on its own threads.

Shapes: T tokens in the packed batch, B sequences.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from cloze.choices import Combine, Pooling
from cloze.data.batch import Indices, PackedBatch, batch_by_length
from cloze.models.encoder_config import REQUIRED
from cloze.process import compute_threads, set_intra_op_threads

if TYPE_CHECKING:  # a graph answers without torch
    from torch import nn

    from cloze.models.encoder import Encoder

FloatArray: TypeAlias = npt.NDArray[np.float32]
BatchT = TypeVar("BatchT", bound=PackedBatch)
Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_CONCURRENT_BATCHES = 8  # Python runs one thread at a time between the operations
_MIN_BATCH_TOKENS = 256  # with fewer, one batch on all threads is faster

RUNNING: set[Any] = set()
"""Options of the computations of ONNX Runtime that are running; setting `terminate` ends one."""

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""The inputs of a graph, each [B, L] int64, as tokenizers return them; 1 in the mask is a real token."""
ENCODER_FACTS = (*REQUIRED, "type_vocab_size")
"""What answers of a graph need to know of the encoder, by the names of `EncoderConfig`."""
GRAPH_KIND = "graph"
"""The kind of a directory with a graph, in its manifest."""
GRAPH_PACKAGES = ("onnx", "onnxruntime", "onnxscript")
"""The packages of the extra "onnx", with which graphs are traced."""
MODEL_ITSELF = "Use the model itself in float32 or bfloat16"
"""The remedy where a graph cannot answer."""


@dataclass(frozen=True)
class VectorOutput:
    """The `sentence_embedding` of texts, or the `token_embeddings` of their tokens, from the encoder alone."""

    pooling: Pooling | None
    """None: vectors of tokens."""
    normalize: bool = False
    """Whether vectors of texts are scaled to length 1."""
    truncate_dim: int | None = None
    """Number of dimensions kept of the vector of a text, after that; None keeps all."""
    layers: tuple[int, ...] | None = None
    """From 0, the word-embedding table, to the last; None is the last."""
    combine: Combine = "sum"


@dataclass(frozen=True)
class HeadOutput:
    """The logits of a head."""

    head_name: str | None
    """Its class in `cloze.models.heads`; None for one without a graph."""
    description: str
    """Completes the message that a model is "without" it."""
    num_classes: int = 0
    build: "Callable[[Encoder], nn.Module] | None" = field(default=None, compare=False)
    """Puts the head on an encoder; None: its class does."""


Output: TypeAlias = HeadOutput | VectorOutput


class Engine(Protocol):
    """A model with one head, on a device, in a number format."""

    device_type: str
    """cpu, cuda or mps."""
    num_parameters: int
    batch_tokens: int
    """The number of tokens that it reads at once where it is fastest."""

    @property
    def number_format(self) -> str:
        """That of the encoder's matrix products, as in float32, bfloat16 or int8."""

    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        """Return the outputs for a batch, by their names in transformers: [T, …] or [B, …]."""


class MeanEngine:
    """The mean of the outputs of several engines, in float32."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = engines
        self.device_type, self.number_format = engines[0].device_type, engines[0].number_format
        self.num_parameters = sum(engine.num_parameters for engine in engines)
        self.batch_tokens = min(engine.batch_tokens for engine in engines)

    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        outputs = [engine.run(batch) for engine in self.engines]
        return {name: np.mean([values[name] for values in outputs], axis=0) for name in outputs[0]}


@dataclass(frozen=True)
class Batches(Generic[BatchT]):
    """Inputs that are packed into batches of similar lengths."""

    lengths: Sequence[int]
    """The number of tokens of each input."""
    pack: Callable[[Indices], BatchT]
    """Makes a batch of some inputs."""
    max_tokens: int | None = None
    """Tokens of a batch; None: as many as the device computes fastest."""


def run_batches(
    engine: Engine, batches: Batches[BatchT]
) -> Iterator[tuple[Indices, BatchT, Mapping[str, FloatArray]]]:
    """Yield the indices of inputs, their batch and its outputs, batch after batch.

    On a CPU several batches are computed concurrently, if there are enough tokens for all threads.
    """
    limit, total = batches.max_tokens or engine.batch_tokens, sum(batches.lengths)
    is_divisible = engine.device_type == "cpu" and len(batches.lengths) > 1
    concurrency = num_concurrent_batches(total) if is_divisible else 1
    if concurrency > 1:
        # an equal share of the tokens for each, plus half of the longest input, which may not fit
        rounds = -(-total // (limit * concurrency))
        limit = min(limit, -(-total // (rounds * concurrency)) + max(batches.lengths) // 2)
    packed = ((indices, batches.pack(indices)) for indices in batch_by_length(batches.lengths, limit))
    computed = map_concurrently(lambda indexed: engine.run(indexed[1]), packed, concurrency)
    try:
        for (indices, batch), outputs in computed:
            yield indices, batch, outputs
    except KeyboardInterrupt:
        for options in tuple(RUNNING):
            options.terminate = True
        raise


def num_concurrent_batches(num_tokens: int) -> int:
    """Return how many batches to compute concurrently, given the number of tokens of all batches."""
    if num_tokens < 2 * _MIN_BATCH_TOKENS:
        return 1
    threads = compute_threads()
    concurrency = threads // -(-threads // _MAX_CONCURRENT_BATCHES)
    return concurrency if num_tokens >= concurrency * _MIN_BATCH_TOKENS else 1


def map_concurrently(
    function: Callable[[Item], Result], items: Iterable[Item], concurrency: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each item and its result, in order; several threads divide the threads of operations equally."""
    if concurrency == 1:
        yield from ((item, function(item)) for item in items)
        return
    threads = compute_threads()

    def compute(item: Item) -> Result:
        set_intra_op_threads(threads // concurrency)
        return function(item)

    pool, pending = thread_pool(concurrency), deque[tuple[Item, Future[Result]]]()
    try:
        for item in items:
            pending.append((item, pool.submit(compute, item)))
            if len(pending) > concurrency:
                item, future = pending.popleft()
                yield item, future.result()
        for item, future in pending:
            yield item, future.result()
    finally:
        for _, future in pending:
            future.cancel()
        set_intra_op_threads(threads)  # a new thread takes the number that was set last


@cache
def thread_pool(threads: int) -> ThreadPoolExecutor:
    """Return a thread pool of the process; threads keep their memory between calls, new ones would fault it in."""
    return ThreadPoolExecutor(threads, thread_name_prefix="cloze-batch")


if sys.platform != "win32":  # which forks no processes
    # a forked process has no threads but its first
    os.register_at_fork(after_in_child=thread_pool.cache_clear)
