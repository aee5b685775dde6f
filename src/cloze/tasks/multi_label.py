"""Your own texts, or pairs of texts, with any number of labels each, none included.

Shapes: B sequences, C classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.metrics.classification import set_scores
from cloze.model.bert import BertModel
from cloze.model.heads import BertForSequenceClassification
from cloze.stores import Place
from cloze.tasks.probabilities import sigmoid
from cloze.tasks.registry import register_task
from cloze.tasks.tables import Column, Row
from cloze.tasks.task import Array, TargetBatch, check_labels
from cloze.tasks.texts import Columns, LabelledText, OwnTexts, Target, TextFeature, TextTask, read_texts
from cloze.training.measures import Measures


@dataclass(frozen=True, slots=True)
class LabelSet:
    """The labels that are likelier than the threshold, and what the model gives each."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]


@register_task("multi-label")
@dataclass(frozen=True, kw_only=True)
class MultiLabel(OwnTexts, TextTask[LabelSet]):
    """A sigmoid for each label, from the pooled [CLS]."""

    data_format: ClassVar[str] = "as classification, a cell with several labels parted by a comma, or a list"
    source: ClassVar[str] = "your own data"
    main_metric: ClassVar[str] = "micro_f1"
    metrics: ClassVar[tuple[str, ...]] = ("micro_f1", "macro_f1", "exact_match")
    learned_settings: ClassVar[tuple[str, ...]] = ("labels",)
    problem_type: ClassVar[str | None] = "multi_label_classification"

    label_column: str = "labels"
    separator: str = ","
    """What parts the labels of a cell; white space around them is left out."""
    labels: tuple[str, ...] = ()
    """In the order of the classes; none given, they are found in the training data and sorted."""
    threshold: float = 0.5
    """A label is given where its probability is higher."""

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold {self.threshold} is not between 0 and 1")
        if not self.separator:
            raise ValueError("separator is empty")
        check_labels(self.labels)

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[LabelledText]:
        """Read the rows of a table; without labels also a plain text, a text a line."""
        columns = Columns(self.text_column, self.pair_column, self.label_column)
        return read_texts(path, columns, labelled=labelled, read_label=self._joined)

    def _joined(self, row: Row, column: Column) -> str:
        """Return the labels of a row in one text, where JSON and Parquet may have a list of them."""
        if not isinstance(row.cells[column], list):
            return row.text(column)
        labels = row.texts(column)
        if wrong := [label for label in labels if self.separator in label]:
            remedy = "Choose another with --set multi-label.separator=…"
            raise InputError(f"label {wrong[0]!r} holds the separator", where=row.where, remedy=remedy)
        return self.separator.join(labels)

    def fitted(self, examples: Sequence[LabelledText]) -> Self:
        """Return the task with the labels that the examples have.

        Raises:
            InputError: there are none.
        """
        labels = self.labels or tuple(sorted(frozenset().union(*map(self._labels_of, examples))))
        if not labels:
            raise InputError("no row has a label", where=examples[0].where.rpartition(":")[0])
        return replace(self, labels=labels)

    def _labels_of(self, example: LabelledText) -> frozenset[str]:
        labels = (label.strip() for label in (example.label or "").split(self.separator))
        return frozenset(label for label in labels if label)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

    def with_classes(self, names: tuple[str, ...]) -> Self:
        """Return the task with the labels that a model names."""
        if not names:
            raise InputError("no classifier: config.json names no labels")
        return replace(self, labels=names)

    def target(self, example: LabelledText) -> list[int]:
        """Return the numbers of the labels that the example has, in the task's order."""
        own = self._labels_of(example)
        if unknown := sorted(own - set(self.labels)):
            what = f"label {unknown[0]!r} is none of the task's"
            raise InputError(what, where=example.where, remedy=f"It knows {', '.join(self.labels[:10])}")
        return [number for number, label in enumerate(self.labels) if label in own]

    def check_scored(self, examples: Sequence[LabelledText]) -> None:
        """Refuse examples whose labels are not known, or are none of the task's, where it names its own."""
        for example in examples:
            if example.label is None:
                raise InputError("no labels: nothing says which are right", where=example.where)
            if self.labels:
                self.target(example)

    def targets(self, targets: Sequence[Target | None]) -> Tensor:
        """Return what is 1 for each label that a sequence has, [B, C]."""
        targets_BC = torch.zeros(len(targets), len(self.labels))
        for row_C, own in zip(targets_BC, targets, strict=True):
            if isinstance(own, list):
                row_C[own] = 1
        return targets_BC

    def head(
        self, bert: BertModel, *, generator: torch.Generator | None = None
    ) -> BertForSequenceClassification:
        """Return the encoder with an output for each label."""
        return BertForSequenceClassification(bert, num_labels=len(self.labels), generator=generator)

    def loss(self, logits: Tensor, batch: TargetBatch) -> tuple[Tensor, Measures]:
        """Return the binary cross entropy of logits [B, C], the mean over labels, summed over sequences."""
        each_BC = nn.functional.binary_cross_entropy_with_logits(logits, batch.targets, reduction="none")
        loss = each_BC.mean(-1).sum()
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def decode(
        self, example: LabelledText, features: Sequence[TextFeature], outputs: Sequence[Array]
    ) -> LabelSet:
        """Return the likely labels; the logits of windows are averaged."""
        probabilities_C = sigmoid(np.mean(outputs, axis=0, dtype=np.float64)).tolist()
        probabilities = dict(zip(self.labels, probabilities_C, strict=True))
        return LabelSet(
            tuple(label for label, probability in probabilities.items() if probability > self.threshold),
            probabilities,
        )

    def score(self, examples: Sequence[LabelledText], predictions: Sequence[LabelSet]) -> dict[str, float]:
        """Return F1 over all labels, its mean over labels, and the share of rows with just the right set."""
        true = [self._labels_of(example) for example in examples]
        return set_scores(true, [frozenset(prediction.labels) for prediction in predictions])

    def collapse(self, examples: Sequence[LabelledText], predictions: Sequence[LabelSet]) -> str | None:
        """Name a model that gives all texts the same labels, where these are not what all of them have."""
        predicted = {frozenset(prediction.labels) for prediction in predictions}
        is_one = len(predictions) > 1 and len(predicted) == 1
        is_right = predicted == set(map(self._labels_of, examples))
        return "one set of labels only" if is_one and not is_right else None

    def to_json(self, example: LabelledText, prediction: LabelSet) -> dict[str, Any]:
        """Return the labels, and the probabilities of all."""
        return {"labels": list(prediction.labels), "probabilities": prediction.probabilities}

    def from_json(self, values: Mapping[str, Any]) -> LabelSet:
        """Read the labels; probabilities may be missing."""
        labels = values["labels"]
        if not isinstance(labels, list):
            raise TypeError(f"labels is {labels!r}, not a list")
        return LabelSet(tuple(map(str, labels)), values.get("probabilities", {}))
