"""The base of tasks whose texts have labels, one or any number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from cloze.metrics.breakdown import Breakdown, class_breakdown
from cloze.tasks.task import check_unique
from cloze.tasks.texts import LabeledText, TextTask

PredictionT = TypeVar("PredictionT")


@dataclass(frozen=True, kw_only=True)
class TextLabels(TextTask[PredictionT], Generic[PredictionT]):
    """A text or a pair has labels, which are the classes of the model."""

    ranked_field: ClassVar[str | None] = "probabilities"
    model_settings: ClassVar[tuple[str, ...]] = ("labels",)

    labels: tuple[str, ...] = ()
    """In the order of the classes; by default those of the training data, sorted."""

    def __post_init__(self) -> None:
        check_unique(self.labels)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

    def breakdown(self, examples: Sequence[LabeledText], predictions: Sequence[PredictionT]) -> Breakdown:
        """Return precision, recall and F1 of each label, and the confusion matrix if a text has one label."""
        return class_breakdown(*self.compare(examples, predictions), self.labels)
