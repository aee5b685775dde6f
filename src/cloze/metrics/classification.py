"""Metrics of classification, equal to scikit-learn's: functions of gold answers and of predicted ones.

An answer is a class, or a frozenset of labels where a text may have any number of them.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")


def sort_classes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of classes in the order of texts, or of numbers if all are whole numbers.

    >>> sort_classes(["10", "2"]), sort_classes(["10", "2", "b"])
    (('2', '10'), ('10', '2', 'b'))
    """
    names = sorted(names)
    return tuple(sorted(names, key=int) if all(map(_WHOLE_NUMBER.fullmatch, names)) else names)


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of gold, predicted and correct answers of one class, or of entities of one type."""

    gold: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        """The share of predicted answers that are correct; 0 if nothing is predicted."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of gold answers that are predicted; 0 if there are none."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if both are 0."""
        total = self.gold + self.predicted
        return 2 * self.correct / total if total else 0.0


def sum_counts(counts: Collection[Counts]) -> Counts:
    """Return the counts of all classes together."""
    gold, predicted = sum(one.gold for one in counts), sum(one.predicted for one in counts)
    return Counts(gold, predicted, sum(one.correct for one in counts))


def class_counts(gold: Sequence[Any], answers: Sequence[Any]) -> dict[Any, Counts]:
    """Return the counts of each class or label that gold or predicted answers have."""
    _check(gold, answers)
    pairs = [(_labels(true), _labels(predicted)) for true, predicted in zip(gold, answers, strict=True)]
    golds = Counter(label for true, _ in pairs for label in true)
    predictions = Counter(label for _, predicted in pairs for label in predicted)
    correct = Counter(label for true, predicted in pairs for label in true if label in predicted)
    return {label: Counts(golds[label], predictions[label], correct[label]) for label in golds | predictions}


def accuracy(gold: Sequence[Any], answers: Sequence[Any]) -> float:
    """Return the share of correct answers; of sets those that are equal."""
    _check(gold, answers)
    return fmean(true == predicted for true, predicted in zip(gold, answers, strict=True))


def majority_accuracy(gold: Sequence[Any], answers: Sequence[Any] = ()) -> float:
    """Return the accuracy of the most frequent gold answer."""
    _check(gold, gold)
    return Counter(gold).most_common(1)[0][1] / len(gold)


def micro_f1(gold: Sequence[Any], answers: Sequence[Any]) -> float:
    """Return the F1 of all labels together; 1 if there are none."""
    counts = class_counts(gold, answers).values()
    return sum_counts(counts).f1 if counts else 1.0


def macro_f1(gold: Sequence[Any], answers: Sequence[Any]) -> float:
    """Return the mean F1 of the classes of gold and predicted answers; 1 if there are none."""
    counts = class_counts(gold, answers).values()
    return fmean(of_class.f1 for of_class in counts) if counts else 1.0


def positive_f1(gold: Sequence[Any], answers: Sequence[Any]) -> float:
    """Return the F1 of the class 1, as in GLUE for MRPC and QQP; 0 if it never occurs."""
    return class_counts(gold, answers).get("1", Counts(0, 0, 0)).f1


def matthews(gold: Sequence[Any], answers: Sequence[Any]) -> float:
    """Return Matthews' correlation coefficient, -1 to 1; 0 if all gold or all predicted answers are equal.

    Source: Gorodkin 2004, 3 (any number of classes).
    """
    counts, total = class_counts(gold, answers).values(), len(gold)
    expected = sum(of_class.gold * of_class.predicted for of_class in counts)
    spreads = (
        total**2 - sum(of_class.gold**2 for of_class in counts),
        total**2 - sum(of_class.predicted**2 for of_class in counts),
    )
    covariance = total * sum_counts(counts).correct - expected
    return covariance / math.sqrt(math.prod(spreads)) if all(spreads) else 0.0


def best_f1_threshold(
    probabilities: Sequence[float], is_gold: Sequence[bool], *, default: float = 0.5
) -> float:
    """Return the threshold on the probabilities of a label that has the best F1, halfway between two of them.

    Of equal ones the closest to the default is taken, and the default if none is better.
    """
    _check(probabilities, is_gold)
    num_gold = sum(is_gold)

    def f1(predicted: int, correct: int) -> float:
        return Counts(num_gold, predicted, correct).f1

    above = [has_label for value, has_label in zip(probabilities, is_gold, strict=True) if value > default]
    best = f1(len(above), sum(above)), 0.0, default
    ranked = sorted(zip(probabilities, is_gold, strict=True), reverse=True)
    correct = 0
    for predicted, (probability, has_label) in enumerate(ranked, 1):
        correct += has_label
        following = ranked[predicted][0] if predicted < len(ranked) else 0.0
        if following < probability:
            middle = (following + probability) / 2
            threshold = middle if following < middle < probability else following  # next to each other
            candidate = f1(predicted, correct), -abs(threshold - default), threshold
            best = max(best, candidate) if threshold else best
    return best[2]


METRICS: dict[str, Callable[[Sequence[Any], Sequence[Any]], float]] = {
    "accuracy": accuracy,
    "exact_match": accuracy,
    "majority_accuracy": majority_accuracy,
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
    "f1": positive_f1,
    "matthews": matthews,
}
"""Metrics by name."""


def is_constant(gold: Sequence[Hashable], answers: Sequence[Hashable]) -> bool:
    """Return whether several answers are all the same, unless all gold answers are that one."""
    return len(answers) > 1 and len(set(answers)) == 1 and set(gold) != set(answers)


def is_majority_better(
    gold: Sequence[Hashable], answers: Sequence[Hashable], metrics: Collection[str]
) -> bool:
    """Return whether always giving the most frequent gold answer scores as well by each of some metrics.

    If all gold answers are equal, that proves nothing.
    """
    [(majority, count)] = Counter(gold).most_common(1)
    constant = [majority] * len(gold)
    is_better = any(METRICS[name](gold, answers) > METRICS[name](gold, constant) for name in metrics)
    return count < len(gold) and not is_better


def _labels(answer: Any) -> frozenset[Any]:
    return answer if isinstance(answer, frozenset) else frozenset([answer])


def _check(gold: Sequence[Any], answers: Sequence[Any]) -> None:
    """Check that both have equal, positive length."""
    if len(gold) != len(answers) or not len(gold):
        raise ValueError(f"{len(gold)} labels and {len(answers)} predictions: give one for each row")
