"""Scores of a classifier: one label a row, compared with the true one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Labels = Sequence[str] | Sequence[int] | npt.NDArray[np.int64]


def accuracy(labels: Labels, predictions: Labels) -> float:
    """Return the share of rows predicted right: `sum(prediction == label) / n`."""
    true, predicted = _arrays(labels, predictions)
    return float((true == predicted).mean())


def macro_f1(labels: Labels, predictions: Labels) -> float:
    """Return the mean, over classes, of `F1 = 2 TP / (2 TP + FP + FN)`: every class counts the same.

    The classes are those that stand among the labels or the predictions.
    """
    true, predicted = _arrays(labels, predictions)
    scores = []
    for name in np.union1d(true, predicted):
        hits = np.sum((true == name) & (predicted == name))
        scores.append(2 * hits / (np.sum(true == name) + np.sum(predicted == name)))
    return float(np.mean(scores))


def majority_share(labels: Labels) -> float:
    """Return the accuracy of always answering the most frequent label: `max_c n_c / n`."""
    true, _ = _arrays(labels, labels)
    return float(np.unique(true, return_counts=True)[1].max() / len(true))


def _arrays(labels: Labels, predictions: Labels) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    if len(labels) != len(predictions) or not len(labels):
        raise ValueError(f"{len(labels)} labels and {len(predictions)} predictions: give one for each row")
    return np.asarray(labels), np.asarray(predictions)
