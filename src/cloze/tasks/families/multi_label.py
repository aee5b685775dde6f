"""Classification with any number of labels for a text or a pair.

Shapes: B sequences, C classes.
"""

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from cloze.data.reading.annotations import unwrap_labels
from cloze.data.reading.bad_rows import MissingLabelError, source_of
from cloze.data.reading.columns import Column, as_flag
from cloze.data.reading.json_rows import as_text, parse_list, show_value
from cloze.data.reading.tables import Row
from cloze.errors import DataWarning, InputError
from cloze.metrics.classification import best_f1_threshold, is_constant, sort_classes
from cloze.results import Result
from cloze.suggestions import list_names
from cloze.tasks.arrays import sigmoid
from cloze.tasks.features import Target, TextFeatures
from cloze.tasks.labels import (
    NO_LABELS,
    check_weights,
    order_weights,
    plain_label,
    unknown_label,
    warn_of_placeholders,
)
from cloze.tasks.registry import register_task
from cloze.tasks.task_batch import Array, GoldAnswer, Outputs, SummedLoss, TaskBatch, Tensor
from cloze.tasks.text_labels import TextLabels
from cloze.tasks.texts import CustomTexts, LabeledText, Texts
from cloze.tasks.tfidf import class_probabilities

_THRESHOLD = 0.5
_SEPARATORS = frozenset(";|")
_EMPTY_COLLECTIONS = ("()", "set()")  # as pandas writes those of Python


