"""The family of tasks that give a text, or a pair of texts, a number.

Shapes: B sequences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.metrics.regression import pearson, root_mean_squared_error, spearman
from cloze.model.bert import BertModel
from cloze.model.heads import BertForSequenceClassification
from cloze.tasks.scales import ScoreScale
from cloze.tasks.task import Array, TargetBatch
from cloze.tasks.texts import LabelledText, Target, TextFeature, TextTask, finite, score_of
from cloze.training.measures import Measures

_FLATNESS = 0.01  # predictions that spread less than this share of the scale say nothing


@dataclass(frozen=True, kw_only=True)
class TextRegression(ScoreScale, TextTask[float]):
    """A number from the pooled [CLS], learned by its squared error on a scale from 0 to 1.

    The scale is what the model says, so a model for stars from 1 to 5 and one for prices learn alike:
    `score = minimum + (maximum - minimum) * logit`. Scores are not clipped: equal ones would cost rank correlation.
    """

    main_metric: ClassVar[str] = "spearman"
    metrics: ClassVar[tuple[str, ...]] = ("spearman", "pearson", "rmse")
    learned_settings: ClassVar[tuple[str, ...]] = ("minimum", "maximum")
    errors: ClassVar[tuple[str, ...]] = ("rmse",)
    problem_type: ClassVar[str | None] = "regression"
    libraries: ClassVar[tuple[str, ...]] = ("scipy",)

    @property
    def class_names(self) -> tuple[str, ...]:
        """One output, which transformers counts as a class."""
        return ("score",)

    def with_classes(self, names: tuple[str, ...]) -> Self:
        """Return the task for a model of another program, which says scores as they are."""
        if len(names) != 1:
            raise InputError(f"no regression: config.json names {len(names)} classes")
        return replace(self, minimum=0.0, maximum=1.0)

    def target(self, example: LabelledText) -> float:
        """Return the score on the scale of the model."""
        return self.on_scale(example)

    def targets(self, targets: Sequence[Target | None]) -> Tensor:
        """Return the scores on the scale of the model, [B]."""
        return torch.tensor([0.0 if target is None else target for target in targets])

    def head(
        self, bert: BertModel, *, generator: torch.Generator | None = None
    ) -> BertForSequenceClassification:
        """Return the encoder with one output."""
        return BertForSequenceClassification(bert, num_labels=1, generator=generator)

    def loss(self, logits: Tensor, batch: TargetBatch) -> tuple[Tensor, Measures]:
        """Return the summed squared error of logits [B, 1]."""
        loss = nn.functional.mse_loss(logits[:, 0], batch.targets, reduction="sum")
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def decode(
        self, example: LabelledText, features: Sequence[TextFeature], outputs: Sequence[Array]
    ) -> float:
        """Return the score, of windows the mean."""
        minimum, maximum = self.ends
        return minimum + (maximum - minimum) * float(np.mean(outputs))

    def score(self, examples: Sequence[LabelledText], predictions: Sequence[float]) -> dict[str, float]:
        """Return both correlations, as GLUE does for STS-B, and the error in the unit of the scores."""
        true = [score_of(example) for example in examples]
        return {
            "spearman": spearman(true, predictions),
            "pearson": pearson(true, predictions),
            "rmse": root_mean_squared_error(true, predictions),
        }

    def collapse(self, examples: Sequence[LabelledText], predictions: Sequence[float]) -> str | None:
        """Name a model that gives all texts about the same score, where they have others."""
        minimum, maximum = self.ends
        is_flat = max(predictions) - min(predictions) < _FLATNESS * (maximum - minimum)
        return "one score only" if is_flat and len(set(map(score_of, examples))) > 1 else None

    def to_json(self, example: LabelledText, prediction: float) -> dict[str, Any]:
        """Return the score."""
        return {"score": prediction}

    def from_json(self, values: Mapping[str, Any]) -> float:
        """Read the score."""
        return finite(values["score"])
