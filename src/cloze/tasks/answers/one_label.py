"""One label for a text or a pair: a softmax over the labels, from the pooled [CLS].

Shapes: B sequences, C classes.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.config import Range
from cloze.data.reading.bad_rows import source_of
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.metrics.classification import is_constant, is_majority_better, sort_classes
from cloze.results import Result
from cloze.suggestions import list_names
from cloze.tasks.answers.kind import TextAnswer
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
from cloze.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, repr=False)
class ClassPrediction(Result):
    """The most probable label, and the probabilities of all."""

    label: str
    probability: float
    probabilities: dict[str, float]


ClassPredictions: TypeAlias = Sequence[ClassPrediction]


@dataclass(frozen=True, kw_only=True)
class OneLabel(TextAnswer[ClassPrediction]):
    """One label.

    Source: Devlin et al. 2019, 4.1; google-research/bert run_classifier.py @eedf571.
    """

    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1")
    keys: ClassVar[tuple[str, ...]] = ("label", "probability", "probabilities")
    ranked_field = "probabilities"
    weight_settings: ClassVar[tuple[str, ...]] = ("labels", "class_weights", "temperature")
    averaged_settings = ("temperature",)
    problem_type = "single_label_classification"
    target_dtype = np.int64

    labels: tuple[str, ...] = ()
    """In the order of the classes; by default those of the training data, sorted."""
    label_names: tuple[str, ...] = ()
    """Names of labels that data have as numbers, in their order."""
    class_weights: tuple[float, ...] | dict[str, float] | Literal["balanced"] = ()
    """Weight of each class in the loss: in the order of `labels`, or by label, where others have 1, or "balanced":
    by its inverse frequency in the training data, with mean 1 over the examples. By default all are equal."""
    calibrate: bool = False
    """Divide the output layer after training by a temperature that is fitted on the dev data."""
    temperature: Annotated[float, Range("(0, inf)")] = 1.0
    """The temperature of a trained model, which is calibrated if it is not 1."""

    def __post_init__(self) -> None:
        check_unique(self.labels)
        check_weights("class_weights", self.class_weights, self.labels)

    def read(self, row: Row) -> str:
        label = self._named(read_label(row, labels=self.labels, missing=self.missing_labels))
        if self.labels and label not in self.labels:
            raise unknown_label(label, self.labels, row.where)
        return label

    def _named(self, label: str) -> str:
        """Return the name of a label that may be a number."""
        if label in self.label_names or not (label.isascii() and label.isdigit()):
            return label
        return self.label_names[int(label)] if int(label) < len(self.label_names) else label

    def fit(self, examples: Texts) -> Self:
        if self.temperature != 1:
            remedy = "Say `calibrate=true`"
            raise InputError("is fitted after training", where="temperature", remedy=remedy)
        where = source_of(examples[0].where)
        labels = self.labels or sort_classes({example.gold for example in examples})
        if len(labels) < 2:
            what = f"every row has the label {labels[0]!r}"
            raise InputError(what, where=where, remedy="A classifier needs examples of two labels at least")
        kind, weights = replace(self, labels=labels, class_weights=()), self.class_weights
        if weights == "balanced":
            counts = Counter(example.gold for example in examples)
            weights = {label: len(examples) / (len(labels) * max(counts[label], 1)) for label in labels}
        return replace(kind, class_weights=order_weights(weights, labels, "class_weights"))

    def for_external_checkpoint(self, directory: Path) -> Self:
        """Return the kind with a model's labels, which must equal the task's if it has labels of its own."""
        names = external_labels(directory, self.problem_type)
        if len(names) < 2:
            what = "one class only, which is a number: see the task regression" if names else "no labels"
            raise InputError(f"no classifier: config.json names {what}")
        if self.labels:
            # transformers calls unnamed classes LABEL_0, LABEL_1: the labels of a task whose labels are numbers
            names = tuple(name.removeprefix("LABEL_") for name in names)
            if set(names) != set(self.labels):
                raise InputError(f"its classes are {list_names(names)}, the task's {list_names(self.labels)}")
        return replace(self, labels=names)

    def target(self, gold: str) -> int:
        return self.labels.index(gold)

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the cross entropy of logits [B, C], and the accuracy."""
        from cloze.training.metric_sums import cross_entropy, weight_tensor

        return cross_entropy(logits, batch.targets, weight=weight_tensor(self.class_weights, logits))

    def distance(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        from cloze.training.metric_sums import softmax_divergence

        return softmax_divergence(logits, batch.teacher, temperature)

    def decode(self, example: LabeledText, features: TextFeatures, outputs: Outputs) -> ClassPrediction:
        """Return the most probable label, the first of equals."""
        probabilities_C = softmax(np.array(self.raw_scores(outputs))).tolist()
        best = int(np.argmax(probabilities_C))
        probabilities = dict(zip(self.labels, probabilities_C, strict=True))
        return ClassPrediction(self.labels[best], probabilities_C[best], probabilities)

    def pairs(self, example: LabeledText, answer: ClassPrediction) -> Iterator[GoldAnswer]:
        yield GoldAnswer(self.gold(example), answer.label, answer.probability)

    def notes(self, train: Texts, dev: Texts, tokenizer: Tokenizer) -> Iterator[str]:
        if self.calibrate and len(dev) < MIN_EXAMPLES:
            what = f"there are {len(dev)} dev examples, fewer than {MIN_EXAMPLES}"
            yield f"probabilities are not calibrated: {what}; dev_fraction holds out more"

    def calibrated(self, examples: Texts, answers: ClassPredictions) -> tuple[Self, float]:
        if not self.calibrate or self.temperature != 1 or len(examples) < MIN_EXAMPLES:
            return self, 1.0
        temperature = fit_temperature(*self._logits_and_targets(examples, answers))
        return replace(self, temperature=temperature), temperature

    def calibration(self, examples: Texts, answers: ClassPredictions, *, is_dev: bool) -> Calibration | None:
        if not (self.calibrate and self.labels) or len(examples) < MIN_EXAMPLES:
            return None
        if any({*self.labels} - answer.probabilities.keys() for answer in answers):  # as in a file
            return None
        logits_NC, target_N = self._logits_and_targets(examples, answers)
        if is_dev:
            error = cross_fitted_error(logits_NC, target_N)
        else:
            error = calibration_error(logits_NC, target_N, self.temperature)
        return Calibration(self.temperature, calibration_error(logits_NC, target_N), error)

    def _logits_and_targets(
        self, examples: Texts, answers: ClassPredictions
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Return logits [N, C], up to a constant for each example, and the indices of the gold labels, [N]."""
        probabilities_NC = [[answer.probabilities[label] for label in self.labels] for answer in answers]
        logits_NC = self.temperature * np.log(np.maximum(probabilities_NC, np.finfo(np.float64).tiny))
        return logits_NC, np.array([self.target(example.gold) for example in examples])

    def baselines(self, train: Sequence[Any]) -> Mapping[str, Baseline]:
        return {"majority": self._most_frequent, "tfidf_logistic": self._logistic_regression}

    def _most_frequent(self, train: Texts, dev: Texts) -> list[ClassPrediction]:
        counts = Counter(example.gold for example in train)
        shares = {label: counts[label] / len(train) for label in self.labels}
        label = max(shares, key=shares.__getitem__)
        return [ClassPrediction(label, shares[label], shares)] * len(dev)

    def _logistic_regression(self, train: Texts, dev: Texts) -> list[ClassPrediction]:
        train_features, dev_features = tfidf_features(train, dev)
        targets = [self.target(example.gold) for example in train]
        with np.errstate(divide="ignore"):
            logits_NC = np.log(class_probabilities(train_features, targets, dev_features, len(self.labels)))
        return [self.decode(example, [], [row_C]) for example, row_C in zip(dev, logits_NC, strict=True)]

    def collapse(self, examples: Texts, answers: ClassPredictions, metrics: Sequence[str]) -> str | None:
        gold, predicted = self.compare(examples, answers)
        if is_constant(gold, predicted):
            return "one class only"
        # both: where most labels are 1, as in MRPC, the constant 1 has a high F1
        is_collapsed = is_majority_better(gold, predicted, (metrics[0], "accuracy"))
        return "no better than the majority" if is_collapsed else None

    def to_json(self, example: LabeledText, answer: ClassPrediction) -> dict[str, Any]:
        return asdict(answer)

    def from_json(self, values: Mapping[str, Any]) -> ClassPrediction:
        label = as_text(values["label"])
        if label is None:
            raise TypeError(f"label is {values['label']!r}, not a text")
        name = self._named(plain_label(label.strip()))  # as labels of data are read
        if self.labels and name not in self.labels:
            raise ValueError(f"unknown label {label!r}, not one of {list_names(self.labels)}")
        return ClassPrediction(name, values.get("probability", math.nan), values.get("probabilities", {}))
