"""The family of classification tasks: one label for a text or a pair.

Shapes: B sequences, C classes.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from cloze.data.tables import as_text
from cloze.errors import InputError
from cloze.memory_file import source_of
from cloze.metrics.classification import METRICS, majority_accuracy
from cloze.tasks.features import TextFeature
from cloze.tasks.labels import find_class, merge_labels, warn_of_similar_classes
from cloze.tasks.task import (
    Outputs,
    Scores,
    TaskBatch,
    check_unique,
    cross_entropy,
    softmax,
    unknown_label,
)
from cloze.tasks.texts import LabeledText, TextTask
from cloze.training.metric_sums import MetricSums


@dataclass(frozen=True, slots=True)
class ClassPrediction:
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
    ranked_field = "probabilities"
    """Names of `cloze.metrics.classification.METRICS`."""
    model_settings: ClassVar[tuple[str, ...]] = ("labels", "class_weights", "balanced")
    problem_type = "single_label_classification"
    target_dtype = np.int64

    labels: tuple[str, ...] = ()
    """In the order of the classes; by default those of the training data, sorted."""
    class_weights: tuple[float, ...] = ()
    """Weight of each class in the loss; by default all are equal."""
    balanced: bool = False
    """Weight each class by its inverse frequency in the training data, with mean 1 over the examples."""

    def __post_init__(self) -> None:
        check_unique(self.labels)
        if self.class_weights and len(self.class_weights) != len(self.labels):
            what = f"{len(self.class_weights)} class_weights for {len(self.labels)} labels"
            raise ValueError(f"{what}: give both, in one order")
        if self.class_weights and self.balanced:
            raise ValueError("class_weights and balanced exclude each other")
        if not all(0 <= weight < math.inf for weight in self.class_weights):
            raise ValueError("class_weights must be numbers of 0 or more")
        if self.class_weights and not any(self.class_weights):
            raise ValueError("class_weights are all 0: nothing would be learned")

    def fit_labels(self, examples: Sequence[LabeledText]) -> Self:
        """Return the task with the labels of the examples, at least two, and their weights if `balanced`."""
        names = merge_labels(example.label for example in examples if example.label is not None)
        labels = self.labels or tuple(sorted(set(names.values())))
        if len(labels) < 2:
            where = source_of(examples[0].where)
            what = f"every row has the label {labels[0]!r}" if labels else "no row has a label"
            raise InputError(what, where=where, remedy="A classifier needs examples of two labels at least")
        warn_of_similar_classes(labels, source_of(examples[0].where))
        task = replace(self, labels=labels, balanced=False)
        if self.balanced:
            counts = task.count_classes(task.with_class_labels(examples))
            weights = tuple(len(examples) / (len(labels) * max(counts[label], 1)) for label in labels)
            task = replace(task, class_weights=weights)
        return task

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
        weight_C = torch.tensor(self.class_weights).to(logits) if self.class_weights else None
        return cross_entropy(logits, batch.targets, weight=weight_C)

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
        labels = [example.label or "" for example in examples]
        predicted = [prediction.label for prediction in predictions]
        if not self.labels:  # of other programs, which may write numbers otherwise
            names = merge_labels([*labels, *predicted])
            labels, predicted = [names[label] for label in labels], [names[label] for label in predicted]
        scores = {name: METRICS[name](labels, predicted) for name in self.metrics}
        return {**scores, "majority_accuracy": majority_accuracy(labels)}

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
        return ClassPrediction(name, values.get("probability", 1.0), values.get("probabilities", {}))
