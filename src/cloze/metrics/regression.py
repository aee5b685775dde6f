"""Metrics of regression, equal to SciPy's: functions of gold numbers and of predicted ones."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt


def pearson(gold: Sequence[float], answers: Sequence[float]) -> float:
    """Return Pearson's correlation, -1 to 1; NaN if all gold or all predicted numbers are equal."""
    true, predicted = _arrays(gold, answers)
    if (true == true[0]).all() or (predicted == predicted[0]).all():
        return math.nan
    # the differences are exact where the mean of close numbers far from 0 is not
    true, predicted = (
        (values - values[0]) / np.abs(values - values[0]).max() for values in (true, predicted)
    )
    return float(np.corrcoef(true, predicted)[0, 1])


def spearman(gold: Sequence[float], answers: Sequence[float]) -> float:
    """Return Spearman's correlation, which is Pearson's of the ranks; equal numbers have their mean rank."""
    arrays = _arrays(gold, answers)
    if np.isnan(arrays).any():  # which has no rank
        return math.nan
    ranks = []
    for values in arrays:
        _, rank_of, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((counts.cumsum() - (counts - 1) / 2)[rank_of].tolist())
    return pearson(*ranks)


def root_mean_squared_error(gold: Sequence[float], answers: Sequence[float]) -> float:
    """Return `sqrt(mean((gold - answer)^2))`, in the unit of the gold numbers."""
    true, predicted = _arrays(gold, answers)
    return float(np.sqrt(np.mean((true - predicted) ** 2)))


METRICS: dict[str, Callable[[Sequence[float], Sequence[float]], float]] = {
    "spearman": spearman,
    "pearson": pearson,
    "rmse": root_mean_squared_error,
}
"""Metrics by name."""
LOWER_IS_BETTER = frozenset({"rmse"})
"""Metrics whose lower values are better."""


def _arrays(
    gold: Sequence[float], answers: Sequence[float]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    if len(gold) != len(answers) or not len(gold):
        raise ValueError(f"{len(gold)} values and {len(answers)} predictions: give one for each row")
    return np.asarray(gold, np.float64), np.asarray(answers, np.float64)
