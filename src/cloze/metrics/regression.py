"""Metrics of regression. The correlations are SciPy's (extra `tasks`)."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def pearson(values: Sequence[float], predictions: Sequence[float]) -> float:
    """Return Pearson's correlation, -1 to 1; NaN if all values or all predictions are equal, as SciPy."""
    from scipy.stats import pearsonr

    true, predicted = _arrays(values, predictions)
    if _is_constant(true) or _is_constant(predicted):
        return math.nan
    # the differences are exact where the mean of close numbers far from 0 is not
    return float(pearsonr(true - true[0], predicted - predicted[0])[0])


def spearman(values: Sequence[float], predictions: Sequence[float]) -> float:
    """Return Spearman's correlation of ranks, -1 to 1; NaN if all values or all predictions are equal, as SciPy."""
    from scipy.stats import spearmanr

    true, predicted = _arrays(values, predictions)
    return math.nan if _is_constant(true) or _is_constant(predicted) else float(spearmanr(true, predicted)[0])


def root_mean_squared_error(values: Sequence[float], predictions: Sequence[float]) -> float:
    """Return `sqrt(mean((value - prediction)^2))`, in the unit of the values."""
    true, predicted = _arrays(values, predictions)
    return float(np.sqrt(np.mean((true - predicted) ** 2)))


def _is_constant(values: npt.NDArray[np.float64]) -> bool:
    return bool((values == values[0]).all())


def _arrays(
    values: Sequence[float], predictions: Sequence[float]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    if len(values) != len(predictions) or not len(values):
        raise ValueError(f"{len(values)} values and {len(predictions)} predictions: give one for each row")
    return np.asarray(values, np.float64), np.asarray(predictions, np.float64)
