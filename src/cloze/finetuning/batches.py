"""Order and choice of examples: epochs, held-out ones, samples."""

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from cloze.data.batch import Indices
from cloze.data.hashing import mix

_EPOCH_ORDER, _HELD_OUT, _SUBSET = 21, 22, 23  # purposes of random numbers


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
