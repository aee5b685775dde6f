"""Scores of texts on a scale from 0 to 1, which is what a model learns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from cloze.errors import InputError
from cloze.tasks.texts import LabelledText, score_of


@dataclass(frozen=True, kw_only=True)
class ScoreScale:
    """What tasks have in common whose labels are numbers: the two ends of their scale."""

    minimum: float | None = None
    """The score that is 0 on the scale of the model; None takes the lowest of the training data."""
    maximum: float | None = None
    """The score that is 1 on the scale of the model; None takes the highest of the training data."""

    def __post_init__(self) -> None:
        if self.minimum is not None and self.maximum is not None and self.minimum >= self.maximum:
            raise ValueError(f"minimum {self.minimum} is not less than maximum {self.maximum}")

    def fitted(self, examples: Sequence[LabelledText]) -> Self:
        """Return the task with the ends of its scale.

        Raises:
            InputError: all scores are the same.
        """
        scores = [score_of(example) for example in examples]
        minimum = min(scores) if self.minimum is None else self.minimum
        maximum = max(scores) if self.maximum is None else self.maximum
        if minimum >= maximum:
            where = examples[0].where.rpartition(":")[0]
            raise InputError(f"no score is between {minimum:g} and {maximum:g}", where=where)
        return replace(self, minimum=minimum, maximum=maximum)

    def check_scored(self, examples: Sequence[LabelledText]) -> None:
        """Refuse examples whose score is no number, or not there."""
        for example in examples:
            score_of(example)

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, of a task that knows them."""
        assert self.minimum is not None
        assert self.maximum is not None
        return self.minimum, self.maximum

    def on_scale(self, example: LabelledText) -> float:
        """Return the score of an example on the scale of the model.

        Raises:
            InputError: it is not a number.
        """
        minimum, maximum = self.ends
        return (score_of(example) - minimum) / (maximum - minimum)
