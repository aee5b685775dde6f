"""The family of regression tasks: a number for a text or a pair.

Shapes: B sequences.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from cloze.data.reading.bad_rows import MissingLabelError, source_of
from cloze.errors import InputError
from cloze.metrics.regression import METRICS
from cloze.models.cross_encoder import Activation, load_score_activation
from cloze.tasks.arrays import sigmoid
from cloze.tasks.features import TextFeatures
from cloze.tasks.labels import PLACEHOLDERS
from cloze.tasks.prediction_files import finite_number
from cloze.tasks.task_batch import Baseline, Outputs, Scores, SummedLoss, TaskBatch, Tensor
from cloze.tasks.texts import LabeledText, LabeledTexts, Texts, TextTask
from cloze.tasks.tfidf import tfidf_cosines, tfidf_features


@dataclass(frozen=True, kw_only=True)
class NumberAnswers(LabeledTexts[float]):
    """A task whose answers are numbers."""

    answer_keys: ClassVar[tuple[str, ...]] = ("score",)

    @property
    @abstractmethod
    def min_spread(self) -> float:
        """Predictions that spread less are constant."""

    def gold(self, example: LabeledText) -> float:
        """Return the label of an example as a number, which must be finite."""
        try:
            score = float(example.label or "")
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            what, remedy = (
                f"score {example.label!r} is not a number",
                "Write finite numbers without units, as in 4.5",
            )
            if example.label in PLACEHOLDERS:
                remedy = "`missing_labels=drop` leaves out such rows"
                raise MissingLabelError(what, where=example.where, remedy=remedy)
            raise InputError(what, where=example.where, remedy=remedy)
        return score

    def collapse(self, examples: Texts, predictions: Sequence[float]) -> str | None:
        """Detect nearly constant predictions, unless all scores are equal."""
        is_constant = max(predictions) - min(predictions) < self.min_spread
        has_different_scores = len(set(map(self.gold, examples))) > 1
        return f"one {self.answer_keys[0]} only" if is_constant and has_different_scores else None

    def to_json(self, example: LabeledText, prediction: float) -> dict[str, Any]:
        return {self.answer_keys[0]: prediction}

    def from_json(self, values: Mapping[str, Any]) -> float:
        return finite_number(values[self.answer_keys[0]])


@dataclass(frozen=True, kw_only=True)
class ScoreScale(NumberAnswers):
    """A task that predicts numbers, learned on a scale from 0 to 1."""

    metrics: ClassVar[tuple[str, ...]] = ("spearman", "pearson")

    minimum: float | None = None
    """Score that is 0 on the model's scale; by default the lowest of the training data."""
    maximum: float | None = None
    """Score that is 1 on the model's scale; by default the highest of the training data."""
    decimal: Literal[".", ","] = "."
    """Decimal mark of the scores in files."""

    def __post_init__(self) -> None:
        if not all(math.isfinite(end) for end in (self.minimum, self.maximum) if end is not None):
            raise ValueError(f"minimum {self.minimum} and maximum {self.maximum} must be finite")
        if self.minimum is not None and self.maximum is not None and self.minimum >= self.maximum:
            raise ValueError(f"minimum {self.minimum} is not less than maximum {self.maximum}")

    def fit_labels(self, examples: Texts) -> Self:
        """Return the task with both ends of its scale."""
        scores = list(map(self.gold, examples))
        minimum = min(scores) if self.minimum is None else self.minimum
        maximum = max(scores) if self.maximum is None else self.maximum
        if minimum >= maximum:
            where = source_of(examples[0].where)
            raise InputError(f"no score is between {minimum:g} and {maximum:g}", where=where)
        return replace(self, minimum=minimum, maximum=maximum)

    def check_label(self, label: str, where: str) -> str:
        """Return a score with a decimal point; it must be a number."""
        other = "," if self.decimal == "." else "."
        if other in label:
            what, remedy = (
                f"score {label!r} has {other!r}",
                f"`{self.name}.decimal=,` reads decimal commas, `.` points",
            )
            raise InputError(what, where=where, remedy=remedy)
        label = label.replace(",", ".")
        self.gold(LabeledText("", label=label, where=where))
        return label

    def check_scorable(self, examples: Texts) -> None:
        """Refuse examples whose score is missing or no number, and a test set of the Hub, whose scores are all -1."""
        scores = set(map(self.gold, examples))
        if scores == {-1.0} and (self.minimum is None or self.minimum > -1):
            remedy = "Such a test set can only be predicted: cloze predict"
            raise InputError(
                "every score is -1, which stands for none", where=source_of(examples[0].where), remedy=remedy
            )

    @property
    def scale(self) -> tuple[float, float]:
        """Both ends of the scale, once they are known."""
        assert self.minimum is not None
        assert self.maximum is not None
        return self.minimum, self.maximum

    def scaled_score(self, example: LabeledText) -> float:
        """Return the score of an example on the model's scale."""
        minimum, maximum = self.scale
        return (self.gold(example) - minimum) / (maximum - minimum)

    @property
    def min_spread(self) -> float:
        minimum, maximum = self.scale
        return 0.01 * (maximum - minimum)

    def score(self, examples: Texts, predictions: Sequence[float]) -> Scores:
        """Return the correlations, as GLUE does for STS-B, and the error in the unit of the scores."""
        scores = list(map(self.gold, examples))
        return {name: METRICS[name](scores, predictions) for name in self.metrics}


