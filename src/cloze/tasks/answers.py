"""From the scores of every token, as the first and the last of the answer, to the answers that are likeliest.

Shapes: L tokens of a sequence, P pieces of the text in it.

Source: google-research/bert run_squad.py:741 @eedf571.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cloze.tasks.contexts import Context, Excerpt
from cloze.tasks.probabilities import softmax

Logits = npt.NDArray[np.float64]

_CLS = 0  # the token that training makes the answer where there is none


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answers; no excerpt says that the text holds no answer."""

    excerpt: Excerpt | None
    start_logit: float = 0.0
    end_logit: float = 0.0
    probability: float = 1.0
    """Against the other answers that were found."""

    @property
    def text(self) -> str:
        """The words of the answer, or ""."""
        return "" if self.excerpt is None else self.excerpt.text

    @property
    def score(self) -> float:
        """The sum of its logits."""
        return self.start_logit + self.end_logit


@dataclass(frozen=True, slots=True)
class ScoredWindow:
    """What a model says to a window of a text: `[CLS] question [SEP] pieces [SEP]`."""

    start_logits: Logits
    end_logits: Logits
    context: Context
    first_token: int
    """Where the pieces of the text begin."""
    first_piece: int
    """Which piece of the text is the first."""
    has_most_context: npt.NDArray[np.bool_]
    """Whether no other window shows more of what is around a piece."""

    def answer(self, first: int, last: int) -> Answer:
        """Return what stands from one token to another; [CLS] alone stands for no answer."""
        shift = self.first_piece - self.first_token
        return Answer(
            None if first == last == _CLS else self.context.excerpt(first + shift, last + shift),
            float(self.start_logits[first]),
            float(self.end_logits[last]),
        )

    def score(self, first: int, last: int) -> float:
        """Return how likely that answer is."""
        return float(self.start_logits[first] + self.end_logits[last])

    def spans(self, n_best_size: int, max_answer_length: int) -> Iterator[tuple[int, int]]:
        """Yield the first and the last token of every answer that may be."""
        num_pieces = len(self.has_most_context)
        ends = [
            token
            for token in _largest(self.end_logits, n_best_size)
            if 0 <= token - self.first_token < num_pieces
        ]
        for first in _largest(self.start_logits, n_best_size):
            piece = first - self.first_token
            if 0 <= piece < num_pieces and self.has_most_context[piece]:
                yield from ((first, last) for last in ends if 0 <= last - first < max_answer_length)


def likeliest_answers(
    windows: Sequence[ScoredWindow], *, n_best_size: int, max_answer_length: int, may_be_none: bool
) -> list[Answer]:
    """Return answers of different words, the likeliest first, and how likely they are.

    Args:
        windows: of one text, at least one.
        n_best_size: answers at most; and a token can begin (or end) an answer where it is among so many of its
            window that are likeliest to.
        max_answer_length: pieces of an answer at most.
        may_be_none: whether "no answer" is one of them: at its place, or last, in addition to the others. It has
            the score of [CLS] in the window where that is lowest.

    Differs: where no span of pieces may be an answer, there is no answer; Google's code then answers "empty", or
    fails where there may be none.
    """
    spans = [
        (window, first, last)
        for window in windows
        for first, last in window.spans(n_best_size, max_answer_length)
    ]
    if may_be_none:
        lowest = min(windows, key=lambda window: window.score(_CLS, _CLS))
        spans.append((lowest, _CLS, _CLS))
    spans.sort(key=lambda span: -span[0].score(*span[1:]))  # excerpts take longer: only of the best
    answers: dict[str, Answer] = {}
    for window, first, last in spans:
        if len(answers) == n_best_size:
            break
        answer = window.answer(first, last)
        answers.setdefault(answer.text, answer)
    if may_be_none and "" not in answers:
        answers[""] = lowest.answer(_CLS, _CLS)
    return _with_probabilities(list(answers.values()) or [Answer(None)])


def _largest(logits: Logits, count: int) -> list[int]:
    """Return where the largest are, the largest first; of equal ones the first."""
    largest: list[int] = np.argsort(-logits, kind="stable")[:count].tolist()
    return largest


def _with_probabilities(answers: Sequence[Answer]) -> list[Answer]:
    probabilities = softmax(np.array([answer.score for answer in answers]))
    return [
        replace(answer, probability=probability)
        for answer, probability in zip(answers, probabilities.tolist(), strict=True)
    ]
