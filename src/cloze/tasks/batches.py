"""Order and batches of features: epochs, held-out examples, samples."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from cloze.data.hashing import mix

Indices = npt.NDArray[np.int64]

_MAX_TOKENS_ON_CPU = 1024  # the widest activations of 1,024 tokens stay in the cache
_MAX_TOKENS = 65_536  # other devices need more work at once

_EPOCH_ORDER, _HELD_OUT, _SUBSET = 21, 22, 23  # purposes of random numbers


def inference_batch_tokens(device: torch.device) -> int:
    """Return the number of tokens that an encoder reads at once where it is fastest."""
    return _MAX_TOKENS_ON_CPU if device.type == "cpu" else _MAX_TOKENS


def batch_by_length(num_tokens: Sequence[int], max_tokens: int) -> Iterator[Indices]:
    """Yield the indices of batches of at most `max_tokens` tokens, of similar lengths, the longest first."""
    order = np.argsort(-np.asarray(num_tokens, np.int64), kind="stable")
    start = tokens = 0
    for i, index in enumerate(order.tolist()):
        if i > start and tokens + num_tokens[index] > max_tokens:
            yield order[start:i]
            start, tokens = i, 0
        tokens += num_tokens[index]
    if start < len(order):
        yield order[start:]


def shuffled_indices(count: int, *, seed: int, epoch: int) -> Indices:
    """Return `count` indices in the random order of a seed and epoch."""
    return np.argsort(mix(seed, _EPOCH_ORDER, epoch, np.arange(count)), kind="stable")


def held_out_mask(count: int, fraction: float, *, seed: int) -> npt.NDArray[np.bool_]:
    """Choose a random share of `count` items, at least one, determined by the seed."""
    order = np.argsort(mix(seed, _HELD_OUT, np.arange(count)), kind="stable")
    chosen = np.zeros(count, np.bool_)
    chosen[order[: max(1, round(count * fraction))]] = True
    return chosen


def stratified_mask(strata: Sequence[Hashable], fraction: float, *, seed: int) -> npt.NDArray[np.bool_]:
    """Choose a random share of items, at least one, with the same share of each stratum up to one item.

    The only item of a stratum is not chosen, unless the others are too few.
    """
    sizes = Counter(strata)
    number = {stratum: i for i, stratum in enumerate(sizes)}
    count = len(strata)
    random = np.argsort(mix(seed, _HELD_OUT, np.arange(count)), kind="stable").tolist()
    eligible = [i for i in random if sizes[strata[i]] > 1]
    size = max(1, round(count * fraction))
    if size > len(eligible):
        return held_out_mask(count, fraction, seed=seed)
    eligible.sort(key=lambda i: number[strata[i]])  # stable: random within a stratum
    positions = (np.arange(size) + 0.5) * len(eligible) / size  # evenly over the strata
    chosen = np.zeros(count, np.bool_)
    chosen[[eligible[int(position)] for position in positions]] = True
    return chosen


def sample_indices(count: int, size: int, *, seed: int) -> list[int]:
    """Choose `size` of `count` indices, in order; a smaller sample is part of every larger one."""
    order = np.argsort(mix(seed, _SUBSET, np.arange(count)), kind="stable")
    chosen: list[int] = np.sort(order[:size]).tolist()
    return chosen