@dataclass(frozen=True, kw_only=True)
class TextRegression(ScoreScale, TextTask[float]):
    """A number from the pooled [CLS], trained with the squared error on a scale from 0 to 1.

    The model's output is on that scale, `score = minimum + (maximum - minimum) * logit`, so that stars from 1 to 5
    and prices are learned alike. Scores are not clipped: ties would lower the rank correlation.

    Cross-encoders of other programs put a sigmoid on the logit, unless their files say otherwise.
    """

    metrics: ClassVar[tuple[str, ...]] = ("spearman", "pearson", "rmse")
    model_settings: ClassVar[tuple[str, ...]] = ("minimum", "maximum", "activation")
    problem_type = "regression"

    activation: Activation = "identity"
    """The function applied to the logit on the model's scale: none, or a sigmoid."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """One output, which transformers counts as a class."""
        return ("score",)

    def with_class_names(self, names: tuple[str, ...]) -> Self:
        """Return the task for a model of another program, whose outputs are the scores."""
        if len(names) != 1:
            raise InputError(f"no regression: config.json names {len(names)} classes")
        return replace(self, minimum=0.0, maximum=1.0)

    def for_external_checkpoint(self, directory: Path) -> Self:
        """Return the task for a model of another program, with its activation.

        Raises:
            InputError: it has several classes, or cloze lacks its activation.
        """
        activation = load_score_activation(directory)
        return replace(super().for_external_checkpoint(directory), activation=activation)

    def target(self, example: LabeledText) -> float:
        return self.scaled_score(example)

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the summed squared error of logits [B, 1]."""
        from torch import nn

        scores_B = logits[:, 0].sigmoid() if self.activation == "sigmoid" else logits[:, 0]
        loss = nn.functional.mse_loss(scores_B, batch.targets, reduction="sum")
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def soft_loss(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        """Return the squared error between both outputs."""
        from torch import nn

        return nn.functional.mse_loss(logits, batch.teacher, reduction="sum")

    def conversion_from(self, other: Self) -> tuple[npt.NDArray[np.int64], float, float]:
        """Return the factor and the shift from the scale of another regression to this one's."""
        order, _, _ = super().conversion_from(other)
        (minimum, maximum), (from_minimum, from_maximum) = self.scale, other.scale
        width = maximum - minimum
        return order, (from_maximum - from_minimum) / width, (from_minimum - minimum) / width

    def baselines(self) -> Mapping[str, Baseline]:
        """Return the mean score, a ridge regression on TF-IDF weights, and the cosine of a pair's weights."""
        cosine = {"tfidf_cosine": self._scaled_cosines} if self.reads_pairs else {}
        return {"mean": self._mean_score, "tfidf_ridge": self._ridge_regression, **cosine}

    def _mean_score(self, train: Texts, dev: Texts) -> list[float]:
        return [fmean(map(self.gold, train))] * len(dev)

    def _ridge_regression(self, train: Texts, dev: Texts) -> list[float]:
        from sklearn.linear_model import Ridge

        train_features, dev_features = tfidf_features(train, dev)
        ridge = Ridge().fit(train_features, list(map(self.gold, train)))
        scores: list[float] = ridge.predict(dev_features).tolist()
        return scores

    def _scaled_cosines(self, train: Texts, dev: Texts) -> list[float]:
        minimum, maximum = self.scale
        return [minimum + (maximum - minimum) * cosine for cosine in tfidf_cosines(train, dev)]

    def decode(self, example: LabeledText, features: TextFeatures, outputs: Outputs) -> float:
        """Return the score of the mean logit of the windows."""
        minimum, maximum = self.scale
        (logit,) = self.raw_scores(outputs)
        return minimum + (maximum - minimum) * float(
            sigmoid(logit) if self.activation == "sigmoid" else logit
        )
