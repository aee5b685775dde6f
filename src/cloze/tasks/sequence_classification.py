"""The family of classification tasks: one label for a text or a pair.

Shapes: B sequences, C classes.
"""

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from cloze.data.json_rows import as_text
from cloze.errors import DataWarning, InputError
from cloze.memory_file import place_of, source_of
from cloze.metrics.breakdown import Breakdown, class_breakdown
from cloze.metrics.classification import METRICS, majority_accuracy
from cloze.remote_files import PathOrUrl
from cloze.results import Result
from cloze.tasks.distillation import softmax_divergence
from cloze.tasks.features import TextFeature
from cloze.tasks.labels import find_class, merge_labels, warn_of_similar_classes
from cloze.tasks.losses import cross_entropy, softmax
from cloze.tasks.task import check_unique, unknown_label
from cloze.tasks.task_batch import Outputs, Scores, TaskBatch, WrongAnswer
from cloze.tasks.texts import LabeledRows, LabeledText, TextTask
from cloze.training.metric_sums import MetricSums

_MANY_CLASSES = 20


@dataclass(frozen=True, slots=True, repr=False)
class ClassPrediction(Result):
    """The most probable label, and the probabilities of all."""

    label: str
    probability: float
    probabilities: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class SequenceClassification(TextTask[ClassPrediction]):
    """A softmax over the labels, from the pooled [CLS].

    Source: Devlin et al. 2019, 4.1; google-research/bert run_classifier.py @eedf571.
    """

    main_metric = "accuracy"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1")
    """Names of `cloze.metrics.classification.METRICS`."""
    ranked_field = "probabilities"
    text_answers = ("label",)
    value_answers = ("probability", "probabilities")
    has_wrong_answers = True
    model_settings: ClassVar[tuple[str, ...]] = ("labels", "class_weights", "balanced")
    problem_type = "single_label_classification"
    target_dtype = np.int64

    labels: tuple[str, ...] = ()
    """In the order of the classes; by default those of the training data, sorted."""
    class_weights: tuple[float, ...] | dict[str, float] | Literal["balanced"] = ()
    """Weight of each class in the loss: in the order of `labels`, or by label, where others have 1, or "balanced":
    by its inverse frequency in the training data, with mean 1 over the examples. By default all are equal."""
    balanced: bool = False
    """The same as `class_weights` balanced."""

    def __post_init__(self) -> None:
        check_unique(self.labels)
        if self.class_weights == "balanced":
            return
        if self.class_weights and self.balanced:
            raise ValueError("class_weights and balanced exclude each other")
        class_weights = self.class_weights
        by_label = isinstance(class_weights, dict)
        if self.class_weights and not by_label and len(self.class_weights) != len(self.labels):
            what = f"{len(self.class_weights)} class_weights for {len(self.labels)} labels"
            raise ValueError(f"{what}: give both, in one order")
        weights = list(class_weights.values() if isinstance(class_weights, dict) else class_weights)
        if not all(0 <= weight < math.inf for weight in weights):
            raise ValueError("class_weights must be numbers of 0 or more")
        if weights and not by_label and not any(weights):
            raise ValueError("class_weights are all 0: nothing would be learned")

    def fit_labels(self, examples: Sequence[LabeledText]) -> Self:
        """Return the task with the labels of the examples, at least two, and their weights if `balanced`."""
        names = merge_labels(example.label for example in examples if example.label is not None)
        labels = self.labels or tuple(sorted(set(names.values())))
        if len(labels) < 2:
            where = source_of(examples[0].where)
            what = f"every row has the label {labels[0]!r}" if labels else "no row has a label"
            raise InputError(what, where=where, remedy="A classifier needs examples of two labels at least")
        where = source_of(examples[0].where)
        rows = ((names[example.label], example.where) for example in examples if example.label is not None)
        warn_of_similar_classes(labels, rows, where)
        if not self.labels and len(labels) > max(_MANY_CLASSES, len(examples) / 2):
            what = f"{len(labels):,} classes in {len(examples):,} examples: most have one example"
            remedy = "Numbers are learned by the task regression; --label-column names another column"
            warnings.warn(DataWarning(f"{where}: {what}. {remedy}"), stacklevel=2)
        task = replace(self, labels=labels, class_weights=(), balanced=False)
        if self.balanced or self.class_weights == "balanced":
            counts = task.count_classes(task.with_class_labels(examples))
            weights = tuple(len(examples) / (len(labels) * max(counts[label], 1)) for label in labels)
            return replace(task, class_weights=weights)
        if isinstance(self.class_weights, dict):
            if unknown := [label for label in self.class_weights if label not in labels]:
                raise unknown_label(unknown[0], labels, f"{self.name}.class_weights")
            return replace(task, class_weights=tuple(self.class_weights.get(label, 1.0) for label in labels))
        return replace(task, class_weights=self.class_weights)

    @property
    def loss_weights(self) -> tuple[float, ...]:
        """The weight of each class in the order of the labels; empty if all are equal."""
        assert isinstance(self.class_weights, tuple), "known once the labels are"
        return self.class_weights

    def with_class_labels(self, examples: Sequence[LabeledText]) -> list[LabeledText]:
        """Return the examples with the class of each label."""
        classes = [example.label and find_class(example.label, self.labels) for example in examples]
        return [
            example if name in (None, example.label) else replace(example, label=name)
            for example, name in zip(examples, classes, strict=True)
        ]

    def count_classes(self, examples: Sequence[LabeledText]) -> dict[str, int]:
        """Return the number of examples of each class."""
        counts = Counter(example.label for example in examples)
        return {label: counts[label] for label in self.labels}

    def check_label(self, label: str, where: str) -> str:
        """Return the class of a label; any label before training, if the task has no labels of its own."""
        if not self.labels:
            return label
        name = find_class(label, self.labels)
        if name is None:
            raise unknown_label(label, self.labels, where)
        return name

    def with_plain_labels(self, examples: Iterator[LabeledText]) -> Iterator[LabeledText]:
        """Return examples with classes; labels that stand for none beside the others are missing ones."""
        assert isinstance(self, LabeledRows)
        return self.labeled_examples(examples, lambda example: [example.label or ""])

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

    def with_class_names(self, names: tuple[str, ...]) -> Self:
        """Return the task with a model's labels, which must be the task's if it has labels of its own.

        transformers calls unnamed classes LABEL_0, LABEL_1. They are accepted only for a task whose labels are
        numbers, since the order of other labels is unknown.
        """
        if len(names) < 2:
            what = "one class only, which is a number: see the task regression" if names else "no labels"
            raise InputError(f"no classifier: config.json names {what}")
        if self.labels:
            names = tuple(name.removeprefix("LABEL_") for name in names)
        if self.labels and set(names) != set(self.labels):
            raise InputError(f"its classes are {', '.join(names)}, the task's {', '.join(self.labels)}")
        return replace(self, labels=names)

    def stratum(self, example: LabeledText) -> str | None:
        """Return the label."""
        return example.label

    def target(self, example: LabeledText) -> int:
        """Return the index of the class."""
        if example.label not in self.labels:
            raise unknown_label(example.label, self.labels, example.where)
        return self.labels.index(example.label)

    def check_scorable(self, examples: Sequence[LabeledText]) -> None:
        """Refuse unknown labels, if the task has labels of its own."""
        if self.labels:
            for example in examples:
                self.target(example)

    def loss(self, logits: Tensor, batch: TaskBatch) -> tuple[Tensor, MetricSums]:
        """Return the summed cross entropy of logits [B, C], and the accuracy."""
        weight_C = torch.tensor(self.loss_weights).to(logits) if self.loss_weights else None
        return cross_entropy(logits, batch.targets, weight=weight_C)

    def soft_loss(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        """Return the divergence of the softmax from the teacher's."""
        return softmax_divergence(logits, batch.teacher, temperature)

    def decode(
        self, example: LabeledText, features: Sequence[TextFeature], outputs: Outputs
    ) -> ClassPrediction:
        """Return the most probable label (the first of equals) from the mean logits of the windows."""
        probabilities_C = softmax(np.mean(outputs, axis=0, dtype=np.float64)).tolist()
        best = int(np.argmax(probabilities_C))
        probabilities = dict(zip(self.labels, probabilities_C, strict=True))
        return ClassPrediction(self.labels[best], probabilities_C[best], probabilities)

    def score(self, examples: Sequence[LabeledText], predictions: Sequence[ClassPrediction]) -> Scores:
        """Return the task's metrics, and the accuracy of the most frequent label."""
        labels, predicted = self._merged_labels(examples, predictions)
        scores = {name: METRICS[name](labels, predicted) for name in self.metrics}
        return {**scores, "majority_accuracy": majority_accuracy(labels)}

    def breakdown(self, examples: Sequence[LabeledText], predictions: Sequence[ClassPrediction]) -> Breakdown:
        """Return precision, recall and F1 of each class, and the confusion matrix."""
        return class_breakdown(*self._merged_labels(examples, predictions), self.labels)

    def _merged_labels(
        self, examples: Sequence[LabeledText], predictions: Sequence[ClassPrediction]
    ) -> tuple[list[str], list[str]]:
        """Return the gold and the predicted label of each example, equal numbers as one class."""
        labels = [example.label or "" for example in examples]
        predicted = [prediction.label for prediction in predictions]
        if self.labels:
            return labels, predicted
        names = merge_labels([*labels, *predicted])  # other programs may write numbers otherwise
        return [names[label] for label in labels], [names[label] for label in predicted]

    def wrong_answers(self, example: LabeledText, prediction: ClassPrediction) -> list[WrongAnswer]:
        """Return both labels if they differ."""
        labels, predicted = self._merged_labels([example], [prediction])
        if labels == predicted:
            return []
        is_known = not math.isnan(prediction.probability)
        return [WrongAnswer(labels[0], predicted[0], prediction.probability if is_known else None)]

    def collapse(self, examples: Sequence[LabeledText], predictions: Sequence[ClassPrediction]) -> str | None:
        """Detect a constant prediction, and one that scores no better than the most frequent label.

        Both the main metric and the accuracy are compared: where most labels are 1, as in MRPC, the constant 1 has
        a high F1. If all examples have the same label, a constant prediction proves nothing.
        """
        counts = Counter(example.label or "" for example in examples)
        predicted = {prediction.label for prediction in predictions}
        if len(predictions) > 1 and len(predicted) == 1 and predicted != set(counts):
            return "one class only"
        if len(counts) == 1:
            return None
        [(label, _)] = counts.most_common(1)
        majority = self.score(examples, [ClassPrediction(label, 1.0, {})] * len(examples))
        scores = self.score(examples, predictions)
        is_better = any(scores[name] > majority[name] for name in (self.main_metric, "accuracy"))
        return None if is_better else "no better than the majority"

    def to_json(self, example: LabeledText, prediction: ClassPrediction) -> dict[str, Any]:
        """Return the label, its probability, and the probabilities of all labels."""
        return asdict(prediction)

    def from_json(self, values: Mapping[str, Any]) -> ClassPrediction:
        """Read a label, which must be known if the task has labels; probabilities are optional."""
        label = as_text(values["label"])
        if label is None:
            raise TypeError(f"label is {values['label']!r}, not a text")
        name = find_class(label, self.labels) if self.labels else label
        if name is None:
            raise ValueError(f"unknown label {label!r}, not one of {', '.join(self.labels[:10])}")
        return ClassPrediction(name, values.get("probability", math.nan), values.get("probabilities", {}))

    def read_predictions(self, path: PathOrUrl, examples: Sequence[LabeledText]) -> list[ClassPrediction]:
        """Read predictions for examples, and warn if their classes and those of the examples have other names."""
        predictions = super().read_predictions(path, examples)
        labels, predicted = map(set, self._merged_labels(examples, predictions))
        if min(len(labels), len(predicted)) > 1 and labels.isdisjoint(predicted):
            shown = (
                ", ".join([*map(repr, sorted(names)[:2]), *["…"][: len(names) - 2]])
                for names in (predicted, labels)
            )
            what = "the predictions have none of the labels of the data: {} and {}".format(*shown)
            remedy = "Are some of them the numbers of the others?"
            warnings.warn(DataWarning(f"{place_of(path)}: {what}. {remedy}"), stacklevel=2)
        return predictions
