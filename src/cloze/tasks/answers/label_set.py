"""Any number of labels for a text or a pair: a sigmoid for each label, from the pooled [CLS].

Shapes: B sequences, C classes.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.data.reading.annotations import unwrap_labels
from cloze.data.reading.bad_rows import MissingLabelError, source_of
from cloze.data.reading.columns import Column, as_flag
from cloze.data.reading.json_rows import as_text, parse_list, show_value
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.metrics.classification import best_f1_threshold, is_constant, sort_classes
from cloze.results import Result
from cloze.suggestions import list_names
from cloze.tasks.answers.kind import TextAnswer
from cloze.tasks.arrays import sigmoid
from cloze.tasks.features import TextFeatures
from cloze.tasks.labels import (
    NO_LABELS,
    check_unique,
    check_weights,
    external_labels,
    order_weights,
    plain_label,
    read_label,
    unknown_label,
)
from cloze.tasks.task_batch import Baseline, GoldAnswer, Outputs, SummedLoss, TaskBatch, Tensor
from cloze.tasks.texts import LabeledText, Texts
from cloze.tasks.tfidf import class_probabilities, tfidf_features

_THRESHOLD = 0.5
_BRACKETED = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}")


@dataclass(frozen=True, slots=True, repr=False)
class LabelSetPrediction(Result):
    """The labels above their thresholds, and the probabilities of all."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]


LabelSetPredictions: TypeAlias = Sequence[LabelSetPrediction]


