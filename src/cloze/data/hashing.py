"""Counter-based random numbers: a 64-bit hash of integers, the same in any order and on every machine."""

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(*keys: npt.ArrayLike, after: npt.ArrayLike = 0) -> npt.NDArray[np.uint64]:
    """Hash integers or arrays of integers, which are broadcast, to 64 random bits.

    Args:
        keys: the integers.
        after: the hash of preceding keys: `mix(a, b, c)` is `mix(c, after=mix(a, b))`.

    Source: Steele, Lea and Flood 2014, the finalizer of SplitMix64, chained over the keys.
    """
    state = np.asarray(after).astype(np.uint64)
    with np.errstate(over="ignore"):
        for key in keys:
            state = state ^ np.asarray(key).astype(np.uint64)
            state += _GOLDEN
            state ^= state >> np.uint64(30)
            state *= _FIRST
            state ^= state >> np.uint64(27)
            state *= _SECOND
            state ^= state >> np.uint64(31)
    return state


def uniform(*keys: npt.ArrayLike, after: npt.ArrayLike = 0) -> npt.NDArray[np.float64]:
    """Hash integers to numbers in [0, 1)."""
    return (mix(*keys, after=after) >> np.uint64(11)).astype(np.float64) * 2.0**-53
