"""A number for a text or a pair, from the pooled [CLS].

Shapes: B sequences.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.choices import MissingLabels
from cloze.data.reading.bad_rows import MissingLabelError, source_of
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.models.sentence_transformers import Activation, load_score_activation
from cloze.tasks.answers.kind import TextAnswer
from cloze.tasks.arrays import sigmoid
from cloze.tasks.labels import PLACEHOLDERS, external_labels, read_label
from cloze.tasks.prediction_files import finite_number
from cloze.tasks.task_batch import Baseline, Outputs, SummedLoss, TaskBatch, Tensor
from cloze.tasks.texts import LabeledText, Texts
from cloze.tasks.tfidf import tfidf_cosines, tfidf_ridge

DecimalMark: TypeAlias = Literal[".", ","]
_MARKS = str.maketrans(",.", ".,")


def read_number(row: Row, missing: MissingLabels, decimal: DecimalMark = ".") -> float:
    """Return the label of a row as a finite number."""
    label = read_label(row, missing=missing)
    try:
        return finite_number(label.translate(_MARKS) if decimal == "," else label)
    except ValueError as error:
        kind, remedy = InputError, "Write finite numbers without units, as in 4.5; `decimal=,` reads 4,5"
        if label in PLACEHOLDERS:
            kind, remedy = MissingLabelError, "`missing_labels=drop` leaves out such rows"
        raise kind(f"score {label!r} is not a number", where=row.where, remedy=remedy) from error


def check_scale(minimum: float | None, maximum: float | None) -> None:
    """Raise `ValueError` if the ends of a scale are not finite or in the wrong order."""
    if not all(math.isfinite(end) for end in (minimum, maximum) if end is not None):
        raise ValueError(f"minimum {minimum} and maximum {maximum} must be finite")
    if minimum is not None and maximum is not None and minimum >= maximum:
        raise ValueError(f"minimum {minimum} is not less than maximum {maximum}")


def fit_scale(examples: Texts, minimum: float | None, maximum: float | None) -> tuple[float, float]:
    """Return both ends of the scale of the training data; an end that is set stays."""
    numbers = [example.gold for example in examples]
    minimum = min(numbers) if minimum is None else minimum
    maximum = max(numbers) if maximum is None else maximum
    if minimum >= maximum:
        what = f"no score is between {minimum:g} and {maximum:g}"
        raise InputError(what, where=source_of(examples[0].where))
    return minimum, maximum


def are_constant(examples: Texts, answers: Sequence[float], min_spread: float) -> bool:
    """Return whether answers spread less than this, unless all gold numbers are equal."""
    return max(answers) - min(answers) < min_spread and len({example.gold for example in examples}) > 1


@dataclass(frozen=True, kw_only=True)
class Number(TextAnswer[float]):
    """A number, trained with the squared error on a scale from 0 to 1.

    The model's output is on that scale, `score = minimum + (maximum - minimum) * logit`, so that stars from 1 to 5
    and prices are learned alike. Scores are not clipped: ties would lower the rank correlation.

    Cross-encoders of other programs put a sigmoid on the logit, unless their files say otherwise.
    """

    metrics: ClassVar[tuple[str, ...]] = ("spearman", "pearson", "rmse")
    keys: ClassVar[tuple[str, ...]] = ("score",)
    weight_settings: ClassVar[tuple[str, ...]] = ("minimum", "maximum", "activation")
    problem_type = "regression"

    minimum: float | None = None
    """Score that is 0 on the model's scale; by default the lowest of the training data."""
    maximum: float | None = None
    """Score that is 1 on the model's scale; by default the highest of the training data."""
    decimal: DecimalMark = "."
    """Decimal mark of the scores in files."""
    activation: Activation = "identity"
    """The function applied to the logit on the model's scale: none, or a sigmoid."""

    def __post_init__(self) -> None:
        check_scale(self.minimum, self.maximum)

    def read(self, row: Row) -> float:
        return read_number(row, self.missing_labels, self.decimal)

    def fit(self, examples: Texts) -> Self:
        minimum, maximum = fit_scale(examples, self.minimum, self.maximum)
        return replace(self, minimum=minimum, maximum=maximum)

    @property
    def class_names(self) -> tuple[str, ...]:
        """One output, which transformers counts as a class."""
        return ("score",)

    @property
    def scale(self) -> tuple[float, float]:
        """Both ends of the scale, once they are known."""
        assert self.minimum is not None
        assert self.maximum is not None
        return self.minimum, self.maximum

    def for_external_checkpoint(self, directory: Path) -> Self:
        if (num_classes := len(external_labels(directory, self.problem_type))) != 1:
            raise InputError(f"no regression: config.json names {num_classes} classes")
        return replace(self, minimum=0.0, maximum=1.0, activation=load_score_activation(directory))

    def target(self, gold: float) -> float:
        """Return the number on the model's scale."""
        minimum, maximum = self.scale
        return (gold - minimum) / (maximum - minimum)

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the squared error of logits [B, 1]."""
        from torch import nn

        scores_B = logits[:, 0].sigmoid() if self.activation == "sigmoid" else logits[:, 0]
        loss = nn.functional.mse_loss(scores_B, batch.targets, reduction="sum")
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def distance(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        from torch import nn

        return nn.functional.mse_loss(logits, batch.teacher, reduction="sum")

    def conversion_from(self, other: Self) -> tuple[npt.NDArray[np.int64], float, float]:
        order, _, _ = super().conversion_from(other)
        (minimum, maximum), (from_minimum, from_maximum) = self.scale, other.scale
        width = maximum - minimum
        return order, (from_maximum - from_minimum) / width, (from_minimum - minimum) / width

    def decode(self, example: LabeledText, features: Sequence[Any], outputs: Outputs) -> float:
        minimum, maximum = self.scale
        (logit,) = self.raw_scores(outputs)
        output = float(sigmoid(logit)) if self.activation == "sigmoid" else logit
        return minimum + (maximum - minimum) * output

    def collapse(self, examples: Texts, answers: Sequence[float], metrics: Sequence[str]) -> str | None:
        minimum, maximum = self.scale
        return "one score only" if are_constant(examples, answers, 0.01 * (maximum - minimum)) else None

    def baselines(self, train: Sequence[Any]) -> Mapping[str, Baseline]:
        minimum, maximum = self.scale

        def mean(train: Texts, dev: Texts) -> list[float]:
            return [fmean(example.gold for example in train)] * len(dev)

        def scaled_cosines(train: Texts, dev: Texts) -> list[float]:
            return [minimum + (maximum - minimum) * cosine for cosine in tfidf_cosines(train, dev)]

        cosine = {} if train[0].pair is None else {"tfidf_cosine": scaled_cosines}
        return {"mean": mean, "tfidf_ridge": tfidf_ridge, **cosine}
