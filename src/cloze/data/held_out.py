"""Choose the held-out documents: those with the smallest digests."""

import math

import numpy as np

from cloze.data.shards import Digests, Integers

_NUM_DIGESTS = 2**64
_HELD_OUT_TOKENS = 40_000  # about 300 sequences of 128 tokens
_MIN_HELD_OUT_FRACTION, _MAX_HELD_OUT_FRACTION = 0.005, 0.1


def choose_validation_fraction(digests: Digests, lengths: Integers) -> float:
    """Return the share of the documents to hold out: 0.005, or more if that share has fewer than 40,000 tokens.

    Args:
        digests: of the documents of two sentences or more.
        lengths: their numbers of tokens.
    """
    total = int(lengths.sum())
    if total * _MIN_HELD_OUT_FRACTION >= _HELD_OUT_TOKENS or not total:
        return _MIN_HELD_OUT_FRACTION
    order = np.argsort(digests)
    wanted = min(_HELD_OUT_TOKENS, _MAX_HELD_OUT_FRACTION * total)
    last = order[np.searchsorted(np.cumsum(lengths[order]), wanted)]
    return math.nextafter(int(digests[last]) / _NUM_DIGESTS, 1.0)


def choose_held_out_threshold(digests: Digests, validation_fraction: float, *, on_each_side: int) -> int:
    """Return the digest below which documents are held out. 0 if `on_each_side` of it there would be too few."""
    if len(digests) < 2 * on_each_side:
        return 0
    low = int(np.partition(digests, on_each_side - 1)[on_each_side - 1]) + 1
    high = int(np.partition(digests, -on_each_side)[-on_each_side])
    return min(max(int(validation_fraction * _NUM_DIGESTS), low), high) if low <= high else 0
