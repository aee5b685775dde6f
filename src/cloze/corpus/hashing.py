"""Random numbers without state: a 64-bit hash of counters, the same in every order and on every machine."""

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(*keys: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """Hash integers, arrays of them broadcast against each other, to 64 well-mixed bits.

    Source: Steele, Lea and Flood 2014, the finaliser of SplitMix64, chained over the keys.
    """
    state = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):
        for key in keys:
            state = (state ^ np.asarray(key).astype(np.uint64)) + _GOLDEN
            state = (state ^ (state >> np.uint64(30))) * _FIRST
            state = (state ^ (state >> np.uint64(27))) * _SECOND
            state = state ^ (state >> np.uint64(31))
    return state


def uniform(*keys: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Hash integers to numbers in [0, 1)."""
    return (mix(*keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53
