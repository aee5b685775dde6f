"""Computations on inputs of any length, split into windows so that they share the model with other requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from cloze.errors import InputError
from cloze.explorer.span_scores import SpanScores, join_scores
from cloze.inference.explain import Attributions, EmbeddingPath, PathSegment
from cloze.inference.predictor import Predictor
from cloze.inference.pretrained_heads import (
    FillMask,
    MaskedCopy,
    MaskedSequence,
    SentenceScore,
    SentenceScorer,
    top_tokens,
)
from cloze.serving.batcher import WindowedInput
from cloze.serving.served_model import ServedModel
from cloze.tasks.answers.kind import TextAnswer
from cloze.tasks.answers.tags import Tags
from cloze.tasks.features import TextFeature, encode_text
from cloze.tasks.tag_predictions import PredictedEntity
from cloze.tasks.task_batch import Array
from cloze.tokenization.tokenizer import TruncationSide

if TYPE_CHECKING:  # a graph answers without torch
    from torch import Tensor


@dataclass(frozen=True)
class WindowedPredictions:
    """The prediction for each example of a model's task, and whether the example was truncated."""

    predictor: Predictor
    truncation_side: TruncationSide = "right"
    """Where long texts lose tokens, if the task truncates them."""

    def split(self, example: Any) -> WindowedInput[tuple[Any, bool]]:
        features = self.features(example)
        is_truncated = any(feature.is_truncated for feature in features)
        return WindowedInput(
            features, lambda outputs: (self.decode(example, features, outputs), is_truncated)
        )

    def decode(self, example: Any, features: list[Any], outputs: Sequence[Array]) -> Any:
        """Return what the outputs for its features say of an example."""
        return self.predictor.task.answer.decode(example, features, outputs)

    def features(self, example: Any) -> list[Any]:
        predictor, answer = self.predictor, self.predictor.task.answer
        if self.truncation_side == "right" or not isinstance(answer, TextAnswer):
            return predictor.features(example)
        predictor.check_example(example, "inputs")
        sequences = encode_text(
            predictor.tokenizer,
            example.text,
            example.pair,
            max_seq_length=predictor.max_seq_length,
            long_texts=answer.long_texts,
            truncation_side=self.truncation_side,
        )
        return [TextFeature((sequence,), None) for sequence in sequences]

    def compute(self, features: list[Any]) -> Sequence[Array]:
        return self.predictor.outputs(features)


@dataclass(frozen=True)
class WindowedLogits(WindowedPredictions):
    """The logits of a classifier, a ranker or a regression for each example."""

    def decode(self, example: Any, features: list[Any], outputs: Sequence[Array]) -> list[float]:
        answer: Any = self.predictor.task.answer  # of a kind with raw scores
        scores: list[float] = answer.raw_scores(outputs)
        return scores


@dataclass(frozen=True)
class WindowedEntities(WindowedPredictions):
    """The entities of each text, by a tagging model."""

    def split(self, text: str) -> WindowedInput[tuple[Any, bool]]:
        """Split a text into sentences and words, and tokenize them."""
        task: Any = self.predictor.task
        return super().split(task.reader.split(text))

    def decode(self, example: Any, features: list[Any], outputs: Sequence[Array]) -> list[PredictedEntity]:
        answer = self.predictor.task.answer
        assert isinstance(answer, Tags)
        return answer.entities(example, super().decode(example, features, outputs))


@dataclass(frozen=True)
class WindowedSpanScores(WindowedPredictions):
    """The start and end logits of every token of a text that may answer a question."""

    def decode(self, example: Any, features: list[Any], outputs: Sequence[Array]) -> SpanScores:
        return join_scores(self.predictor.tokenizer, features, outputs)


@dataclass(frozen=True, slots=True)
class FillInput:
    """A text with [MASK] tokens, and how they are filled."""

    text: str
    top_k: int
    long_texts: Literal["windows"] | None
    targets: tuple[str, ...] | None
    """Tokens to choose from; None is all."""


@dataclass(frozen=True, slots=True)
class FillWindow(MaskedSequence):
    """A window of a text with [MASK] tokens, and how they are filled."""

    top_k: int
    targets: tuple[int, ...] | None


@dataclass(frozen=True)
class WindowedCandidates:
    """The ids and the probabilities of the best tokens for each [MASK] of each text."""

    served: ServedModel

    def split(self, blank: FillInput) -> WindowedInput[list[list[tuple[int, float]]]]:
        """Tokenize a text, and choose the windows around its [MASK]s; refuse targets of several tokens."""
        targets = None if blank.targets is None else tuple(map(self._target_id, blank.targets))
        sequences = self._model.mask(blank.text, long_texts=blank.long_texts)
        windows = [FillWindow(s.ids, s.positions, blank.top_k, targets) for s in sequences]
        return WindowedInput(windows, lambda outputs: list(chain.from_iterable(outputs)))

    def compute(self, windows: list[FillWindow]) -> Sequence[list[list[tuple[int, float]]]]:
        return self._model.choose(
            [[window] for window in windows],
            lambda i, logits: top_tokens(logits, windows[i].top_k, among=windows[i].targets),
        )

    @property
    def _model(self) -> FillMask:
        assert self.served.fill_mask is not None
        return self.served.fill_mask

    def _target_id(self, target: str) -> int:
        tokenizer = self.served.tokenizer
        ids = tokenizer.encode(target).input_ids[1:-1]
        if len(ids) == 1 and ids[0] != tokenizer.unknown_id:
            return ids[0]
        if target in tokenizer.tokens:  # one that continues a word
            return tokenizer.tokens.index(target)
        what = f"the vocabulary of {self.served.name!r} has no token {target!r}"
        remedy = "Give words that are one token, see /tokenize"
        raise InputError(what, where="parameters.targets", remedy=remedy)


@dataclass(frozen=True)
class WindowedGradients:
    """Integrated gradients of each text, with a fixed number of steps."""

    steps: int
    max_tokens: int
    """Tokens of a window."""

    def split(self, path: EmbeddingPath) -> WindowedInput[Attributions]:
        """Split the path from the baseline to the text into segments."""
        return WindowedInput(path.segments(self.steps, self.max_tokens), path.attributions)

    def compute(self, segments: list[PathSegment]) -> "Sequence[Tensor]":
        return [segment.gradients() for segment in segments]


@dataclass(frozen=True)
class WindowedSentenceScores:
    """The pseudo-log-likelihood of each sentence, in a window for each of its tokens."""

    scorer: SentenceScorer

    def split(self, numbered: tuple[int, str]) -> WindowedInput[SentenceScore]:
        """Mask each token of a sentence, which is given with its number in the request."""
        number, text = numbered
        copies = self.scorer.masked_copies(text, where=lambda: f"inputs[{number}]")
        return WindowedInput(copies, partial(self.scorer.join, copies))

    def compute(self, copies: list[MaskedCopy]) -> Sequence[float]:
        """Return the logarithm of the probability of each masked token."""
        return self.scorer.log_probabilities(copies)
