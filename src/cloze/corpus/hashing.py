"""Random numbers without state: a 64-bit hash of counters, the same in every order and on every machine."""

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(*keys: npt.ArrayLike, after: npt.ArrayLike = 0) -> npt.NDArray[np.uint64]:
    """Hash integers, arrays of them broadcast against each other, to 64 well-mixed bits.

    Args:
        keys: the integers.
        after: the hash of the keys before these: `mix(a, b, c)` is `mix(c, after=mix(a, b))`, and what begins alike
            is hashed once.

    Source: Steele, Lea and Flood 2014, the finaliser of SplitMix64, chained over the keys.
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
