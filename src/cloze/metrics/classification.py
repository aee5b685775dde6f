"""Scores of a classifier: a label a row, or a set of labels, compared with the true ones.

Those that need no more than a line are written out; the others are scikit-learn's (extra `tasks`).
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

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


def positive_f1(labels: Labels, predictions: Labels, *, positive: str = "1") -> float:
    """Return `F1 = 2 TP / (2 TP + FP + FN)` of one class, as GLUE has it for MRPC and QQP; 0 where it never occurs."""
    from sklearn.metrics import f1_score

    true, predicted = _arrays(labels, predictions)
    return float(f1_score(true == positive, predicted == positive, zero_division=0.0))


def matthews(labels: Labels, predictions: Labels) -> float:
    """Return Matthews' correlation coefficient, -1 to 1; 0 where all labels or all predictions are the same."""
    from sklearn.metrics import matthews_corrcoef

    true, predicted = _arrays(labels, predictions)
    if min(len(np.unique(true)), len(np.unique(predicted))) == 1:
        return 0.0
    return float(matthews_corrcoef(true, predicted))


METRICS: Mapping[str, Callable[[Sequence[str], Sequence[str]], float]] = MappingProxyType(
    {"accuracy": accuracy, "macro_f1": macro_f1, "f1": positive_f1, "matthews": matthews}
)
"""By the name that scores have in results."""


def set_scores(labels: Sequence[frozenset[str]], predictions: Sequence[frozenset[str]]) -> dict[str, float]:
    """Compare sets of labels: F1 over all labels at once, its mean over labels, and the share of equal sets.

    A label that neither stands in a set nor is predicted is not in the mean; where none is, F1 is 1.
    """
    if len(labels) != len(predictions) or not len(labels):
        raise ValueError(f"{len(labels)} labels and {len(predictions)} predictions: give one for each row")
    names = sorted(frozenset().union(*labels, *predictions))
    hits = [sum(name in a and name in b for a, b in zip(labels, predictions, strict=True)) for name in names]
    stated = [sum(name in own for own in (*labels, *predictions)) for name in names]
    return {
        "micro_f1": 2 * sum(hits) / sum(stated) if names else 1.0,
        "macro_f1": float(np.mean([2 * hit / count for hit, count in zip(hits, stated, strict=True)]))
        if names
        else 1.0,
        "exact_match": float(np.mean([a == b for a, b in zip(labels, predictions, strict=True)])),
    }


def _arrays(labels: Labels, predictions: Labels) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    if len(labels) != len(predictions) or not len(labels):
        raise ValueError(f"{len(labels)} labels and {len(predictions)} predictions: give one for each row")
    return np.asarray(labels), np.asarray(predictions)
