"""The family of regression tasks: a number for a text or a pair.

Shapes: B sequences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.memory_file import source_of
from cloze.metrics.regression import pearson, root_mean_squared_error, spearman
from cloze.tasks.features import TextFeature
from cloze.tasks.task import Outputs, Scores, TaskBatch
from cloze.tasks.texts import LabeledText, TextTask, finite_number, parse_score
from cloze.training.metric_sums import MetricSums


@dataclass(frozen=True, kw_only=True)
class ScoreScale:
    """Mixin for tasks that predict numbers, learned on a scale from 0 to 1."""

    main_metric = "spearman"
    libraries: ClassVar[tuple[str, ...]] = ("scipy",)
    prediction_key: ClassVar[str] = "score"
    """Key of a prediction in JSON."""

    minimum: float | None = None
    """Score that is 0 on the model's scale; by default the lowest of the training data."""
    maximum: float | None = None
    """Score that is 1 on the model's scale; by default the highest of the training data."""

    def __post_init__(self) -> None:
        if self.minimum is not None and self.maximum is not None and self.minimum >= self.maximum:
            raise ValueError(f"minimum {self.minimum} is not less than maximum {self.maximum}")

    def fit_labels(self, examples: Sequence[LabeledText]) -> Self:
        """Return the task with both ends of its scale."""
        scores = [parse_score(example) for example in examples]
        minimum = min(scores) if self.minimum is None else self.minimum
        maximum = max(scores) if self.maximum is None else self.maximum
        if minimum >= maximum:
            where = source_of(examples[0].where)
            raise InputError(f"no score is between {minimum:g} and {maximum:g}", where=where)
        return replace(self, minimum=minimum, maximum=maximum)

    def check_label(self, label: str, where: str) -> str:
        """Return a score as it is written; it must be a number."""
        parse_score(LabeledText("", label=label, where=where))
        return label

    def check_scorable(self, examples: Sequence[LabeledText]) -> None:
        """Refuse examples whose score is missing or no number."""
        for example in examples:
            parse_score(example)

    @property
    def scale(self) -> tuple[float, float]:
        """Both ends of the scale, once they are known."""
        assert self.minimum is not None
        assert self.maximum is not None
        return self.minimum, self.maximum

    def scaled_score(self, example: LabeledText) -> float:
        """Return the score of an example on the model's scale."""
        minimum, maximum = self.scale
        return (parse_score(example) - minimum) / (maximum - minimum)

    @property
    def min_spread(self) -> float:
        """Predictions that spread less are constant."""
        minimum, maximum = self.scale
        return 0.01 * (maximum - minimum)

    def score(self, examples: Sequence[LabeledText], predictions: Sequence[float]) -> Scores:
        """Return both correlations of predictions and scores."""
        scores = [parse_score(example) for example in examples]
        return {"spearman": spearman(scores, predictions), "pearson": pearson(scores, predictions)}

    def collapse(self, examples: Sequence[LabeledText], predictions: Sequence[float]) -> str | None:
        """Detect nearly constant predictions, unless all scores are equal."""
        is_constant = max(predictions) - min(predictions) < self.min_spread
        has_different_scores = len(set(map(parse_score, examples))) > 1
        return f"one {self.prediction_key} only" if is_constant and has_different_scores else None

    def to_json(self, example: LabeledText, prediction: float) -> dict[str, Any]:
        """Return the prediction."""
        return {self.prediction_key: prediction}

    def from_json(self, values: Mapping[str, Any]) -> float:
        """Read the prediction."""
        return finite_number(values[self.prediction_key])


@dataclass(frozen=True, kw_only=True)
class TextRegression(ScoreScale, TextTask[float]):
    """A number from the pooled [CLS], trained with the squared error on a scale from 0 to 1.

    The model's output is on that scale, `score = minimum + (maximum - minimum) * logit`, so that stars from 1 to 5
    and prices are learned alike. Scores are not clipped: ties would lower the rank correlation.
    """

    metrics: ClassVar[tuple[str, ...]] = ("spearman", "pearson", "rmse")
    lower_is_better: ClassVar[tuple[str, ...]] = ("rmse",)
    model_settings: ClassVar[tuple[str, ...]] = ("minimum", "maximum")
    problem_type = "regression"

    @property
    def class_names(self) -> tuple[str, ...]:
        """One output, which transformers counts as a class."""
        return ("score",)

    def with_class_names(self, names: tuple[str, ...]) -> Self:
        """Return the task for a model of another program, whose outputs are the scores."""
        if len(names) != 1:
            raise InputError(f"no regression: config.json names {len(names)} classes")
        return replace(self, minimum=0.0, maximum=1.0)

    def target(self, example: LabeledText) -> float:
        """Return the score on the model's scale."""
        return self.scaled_score(example)

    def loss(self, logits: Tensor, batch: TaskBatch) -> tuple[Tensor, MetricSums]:
        """Return the summed squared error of logits [B, 1]."""
        loss = nn.functional.mse_loss(logits[:, 0], batch.targets, reduction="sum")
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def decode(self, example: LabeledText, features: Sequence[TextFeature], outputs: Outputs) -> float:
        """Return the mean score of the windows."""
        minimum, maximum = self.scale
        return minimum + (maximum - minimum) * float(np.mean(outputs))

    def score(self, examples: Sequence[LabeledText], predictions: Sequence[float]) -> Scores:
        """Return both correlations, as GLUE does for STS-B, and the error in the unit of the scores."""
        rmse = root_mean_squared_error([parse_score(example) for example in examples], predictions)
        return {**super().score(examples, predictions), "rmse": rmse}
