"""Scores of each class, label, entity type or kind of question, and the confusion matrix."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cloze.metrics.classification import Counts, class_counts, sort_classes

_PREFIX = "by_"


@dataclass(frozen=True, slots=True)
class PartScores:
    """The scores of one class or kind."""

    scores: Mapping[str, float]
    """By name; every part of a breakdown has the same names."""
    support: int
    """Gold examples of it."""
    errors: int
    """Wrong answers: false negatives and false positives of a class, or wrong examples of a kind."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Scores by part, and how often each class is predicted as each other."""

    part: str
    """Name of a part: class, label, tag, entity_type or question_type."""
    parts: Mapping[str, PartScores]
    """By name, in the order of the classes; those without gold examples and predictions are left out."""
    confusion: Mapping[str, Mapping[str, int]] | None = None
    """Number of examples by gold class, then by predicted class; zeros are left out. None where there are no classes
    that exclude each other."""
    has_means: bool = True
    """Whether a mean over parts has a meaning."""

    @property
    def means(self) -> dict[str, float]:
        """The mean of each score over all parts, as macro F1 is one."""
        rows = [part.scores for part in self.parts.values()]
        return {name: sum(row[name] for row in rows) / len(rows) for name in (rows[0] if rows else ())}

    @property
    def classes(self) -> list[str]:
        """The rows and columns of the confusion matrix: the parts, and for taggers O."""
        confused = (name for gold, row in (self.confusion or {}).items() for name in (gold, *row))
        return list(dict.fromkeys([*self.parts, *confused]))

    def worst(self, names: Sequence[str], limit: int) -> list[str]:
        """Return parts in their order, or, if they are more than `limit`, those with the most errors."""
        if len(names) <= limit:
            return list(names)
        return sorted(names, key=lambda name: -self.parts[name].errors if name in self.parts else 0)[:limit]

    def matrix(self, names: Sequence[str]) -> list[list[int]]:
        """Return the confusion of some classes, gold by predicted; the last row and column sum all others, if any."""
        assert self.confusion is not None
        index = {name: i for i, name in enumerate(names)}
        size = len(names) + (len(names) < len(self.classes))
        matrix = [[0] * size for _ in range(size)]
        for gold, row in self.confusion.items():
            for predicted, count in row.items():
                matrix[index.get(gold, len(names))][index.get(predicted, len(names))] += count
        return matrix

    def confused_pairs(self, limit: int) -> list[tuple[str, str, int]]:
        """Return the most frequent confusions: gold class, predicted class, and count."""
        rows = (self.confusion or {}).items()
        pairs = [(gold, predicted, count) for gold, row in rows for predicted, count in row.items()]
        wrong = (pair for pair in pairs if pair[0] != pair[1])
        return sorted(wrong, key=lambda pair: -pair[2])[:limit]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON has it: scores and support of each part, and the confusion matrix."""
        by_part = {
            name: {**part.scores, "support": part.support, "errors": part.errors}
            for name, part in self.parts.items()
        }
        confusion = {} if self.confusion is None else {"confusion": self.confusion}
        return {f"{_PREFIX}{self.part}": by_part, **confusion}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Breakdown | None":
        """Return the breakdown among other values, such as those of `scores.json`; None without one."""
        keys = [key for key, value in values.items() if key.startswith(_PREFIX) and isinstance(value, dict)]
        if not keys:
            return None
        key = keys[0]
        parts = {}
        for name, row in values[key].items():
            scores = {score: value for score, value in row.items() if score not in ("support", "errors")}
            parts[name] = PartScores(scores, row["support"], row["errors"])
        return cls(key.removeprefix(_PREFIX), parts, values.get("confusion"))


def class_breakdown(gold: Sequence[Any], answers: Sequence[Any], classes: Sequence[str] = ()) -> Breakdown:
    """Return precision, recall and F1 of each class or label, and the confusion matrix of classes.

    A precision or recall without a denominator is 0. `classes` are all in their order, which are sorted by default.
    """
    counts = class_counts(gold, answers)
    parts = {name: class_scores(counts[name]) for name in classes or sort_classes(counts) if name in counts}
    if any(isinstance(answer, frozenset) for answer in gold):
        return Breakdown("label", parts)
    confusion = Counter(zip(gold, answers, strict=True))
    order = {name: index for index, name in enumerate(parts)}
    rows: dict[str, dict[str, int]] = {name: {} for name in parts if counts[name].gold}
    for (true, predicted), count in sorted(confusion.items(), key=lambda item: order[item[0][1]]):
        rows[true][predicted] = count
    return Breakdown("class", parts, rows)


def class_scores(counts: Counts, *, scale: float = 1.0) -> PartScores:
    """Return precision, recall and F1 from counts, from 0 to `scale`."""
    scores = {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1}
    errors = counts.gold + counts.predicted - 2 * counts.correct
    return PartScores({name: scale * score for name, score in scores.items()}, counts.gold, errors)
