"""Metrics of classification, with one label per row or a set of labels.

F1 of one class and Matthews' correlation are scikit-learn's (extra `tasks`).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

Labels = Sequence[str] | Sequence[int] | npt.NDArray[np.int64]


def accuracy(labels: Labels, predictions: Labels) -> float:
    """Return the share of correct predictions."""
    true, predicted = _check(labels, predictions)
    return float((true == predicted).mean())


def macro_f1(labels: Labels, predictions: Labels) -> float:
    """Return the mean of `F1 = 2 TP / (2 TP + FP + FN)` over the classes of labels and predictions."""
    true, predicted = _check(labels, predictions)
    scores = []
    for name in np.union1d(true, predicted):
        hits = np.sum((true == name) & (predicted == name))
        scores.append(2 * hits / (np.sum(true == name) + np.sum(predicted == name)))
    return float(np.mean(scores))


def majority_accuracy(labels: Labels) -> float:
    """Return the accuracy of the most frequent label."""
    true, _ = _check(labels, labels)
    return float(np.unique(true, return_counts=True)[1].max() / len(true))


def positive_f1(labels: Labels, predictions: Labels, *, positive: str = "1") -> float:
    """Return the F1 of one class, as in GLUE for MRPC and QQP; 0 if the class never occurs."""
    from sklearn.metrics import f1_score

    true, predicted = _check(labels, predictions)
    return float(f1_score(true == positive, predicted == positive, zero_division=0.0))


def matthews(labels: Labels, predictions: Labels) -> float:
    """Return Matthews' correlation coefficient, -1 to 1; 0 if all labels or all predictions are equal."""
    from sklearn.metrics import matthews_corrcoef

    true, predicted = _check(labels, predictions)
    if min(len(np.unique(true)), len(np.unique(predicted))) == 1:
        return 0.0
    return float(matthews_corrcoef(true, predicted))


METRICS: Mapping[str, Callable[[Sequence[str], Sequence[str]], float]] = MappingProxyType(
    {"accuracy": accuracy, "macro_f1": macro_f1, "f1": positive_f1, "matthews": matthews}
)
"""Metrics by name."""


def multilabel_scores(
    labels: Sequence[frozenset[str]], predictions: Sequence[frozenset[str]]
) -> dict[str, float]:
    """Return micro F1, macro F1 and the share of equal sets.

    Macro F1 is the mean over the labels that occur in labels or predictions. If none occurs, both are 1.
    """
    _check(labels, predictions)
    correct, total = Counter[str](), Counter[str]()
    for true, predicted in zip(labels, predictions, strict=True):
        correct.update(true & predicted)
        total.update([*true, *predicted])
    f1 = [2 * correct[name] / total[name] for name in sorted(total)]
    return {
        "micro_f1": 2 * correct.total() / total.total() if total else 1.0,
        "macro_f1": float(np.mean(f1)) if total else 1.0,
        "exact_match": float(np.mean([a == b for a, b in zip(labels, predictions, strict=True)])),
    }


def _check(labels: Any, predictions: Any) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    """Return both as arrays of equal, positive length."""
    if len(labels) != len(predictions) or not len(labels):
        raise ValueError(f"{len(labels)} labels and {len(predictions)} predictions: give one for each row")
    return np.asarray(labels), np.asarray(predictions)