@dataclass(frozen=True, slots=True, repr=False)
class LabelSetPrediction(Result):
    """The labels above their thresholds, and the probabilities of all."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]


@register_task("multi-label")
class MultiLabel(CustomTexts[LabelSetPrediction], TextLabels[LabelSetPrediction]):
    """A sigmoid for each label, from the pooled [CLS]."""

    data_format = "as classification: a cell with labels parted by a comma, a list, or a 0/1 column per label"
    source = "your own data"
    metrics: ClassVar[tuple[str, ...]] = ("micro_f1", "macro_f1", "exact_match")
    answer_keys = ("labels", "probabilities")
    model_settings: ClassVar[tuple[str, ...]] = ("labels", "positive_weights")
    problem_type = "multi_label_classification"

    label_column: str = "labels"
    label_columns: tuple[str, ...] = ()
    """A column for each label, with 1 in the rows that have it, instead of `label_column`."""
    separator: str = ","
    """Separates the labels of a cell; white space around them is removed."""
    positive_weights: tuple[float, ...] | dict[str, float] | Literal["balanced"] = ()
    """Weight in the loss of the examples that have a label: in the order of `labels`, or by label, where others have 1,
    or "balanced": the number of examples without the label for each one with it. By default all are 1."""
    thresholds: dict[str, float] | float = field(default_factory=dict)
    """Predict a label with a higher probability than its threshold: by label, where others have 0.5, or one for all.
    By default each is tuned on the dev data for the best F1 of its label."""
    tune_thresholds: bool = True
    """Tune the thresholds after each evaluation, unless training was given some."""

    def __post_init__(self) -> None:
        check_weights("positive_weights", self.positive_weights, self.labels)
        by_label = self.thresholds if isinstance(self.thresholds, dict) else {"": self.thresholds}
        for threshold in by_label.values():
            if not 0 < threshold < 1:
                raise ValueError(f"threshold {threshold} is not between 0 and 1")
        if self.labels and (unknown := sorted({*by_label} - {"", *self.labels})):
            raise ValueError(f"threshold of {unknown[0]!r}, not one of {list_names(self.labels)}")
        if not self.separator:
            raise ValueError("separator is empty")
        super().__post_init__()

    def named_columns(self) -> tuple[Column, ...]:
        """Return the columns of the texts, and of the labels or of each label."""
        columns = super().named_columns()
        if not self.label_columns:
            return columns
        flags = (Column(name, "flag", setting="label_columns") for name in self.label_columns)
        return (*(column for column in columns if not column.is_label), *flags)

    def read_label(self, row: Row) -> str:
        """Return the labels of a row as one text."""
        if self.label_columns:
            return self._join(self._of_flags([row.cells[name] for name in self.label_columns], row), row)
        value = unwrap_labels(row.cells["label"])
        if isinstance(value, str) and value.strip() in _EMPTY_COLLECTIONS:
            return ""
        if isinstance(value, str) and _is_bracketed(value.strip()):
            value = parse_list(value)
            if value is None:
                what = f"the cell {row.name('label')!r} is {row.text('label')[:40]!r}, a list that cannot be read"
                remedy = f"Write its labels with {self.separator!r} between them, or as JSON"
                raise InputError(what, where=row.where, remedy=remedy)
        if isinstance(value, list):
            return self._join(self._of_list(value, row), row)
        if isinstance(value, str) and not value.strip():
            return ""
        labels = super().read_label(row).split(self.separator)
        return self._join([label.strip() for label in labels], row)

    def _of_list(self, values: list[Any], row: Row) -> list[str]:
        """Return the labels in a list: their names, or 0 or 1 for each label of the task."""
        column = row.name("label")
        is_flags = len(values) > 1 and all(value in (0, 1) for value in values)
        if is_flags and len(values) == len(self.labels):
            return self._of_flags(values, row)
        if is_flags and not self.labels:
            what = f"{column!r} is {values}, 0 or 1 for each label, and the labels have no names"
            remedy = f'Name them in this order: `{self.name}.labels=["…", "…"]`'
            raise InputError(what, where=row.where, remedy=remedy)
        labels = [as_text(value) or "" for value in values]
        is_mixed = len({isinstance(value, str) for value in values}) > 1
        if is_mixed or not all(labels):
            what = f"{column!r} is {show_value(values)}, not a list of labels"
            raise InputError(what, where=row.where)
        return labels

    def _of_flags(self, values: list[Any], row: Row) -> list[str]:
        """Return the labels with a 1, out of 0 or 1 for each."""
        names = self.label_columns or self.labels
        flags = list(map(as_flag, values))
        for name, value, flag in zip(names, values, flags, strict=True):
            if flag is None:
                what = f"{name!r} is {value!r}, not 0 or 1"
                is_missing = value in (None, "") or plain_label(str(value)) in NO_LABELS
                raise (MissingLabelError if is_missing else InputError)(what, where=row.where)
        return [name for name, flag in zip(names, flags, strict=True) if flag]

    def _join(self, labels: Sequence[str], row: Row) -> str:
        if invalid := [label for label in labels if self.separator in label]:
            remedy = f"Choose another with `{self.name}.separator=…`"
            raise InputError(f"label {invalid[0]!r} holds the separator", where=row.where, remedy=remedy)
        if unknown := [label for label in labels if label and self.labels and label not in self.labels]:
            raise unknown_label(unknown[0], self.labels, row.where)
        return self.separator.join(labels)

    def classes_of(self, example: LabeledText) -> frozenset[str]:
        labels = (label.strip() for label in (example.label or "").split(self.separator))
        return frozenset(label for label in labels if label)

    def fit_labels(self, examples: Texts) -> Self:
        labels = self.labels or self.label_columns
        labels = labels or sort_classes(frozenset().union(*map(self.classes_of, examples)))
        where = source_of(examples[0].where)
        if not labels:
            raise InputError("no row has a label", where=where)
        if not self.labels:
            gold = [label for example in examples for label in self.classes_of(example)]
            warn_of_placeholders(gold, labels, where, self.name)
        for mark in _SEPARATORS.difference(self.separator):
            if joined := [label for label in labels if mark in label]:
                what = f"{len(joined):,} of {len(labels):,} labels have {mark!r}, such as {joined[0]!r}"
                remedy = f"""If it separates labels, say `{self.name}.separator="{mark}"`"""
                warnings.warn(DataWarning(f"{where}: {what}. {remedy}"), stacklevel=2)
        weights = self.positive_weights
        if weights == "balanced":
            counts = Counter(label for example in examples for label in self.classes_of(example))
            weights = {
                label: (len(examples) - counts[label]) / counts[label]
                if 0 < counts[label] < len(examples)
                else 1.0
                for label in labels
            }
        if isinstance(self.thresholds, dict):
            order_weights(self.thresholds, labels, f"{self.name}.thresholds")
        return replace(
            self,
            labels=labels,
            positive_weights=order_weights(weights, labels, f"{self.name}.positive_weights"),
            tune_thresholds=self.tune_thresholds and self.thresholds == {},
        )

    def with_class_names(self, names: tuple[str, ...]) -> Self:
        if not names:
            raise InputError("no classifier: config.json names no labels")
        return replace(self, labels=names)

    def gold(self, example: LabeledText) -> frozenset[str]:
        """Return the labels of an example, which must be known if the task has labels."""
        if example.label is None:
            raise InputError("no labels: nothing says which are right", where=example.where)
        labels = self.classes_of(example)
        if self.labels and (unknown := sorted(labels.difference(self.labels))):
            raise unknown_label(unknown[0], self.labels, example.where)
        return labels

    def target(self, example: LabeledText) -> list[int]:
        """Return the indices of the example's labels."""
        labels = self.gold(example)
        return [index for index, label in enumerate(self.labels) if label in labels]

    def targets(self, targets: Sequence[Target | None]) -> npt.NDArray[np.float32]:
        """Return 1 for each label of a sequence, [B, C]."""
        targets_BC = np.zeros((len(targets), len(self.labels)), np.float32)
        for row_C, indices in zip(targets_BC, targets, strict=True):
            if isinstance(indices, list):
                row_C[indices] = 1
        return targets_BC

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the binary cross entropy of logits [B, C], averaged over labels, summed over sequences."""
        import torch
        from torch import nn

        weight_C = None
        if self.positive_weights:
            weight_C = torch.tensor(self.positive_weights).to(logits, non_blocking=True)
        loss_BC = nn.functional.binary_cross_entropy_with_logits(
            logits, batch.targets, reduction="none", pos_weight=weight_C
        )
        loss = loss_BC.mean(-1).sum()
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def soft_loss(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        """Return the divergence of each label's sigmoid from the teacher's, averaged over labels."""
        from cloze.training.losses import sigmoid_divergence

        return sigmoid_divergence(logits, batch.teacher, temperature).mean(-1).sum()

    def decode(self, example: LabeledText, features: TextFeatures, outputs: Outputs) -> LabelSetPrediction:
        """Return the labels above their thresholds from the mean logits of the windows."""
        probabilities_C = sigmoid(self.raw_scores(outputs)).tolist()
        probabilities = dict(zip(self.labels, probabilities_C, strict=True))
        labels = (label for label, value in probabilities.items() if value > self.threshold(label))
        return LabelSetPrediction(tuple(labels), probabilities)

    def threshold(self, label: str) -> float:
        """Return the probability above which a label is predicted."""
        thresholds = self.thresholds
        return thresholds.get(label, _THRESHOLD) if isinstance(thresholds, dict) else thresholds

    def dev_notes(self, examples: Texts) -> list[str]:
        """Return which thresholds cannot be tuned."""
        known = frozenset().union(*map(self.classes_of, examples))
        absent = [label for label in self.labels if label not in known] if self.tune_thresholds else []
        threshold = "its threshold stays" if len(absent) == 1 else "their thresholds stay"
        return [f"no dev example has {list_names(absent)}: {threshold} {_THRESHOLD}"] if absent else []

    def with_tuned_settings(self, examples: Texts, predictions: Sequence[LabelSetPrediction]) -> Self:
        """Return the task with the threshold of each label that has the best F1; without a gold one it is 0.5."""
        if not self.tune_thresholds:
            return self
        gold = list(map(self.gold, examples))
        tuned = {
            label: best_f1_threshold(
                [prediction.probabilities[label] for prediction in predictions],
                [label in labels for labels in gold],
                default=_THRESHOLD,
            )
            for label in self.labels
        }
        return replace(self, thresholds=tuned)

    def for_ensemble(self, others: Sequence[Self]) -> Self:
        """Return the task with the probability of the mean logit of each threshold, as the logits are means, too."""
        alike = [
            replace(other, thresholds=self.thresholds, tune_thresholds=self.tune_thresholds)
            for other in others
        ]
        task = super().for_ensemble(alike)
        tasks = (self, *others)
        means = {label: fmean(_logit(task.threshold(label)) for task in tasks) for label in self.labels}
        return replace(task, thresholds={label: float(sigmoid(mean)) for label, mean in means.items()})

    def pairs(self, example: LabeledText, prediction: LabelSetPrediction) -> Iterator[GoldAnswer]:
        """Yield both sets of labels; the confidence is that of the surest wrong decision."""
        gold, answer, known = self.gold(example), frozenset(prediction.labels), prediction.probabilities
        sure = [known[name] if name in answer else 1 - known[name] for name in gold ^ answer if name in known]
        gold_text, text = (f"{self.separator} ".join(sorted(labels)) for labels in (gold, answer))
        yield GoldAnswer(gold, answer, max(sure, default=None), gold_text, text)

    def most_frequent_answer(self, train: Texts, dev: Texts) -> list[LabelSetPrediction]:
        """Predict the most frequent set of labels, the first of equals."""
        [(best, _)] = Counter(map(self.gold, train)).most_common(1)
        return [LabelSetPrediction(tuple(sorted(best)), self.label_shares(train))] * len(dev)

    def fit_logistic_regression(self, train: Texts, train_features: Any, dev_features: Any) -> Array:
        """Return the logits of the dev examples, [N, C], with a regression for each label."""
        columns = []
        for label in self.labels:
            has_label = [int(label in self.classes_of(example)) for example in train]
            columns.append(class_probabilities(train_features, has_label, dev_features, 2))
        log_NC2 = np.log(np.stack(columns, axis=1))
        return log_NC2[..., 1] - log_NC2[..., 0]

    def collapse(self, examples: Texts, predictions: Sequence[LabelSetPrediction]) -> str | None:
        return "one set of labels only" if is_constant(*self.compare(examples, predictions)) else None

    def to_json(self, example: LabeledText, prediction: LabelSetPrediction) -> dict[str, Any]:
        return {"labels": list(prediction.labels), "probabilities": prediction.probabilities}

    def from_json(self, values: Mapping[str, Any]) -> LabelSetPrediction:
        """Read labels; probabilities are optional."""
        labels = values["labels"]
        if not isinstance(labels, list):
            raise TypeError(f"labels is {labels!r}, not a list")
        return LabelSetPrediction(tuple(map(str, labels)), values.get("probabilities", {}))


def _is_bracketed(text: str) -> bool:
    """Return whether the bracket that opens a text is closed at its end.

    >>> _is_bracketed("['x', 'y']"), _is_bracketed("[EU] politics, [UN]"), _is_bracketed("[x"), _is_bracketed("x")
    (True, False, False, False)
    """
    depth = 0
    for index, mark in enumerate(text):
        depth += (mark in "[({") - (mark in "])}")
        if not depth:
            return index == len(text) - 1 > 0
    return False


def _logit(probability: float) -> float:
    return math.log(probability) - math.log1p(-probability)
