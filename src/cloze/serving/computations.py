"""What fine-tuned models compute of examples, in windows: of texts of any length, in turns with all else that waits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from cloze.inference.explain import Attributions, Line, Stretch
from cloze.inference.predictor import Predictor
from cloze.inference.span_scores import SpanScores, join_scores
from cloze.serving.engine import Cut
from cloze.tasks.contexts import Paragraph
from cloze.tasks.span import SpanQuestion
from cloze.tasks.tagging import FoundEntity, Tagging
from cloze.tasks.task import Array


@dataclass(frozen=True)
class Predictions:
    """The prediction for each example of a model's task."""

    predictor: Predictor

    def cut(self, example: Any) -> Cut[Any]:
        """Tokenize an example."""
        task, features = self.predictor.task, self.predictor.features(example)
        return Cut(features, lambda outputs: task.decode(example, features, outputs))

    def compute(self, features: list[Any]) -> Sequence[Array]:
        """Return what the model says of each feature."""
        return self.predictor.outputs(features)


@dataclass(frozen=True)
class Entities(Predictions):
    """The entities of each text, by a model that tags words."""

    def cut(self, text: str) -> Cut[list[FoundEntity]]:
        """Find sentences and words of a text, and tokenize them."""
        task = self.predictor.task
        assert isinstance(task, Tagging)
        example = task.example(text)
        tags = super().cut(example)
        return Cut(tags.windows, lambda outputs: task.entities(example, tags.join(outputs)))


@dataclass(frozen=True, slots=True)
class _StretchOfLine:
    """A stretch as a window."""

    line: Line
    stretch: Stretch

    @property
    def num_tokens(self) -> int:
        """Tokens of all its points."""
        return self.stretch.num_tokens


@dataclass(frozen=True)
class IntegratedGradients:
    """What each token of a text adds to an output, with so many steps."""

    steps: int

    def cut(self, line: Line) -> Cut[Attributions]:
        """Cut the line from the baseline to the text."""
        return Cut(
            [_StretchOfLine(line, stretch) for stretch in line.stretches(self.steps)], line.attributions
        )

    def compute(self, windows: list[_StretchOfLine]) -> Sequence[Tensor]:
        """Return the gradients of each stretch."""
        return [each.line.gradients(each.stretch) for each in windows]


@dataclass(frozen=True)
class ScoresOfPieces(Predictions):
    """How well each piece of a text begins and ends the answer to a question."""

    def cut(self, asked: tuple[str, str]) -> Cut[SpanScores]:
        """Tokenize a question and its text."""
        question, context = asked
        tokenizer = self.predictor.tokenizer
        features = self.predictor.features(SpanQuestion("0", question, Paragraph(context)))
        return Cut(features, lambda outputs: join_scores(tokenizer, features, outputs))
