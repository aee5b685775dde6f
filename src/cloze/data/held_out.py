"""Which documents are held out from training: those with the least digests."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from cloze.data.shards import Digests

_NUM_DIGESTS = 2**64
_HELD_OUT_TOKENS = 40_000  # about 300 sequences of 128 tokens
_MIN_HELD_OUT_FRACTION, _MAX_HELD_OUT_FRACTION = 0.005, 0.1


def choose_validation_fraction(digests: Sequence[Digests], lengths: Sequence[npt.NDArray[np.int64]]) -> float:
    """Return the share of the documents to hold out: 0.005, or more where these have fewer than 40,000 tokens.

    Args:
        digests: of the documents of two sentences or more.
        lengths: their numbers of tokens.
    """
    total = sum(int(some.sum()) for some in lengths)
    if total * _MIN_HELD_OUT_FRACTION >= _HELD_OUT_TOKENS or not total:
        return _MIN_HELD_OUT_FRACTION
    all_digests, all_lengths = np.concatenate(digests), np.concatenate(lengths)
    order = np.argsort(all_digests)
    wanted = min(_HELD_OUT_TOKENS, _MAX_HELD_OUT_FRACTION * total)
    last = order[np.searchsorted(np.cumsum(all_lengths[order]), wanted)]
    return math.nextafter(int(all_digests[last]) / _NUM_DIGESTS, 1.0)


def choose_held_out_threshold(
    digests: Iterable[Digests], validation_fraction: float, *, on_each_side: int
) -> int:
    """Choose the digest below which documents are held out, at least `on_each_side`; 0, for none, if too few."""
    total = 0
    smallest, largest = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    for some in digests:
        total += len(some)
        smallest = np.sort(np.concatenate([smallest, some]))[:on_each_side]
        largest = np.sort(np.concatenate([largest, some]))[-on_each_side:]
    if total < 2 * on_each_side:
        return 0
    low, high = int(smallest[-1]) + 1, int(largest[0])
    return min(max(int(validation_fraction * _NUM_DIGESTS), low), high) if low <= high else 0