@dataclass(frozen=True, kw_only=True)
class LabelSet(TextAnswer[LabelSetPrediction]):
    """Any number of labels."""

    metrics: ClassVar[tuple[str, ...]] = ("micro_f1", "macro_f1", "exact_match")
    keys: ClassVar[tuple[str, ...]] = ("labels", "probabilities")
    ranked_field = "probabilities"
    weight_settings: ClassVar[tuple[str, ...]] = ("labels", "positive_weights")
    problem_type = "multi_label_classification"

    label_column: str = "labels"
    """Column of the labels of a text, as a list or with a separator between them."""
    label_columns: tuple[str, ...] = ()
    """A column for each label, with 1 in the rows that have it, instead of `label_column`."""
    separator: str = ","
    """Separates the labels of a cell; white space around them is removed."""
    labels: tuple[str, ...] = ()
    """In the order of the classes; by default those of the training data, sorted."""
    positive_weights: tuple[float, ...] | dict[str, float] | Literal["balanced"] = ()
    """Weight in the loss of the examples that have a label: in the order of `labels`, or by label, where others have 1,
    or "balanced": the number of examples without the label for each one with it. By default all are 1."""
    thresholds: dict[str, float] | float = field(default_factory=dict)
    """Predict a label with a higher probability than its threshold: by label, where others have 0.5, or one for all.
    By default each is tuned on the dev data for the best F1 of its label."""
    tune_thresholds: bool = True
    """Tune the thresholds after each evaluation, unless training was given some."""

    def __post_init__(self) -> None:
        check_unique(self.labels)
        check_weights("positive_weights", self.positive_weights, self.labels)
        by_label = self.thresholds if isinstance(self.thresholds, dict) else {"": self.thresholds}
        for threshold in by_label.values():
            if not 0 < threshold < 1:
                raise ValueError(f"threshold {threshold} is not between 0 and 1")
        if self.labels and (unknown := sorted({*by_label} - {"", *self.labels})):
            raise ValueError(f"threshold of {unknown[0]!r}, not one of {list_names(self.labels)}")
        if self.label_columns and self.label_column != LabelSet.label_column:
            what, remedy = "cannot be combined with `label_columns`", "Leave out one of them"
            raise InputError(what, where="label_column", remedy=remedy)
        if not self.separator:
            raise ValueError("separator is empty")

    def columns(self) -> tuple[Column, ...]:
        flags = tuple(Column(name, "flag", setting="label_columns") for name in self.label_columns)
        return flags or super().columns()

    def read(self, row: Row) -> frozenset[str]:
        """Return the labels of a row: a list, the names between separators, or those with a 1 in their column."""
        if self.label_columns:
            return self._of_flags(row)
        value = unwrap_labels(row.cells["label"])
        cell = f"the cell {row.name('label')!r} is"
        if isinstance(value, str) and value.strip() in ("()", "set()"):  # as pandas writes empty ones
            value = []
        elif isinstance(value, str) and (parsed := parse_list(value)) is not None:
            value = parsed
        elif isinstance(value, str) and _BRACKETED.fullmatch(value.strip()):
            what = f"{cell} {row.text('label')[:40]!r}, a list that cannot be read"
            remedy = f"Write its labels with {self.separator!r} between them, or as JSON"
            raise InputError(what, where=row.where, remedy=remedy)
        if isinstance(value, list):
            labels = self._of_list(value, row)
        elif value is None or (isinstance(value, float) and math.isnan(value)):
            remedy = "`missing_labels=drop` leaves out such rows; a text without labels has an empty list"
            raise MissingLabelError(f"{cell} empty", where=row.where, remedy=remedy)
        elif not str(value).strip():
            labels = frozenset()
        else:
            text = read_label(row, labels=self.labels, missing=self.missing_labels)
            labels = frozenset(map(str.strip, text.split(self.separator))) - {""}
        if self.labels and (unknown := sorted(labels.difference(self.labels))):
            raise unknown_label(unknown[0], self.labels, row.where)
        return labels

    def _of_list(self, values: list[Any], row: Row) -> frozenset[str]:
        labels = [as_text(value) or "" for value in values]
        is_mixed = len({isinstance(value, str) for value in values}) > 1
        is_flags = len(values) > 1 and all(value in (0, 1) for value in values)
        if is_mixed or is_flags or "" in labels:
            what = f"{row.name('label')!r} is {show_value(values)}, not a list of labels"
            remedy = "Give their names, or 0 and 1 in a column for each: the setting label_columns"
            raise InputError(what, where=row.where, remedy=remedy)
        return frozenset(labels)

    def _of_flags(self, row: Row) -> frozenset[str]:
        flags = {name: as_flag(row.cells[name]) for name in self.label_columns}
        for name, flag in flags.items():
            if flag is None:
                value = row.cells[name]
                is_missing = value in (None, "") or plain_label(str(value)) in NO_LABELS
                kind = MissingLabelError if is_missing else InputError
                raise kind(f"{name!r} is {value!r}, not 0 or 1", where=row.where)
        return frozenset(name for name, flag in flags.items() if flag)

    def fit(self, examples: Texts) -> Self:
        labels = self.labels or self.label_columns
        if not labels:
            labels = sort_classes({label for example in examples for label in example.gold})
            if not labels:
                raise InputError("no row has a label", where=source_of(examples[0].where))
        weights = self.positive_weights
        if weights == "balanced":
            counts, num_examples = _counts(examples), len(examples)
            weights = {
                label: (num_examples - count) / count
                for label, count in counts.items()
                if count < num_examples and label in labels
            }
        if isinstance(self.thresholds, dict):
            order_weights(self.thresholds, labels, "thresholds")
        return replace(
            self,
            labels=labels,
            positive_weights=order_weights(weights, labels, "positive_weights"),
            tune_thresholds=self.tune_thresholds and self.thresholds == {},
        )

    def for_external_checkpoint(self, directory: Path) -> Self:
        if not (names := external_labels(directory, self.problem_type)):
            raise InputError("no classifier: config.json names no labels")
        return replace(self, labels=names)

    def target(self, gold: frozenset[str]) -> list[int]:
        return [index for index, label in enumerate(self.labels) if label in gold]

    def targets(self, targets: Sequence[Any]) -> npt.NDArray[np.float32]:
        targets_BC = np.zeros((len(targets), len(self.labels)), np.float32)
        for row_C, indices in zip(targets_BC, targets, strict=True):
            row_C[indices or []] = 1
        return targets_BC

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the binary cross entropy of logits [B, C], averaged over labels, summed over sequences."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        from cloze.training.metric_sums import weight_tensor

        weight_C = weight_tensor(self.positive_weights, logits)
        loss_BC = binary_cross_entropy_with_logits(
            logits, batch.targets, reduction="none", pos_weight=weight_C
        )
        loss = loss_BC.mean(-1).sum()
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def distance(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        """Return the divergence of each label's sigmoid from the teacher's, averaged over labels."""
        from cloze.training.metric_sums import sigmoid_divergence

        return sigmoid_divergence(logits, batch.teacher, temperature).mean(-1).sum()

    def decode(self, example: LabeledText, features: TextFeatures, outputs: Outputs) -> LabelSetPrediction:
        probabilities_C = sigmoid(self.raw_scores(outputs)).tolist()
        probabilities = dict(zip(self.labels, probabilities_C, strict=True))
        labels = (label for label, value in probabilities.items() if value > self.threshold(label))
        return LabelSetPrediction(tuple(labels), probabilities)

    def threshold(self, label: str) -> float:
        """Return the probability above which a label is predicted."""
        thresholds = self.thresholds
        return thresholds.get(label, _THRESHOLD) if isinstance(thresholds, dict) else thresholds

    def tuned(self, examples: Texts, answers: LabelSetPredictions) -> Self:
        """Return the kind with the threshold of each label that has the best F1; without a gold one it is 0.5."""
        tuned = {}
        for label in self.labels if self.tune_thresholds else ():
            probabilities = [answer.probabilities[label] for answer in answers]
            is_gold = [label in example.gold for example in examples]
            tuned[label] = best_f1_threshold(probabilities, is_gold, default=_THRESHOLD)
        return replace(self, thresholds=tuned or self.thresholds)

    def averaged(self, others: Sequence[Self]) -> Self:
        """Return the kind with the probability of the mean logit of each threshold, as the logits are means, too."""
        same: dict[str, Any] = {"thresholds": self.thresholds, "tune_thresholds": self.tune_thresholds}
        kind = super().averaged([replace(other, **same) for other in others])
        thresholds = {}
        for label in self.labels:
            of_label = [kind.threshold(label) for kind in (self, *others)]
            mean = fmean(math.log(threshold) - math.log1p(-threshold) for threshold in of_label)
            thresholds[label] = float(sigmoid(mean))
        return replace(kind, thresholds=thresholds)

    def pairs(self, example: LabeledText, answer: LabelSetPrediction) -> Iterator[GoldAnswer]:
        """Yield both sets of labels; the confidence is that of the surest wrong decision."""
        gold, labels, known = self.gold(example), frozenset(answer.labels), answer.probabilities
        sure = [known[name] if name in labels else 1 - known[name] for name in gold ^ labels if name in known]
        gold_text, text = (f"{self.separator} ".join(sorted(names)) for names in (gold, labels))
        yield GoldAnswer(gold, labels, max(sure, default=None), gold_text, text)

    def baselines(self, train: Sequence[Any]) -> Mapping[str, Baseline]:
        return {"majority": self._most_frequent, "tfidf_logistic": self._logistic_regression}

    def _most_frequent(self, train: Texts, dev: Texts) -> list[LabelSetPrediction]:
        [(best, _)] = Counter(example.gold for example in train).most_common(1)
        counts = _counts(train)
        shares = {label: counts[label] / len(train) for label in self.labels}
        return [LabelSetPrediction(tuple(sorted(best)), shares)] * len(dev)

    def _logistic_regression(self, train: Texts, dev: Texts) -> list[LabelSetPrediction]:
        train_features, dev_features = tfidf_features(train, dev)
        columns = []
        with np.errstate(divide="ignore"):
            for label in self.labels:
                has_label = [int(label in example.gold) for example in train]
                log_N2 = np.log(class_probabilities(train_features, has_label, dev_features, 2))
                columns.append(log_N2[:, 1] - log_N2[:, 0])
        logits_NC = np.stack(columns, axis=1)
        return [self.decode(example, [], [row_C]) for example, row_C in zip(dev, logits_NC, strict=True)]

    def collapse(self, examples: Texts, answers: LabelSetPredictions, metrics: Sequence[str]) -> str | None:
        return "one set of labels only" if is_constant(*self.compare(examples, answers)) else None

    def to_json(self, example: LabeledText, answer: LabelSetPrediction) -> dict[str, Any]:
        return {"labels": list(answer.labels), "probabilities": answer.probabilities}

    def from_json(self, values: Mapping[str, Any]) -> LabelSetPrediction:
        """Read labels; probabilities are optional."""
        labels = values["labels"]
        if not isinstance(labels, list):
            raise TypeError(f"labels is {labels!r}, not a list")
        return LabelSetPrediction(tuple(map(str, labels)), values.get("probabilities", {}))


def _counts(examples: Texts) -> Counter[str]:
    """Return the number of examples of each label."""
    return Counter(label for example in examples for label in example.gold)
