"""Which features go through the model together."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cloze.corpus.hashing import mix

Indices = npt.NDArray[np.int64]

_EPOCH_ORDER, _HELD_OUT, _SUBSET = 21, 22, 23  # which of the random numbers of a data set is meant


def by_length(num_tokens: Sequence[int], max_tokens: int) -> Iterator[Indices]:
    """Cut features into batches of at most `max_tokens` tokens, the longest first, like lengths together."""
    order = np.argsort(-np.asarray(num_tokens, np.int64), kind="stable")
    start = tokens = 0
    for i, index in enumerate(order.tolist()):
        if i > start and tokens + num_tokens[index] > max_tokens:
            yield order[start:i]
            start, tokens = i, 0
        tokens += num_tokens[index]
    if start < len(order):
        yield order[start:]


def epoch_order(count: int, *, seed: int, epoch: int) -> Indices:
    """Return `count` things shuffled: the same order for the same seed and epoch."""
    return np.argsort(mix(seed, _EPOCH_ORDER, epoch, np.arange(count)), kind="stable")


def held_out(count: int, fraction: float, *, seed: int) -> npt.NDArray[np.bool_]:
    """Choose a share of `count` things, one at least: the same ones for the same seed."""
    order = np.argsort(mix(seed, _HELD_OUT, np.arange(count)), kind="stable")
    chosen = np.zeros(count, np.bool_)
    chosen[order[: max(1, round(count * fraction))]] = True
    return chosen


def subset(count: int, size: int, *, seed: int) -> list[int]:
    """Choose `size` of `count` things, in their order: a smaller choice is a part of every larger one."""
    order = np.argsort(mix(seed, _SUBSET, np.arange(count)), kind="stable")
    chosen: list[int] = np.sort(order[:size]).tolist()
    return chosen
