"""Rows whose label is probably wrong, from probabilities of models that did not learn from them.

Shapes: N rows, C classes.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_TOLERANCE = 1e-6  # of cleanlab


class LabelError(NamedTuple):
    """A row whose label is probably wrong."""

    row: int
    """Index of the row, from 0."""
    label: int
    """The class that it probably has."""
    margin: float
    """Probability of its label minus the largest probability of another class."""


def find_label_errors(
    probabilities: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]
) -> list[LabelError]:
    """Return the rows whose label is probably wrong by confident learning, the surest first.

    A class is likely for a row if its probability is at least its mean among the rows with this label. A row is
    suspected if its most probable likely class is not its label, and its label is not its most probable class.

    Shapes: `probabilities` [N, C], `labels` [N].

    Source: Northcutt, Jiang and Chuang 2021, "Confident learning", 3.1 and 3.2 (the confident joint, ranked by margin).
    """
    classes, own_N = range(probabilities.shape[1]), probabilities[np.arange(len(labels)), labels]
    threshold_C = np.array([own_N[labels == k].mean() if (labels == k).any() else np.inf for k in classes])
    is_confident_NC = probabilities >= threshold_C - _TOLERANCE
    probable_N = np.where(is_confident_NC, probabilities, -1.0).argmax(1)
    is_suspected_N = is_confident_NC.any(1) & (probable_N != labels) & (probabilities.argmax(1) != labels)
    others_NC = probabilities.copy()
    others_NC[np.arange(len(labels)), labels] = -np.inf
    margin_N = own_N - others_NC.max(1)
    suspected = np.flatnonzero(is_suspected_N)
    ranked = suspected[np.argsort(margin_N[suspected], kind="stable")]
    return [LabelError(int(n), int(probable_N[n]), float(margin_N[n])) for n in ranked]
