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
import numpy.typing as npt

from cloze.config import check_interval
from cloze.data.reading.bad_rows import source_of
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.memory import Source
from cloze.errors import DataWarning, InputError
from cloze.metrics.classification import is_constant, is_majority_better, sort_classes
from cloze.results import Result
from cloze.suggestions import list_names
from cloze.tasks.arrays import softmax
from cloze.tasks.calibration import (
    MIN_EXAMPLES,
    Calibration,
    calibration_error,
    cross_fitted_error,
    fit_temperature,
)
from cloze.tasks.features import TextFeatures
from cloze.tasks.labels import (
    check_weights,
    order_weights,
    plain_label,
    unknown_label,
    warn_of_placeholders,
)
from cloze.tasks.task_batch import Array, GoldAnswer, Outputs, SummedLoss, TaskBatch, Tensor
from cloze.tasks.text_labels import TextLabels
from cloze.tasks.texts import LabeledText, Texts
from cloze.tasks.tfidf import class_probabilities

_MANY_CLASSES = 20


@dataclass(frozen=True, slots=True, repr=False)
class ClassPrediction(Result):
    """The most probable label, and the probabilities of all."""

    label: str
    probability: float
    probabilities: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class SequenceClassification(TextLabels[ClassPrediction]):
    """A softmax over the labels, from the pooled [CLS].

    Source: Devlin et al. 2019, 4.1; google-research/bert run_classifier.py @eedf571.
    """

    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1")
    answer_keys = ("label", "probability", "probabilities")
    model_settings: ClassVar[tuple[str, ...]] = ("labels", "class_weights", "temperature")
    averaged_settings = ("temperature",)
    problem_type = "single_label_classification"
    target_dtype = np.int64

    class_weights: tuple[float, ...] | dict[str, float] | Literal["balanced"] = ()
    """Weight of each class in the loss: in the order of `labels`, or by label, where others have 1, or "balanced":
    by its inverse frequency in the training data, with mean 1 over the examples. By default all are equal."""
    calibrate: bool = False
    """Divide the output layer after training by a temperature that is fitted on the dev data."""
    temperature: float = 1.0
    """The temperature of a trained model, which is calibrated if it is not 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weights("class_weights", self.class_weights, self.labels)
        check_interval(self, "(0, inf)", "temperature")

    def fit_labels(self, examples: Texts) -> Self:
        """Return the task with the labels of the examples, at least two, and their weights if these are balanced."""
        if self.temperature != 1:
            what, remedy = "is fitted after training", f"Say `{self.name}.calibrate=true`"
            raise InputError(what, where=f"{self.name}.temperature", remedy=remedy)
        where = source_of(examples[0].where)
        gold = [plain_label(example.label) for example in examples if example.label is not None]
        labels = self.labels or sort_classes(set(gold))
        if len(labels) < 2:
            what = f"every row has the label {labels[0]!r}" if labels else "no row has a label"
            raise InputError(what, where=where, remedy="A classifier needs examples of two labels at least")
        if not self.labels:
            warn_of_placeholders(gold, labels, where, self.name)
        if not self.labels and len(labels) > max(_MANY_CLASSES, len(examples) / 2):
            what = f"{len(labels):,} classes in {len(examples):,} examples: most have one example"
            remedy = "Numbers are learned by the task regression; `label_column` names another column"
            warnings.warn(DataWarning(f"{where}: {what}. {remedy}"), stacklevel=2)
        task, weights = replace(self, labels=labels, class_weights=()), self.class_weights
        if weights == "balanced":
            counts = Counter(map(task.gold, examples))
            weights = {label: len(examples) / (len(labels) * max(counts[label], 1)) for label in labels}
        return replace(task, class_weights=order_weights(weights, labels, f"{self.name}.class_weights"))

    def gold(self, example: LabeledText) -> str:
        """Return the class of an example, which must be known if the task has labels."""
        label = example.label or ""
        return self.check_label(label, example.where) if self.labels else plain_label(label)

    def classes_of(self, example: LabeledText) -> frozenset[str]:
        return frozenset([self.gold(example)])

    def check_label(self, label: str, where: str) -> str:
        """Return the label, if it is the task's; any label before training, if the task has no labels of its own."""
        name = plain_label(label) if self.labels and label not in self.labels else label
        if self.labels and name not in self.labels:
            raise unknown_label(label, self.labels, where)
        return name

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
            raise InputError(f"its classes are {list_names(names)}, the task's {list_names(self.labels)}")
        return replace(self, labels=names)

    def target(self, example: LabeledText) -> int:
        return self.labels.index(self.gold(example))

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the summed cross entropy of logits [B, C], and the accuracy."""
        import torch

        from cloze.training.losses import cross_entropy

        assert isinstance(self.class_weights, tuple), "known once the labels are"
        weight_C = None
        if self.class_weights:
            weight_C = torch.tensor(self.class_weights).to(logits, non_blocking=True)
        return cross_entropy(logits, batch.targets, weight=weight_C)

    def soft_loss(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        """Return the divergence of the softmax from the teacher's."""
        from cloze.training.losses import softmax_divergence

        return softmax_divergence(logits, batch.teacher, temperature)

    def decode(self, example: LabeledText, features: TextFeatures, outputs: Outputs) -> ClassPrediction:
        """Return the most probable label (the first of equals) from the mean logits of the windows."""
        probabilities_C = softmax(np.array(self.raw_scores(outputs))).tolist()
        best = int(np.argmax(probabilities_C))
        probabilities = dict(zip(self.labels, probabilities_C, strict=True))
        return ClassPrediction(self.labels[best], probabilities_C[best], probabilities)

    def pairs(self, example: LabeledText, prediction: ClassPrediction) -> Iterator[GoldAnswer]:
        label = prediction.label if self.labels else plain_label(prediction.label)
        yield GoldAnswer(self.gold(example), label, prediction.probability)

    def dev_notes(self, examples: Texts) -> list[str]:
        """Return whether there are too few dev examples for a temperature."""
        if not self.calibrate or len(examples) >= MIN_EXAMPLES:
            return []
        return [
            f"probabilities are not calibrated: there are {len(examples)} dev examples, fewer than {MIN_EXAMPLES}; "
            "dev_fraction holds out more"
        ]

    def calibrated(self, examples: Texts, predictions: Sequence[ClassPrediction]) -> tuple[Self, float]:
        """Fit a temperature if there are enough examples and the model is not calibrated yet."""
        if not self.calibrate or self.temperature != 1 or len(examples) < MIN_EXAMPLES:
            return self, 1.0
        temperature = fit_temperature(*self._logits_and_targets(examples, predictions))
        return replace(self, temperature=temperature), temperature

    def calibration(
        self, examples: Texts, predictions: Sequence[ClassPrediction], *, is_dev: bool
    ) -> Calibration | None:
        """Return the temperature and the calibration error, if it is calibrated and there are enough examples."""
        has_all = all(p.probabilities.keys() >= {*self.labels} for p in predictions)  # a file may lack some
        if not (self.calibrate and self.labels and has_all) or len(examples) < MIN_EXAMPLES:
            return None
        logits_NC, target_N = self._logits_and_targets(examples, predictions)
        error = (
            cross_fitted_error(logits_NC, target_N)
            if is_dev
            else calibration_error(logits_NC, target_N, self.temperature)
        )
        return Calibration(self.temperature, calibration_error(logits_NC, target_N), error)

    def _logits_and_targets(
        self, examples: Texts, predictions: Sequence[ClassPrediction]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Return logits [N, C], up to a constant for each example, and the indices of the gold labels, [N]."""
        probabilities_NC = np.array([[p.probabilities[label] for label in self.labels] for p in predictions])
        logits_NC = self.temperature * np.log(np.maximum(probabilities_NC, np.finfo(np.float64).tiny))
        return logits_NC, np.array(list(map(self.target, examples)))

    def most_frequent_answer(self, train: Texts, dev: Texts) -> list[ClassPrediction]:
        """Predict the most frequent label, the first of equals."""
        shares = self.label_shares(train)
        label = max(shares, key=shares.__getitem__)
        return [ClassPrediction(label, shares[label], shares)] * len(dev)

    def fit_logistic_regression(self, train: Texts, train_features: Any, dev_features: Any) -> Array:
        targets = list(map(self.target, train))
        return np.log(class_probabilities(train_features, targets, dev_features, len(self.labels)))

    def collapse(self, examples: Texts, predictions: Sequence[ClassPrediction]) -> str | None:
        """Detect a constant prediction, and one that scores no better than the most frequent label.

        Both the main metric and the accuracy are compared: where most labels are 1, as in MRPC, the constant 1 has
        a high F1.
        """
        gold, answers = self.compare(examples, predictions)
        if is_constant(gold, answers):
            return "one class only"
        is_collapsed = is_majority_better(gold, answers, (self.metrics[0], "accuracy"))
        return "no better than the majority" if is_collapsed else None

    def to_json(self, example: LabeledText, prediction: ClassPrediction) -> dict[str, Any]:
        return asdict(prediction)

    def from_json(self, values: Mapping[str, Any]) -> ClassPrediction:
        """Read a label, which must be known if the task has labels; probabilities are optional."""
        label = as_text(values["label"])
        if label is None:
            raise TypeError(f"label is {values['label']!r}, not a text")
        label = plain_label(label) if self.labels and label not in self.labels else label
        if self.labels and label not in self.labels:
            raise ValueError(f"unknown label {label!r}, not one of {list_names(self.labels)}")
        return ClassPrediction(label, values.get("probability", math.nan), values.get("probabilities", {}))

    def read_predictions(self, source: Source, examples: Texts) -> list[ClassPrediction]:
        """Read predictions for examples, and warn if their classes and those of the examples have other names."""
        predictions = super().read_predictions(source, examples)
        labels, predicted = map(set, self.compare(examples, predictions))
        if min(len(labels), len(predicted)) > 1 and labels.isdisjoint(predicted):
            shown = (
                ", ".join([*map(repr, sorted(names)[:2]), *["…"][: len(names) - 2]])
                for names in (predicted, labels)
            )
            what = "the predictions have none of the labels of the data: {} and {}".format(*shown)
            remedy = "Are some of them the numbers of the others?"
            warnings.warn(DataWarning(f"{source}: {what}. {remedy}"), stacklevel=2)
        return predictions
