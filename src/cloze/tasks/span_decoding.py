"""From start and end logits to the n best answers.

Shapes: L tokens of a sequence, P tokens of the paragraph in it.

Source: google-research/bert run_squad.py:741 @eedf571.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from cloze.results import Result
from cloze.tasks.arrays import softmax
from cloze.tasks.questions import SpanFeature

Logits = npt.NDArray[np.float64]

_CLS = 0  # in training, [CLS] is the answer of a window without one


@dataclass(frozen=True, slots=True, repr=False)
class Answer(Result):
    """An answer; "" without characters says that the paragraph has no answer."""

    text: str = ""
    start: int | None = None
    """First character in the paragraph."""
    end: int | None = None
    """The character after the last."""
    probability: float = 1.0
    """A softmax over the n best answers."""
    start_logit: float = 0.0
    end_logit: float = 0.0

    @property
    def score(self) -> float:
        """The sum of both logits."""
        return self.start_logit + self.end_logit


@dataclass(frozen=True, slots=True, repr=False)
class SpanPrediction(Answer):
    """The answer, and the n best answers."""

    candidates: tuple[Answer, ...] = ()
    """The best first, "no answer" among them if it is possible."""
    null_odds: float | None = None
    """Score of "no answer" minus that of the best answer."""

    @classmethod
    def choose(
        cls, answer: Answer, candidates: Sequence[Answer], *, null_odds: float | None = None
    ) -> "SpanPrediction":
        """Return the prediction of one of the candidates."""
        values = {field.name: getattr(answer, field.name) for field in fields(Answer)}
        return cls(**values, candidates=tuple(candidates), null_odds=null_odds)

    @property
    def best(self) -> Answer | None:
        """The best answer other than "no answer"."""
        return next((answer for answer in self.candidates if answer.text), None)


@dataclass(frozen=True, slots=True)
class ScoredWindow:
    """A window of a paragraph with its logits."""

    feature: SpanFeature
    logits: Logits
    """[L, 2]: of each token as the start and as the end of an answer."""
    is_max_context: npt.NDArray[np.bool_]
    """Whether this is the window with the most context for a token, [P]."""

    def answer(self, first: int, last: int) -> Answer:
        """Return the answer from one token of the sequence to another; [CLS] alone means no answer."""
        start_logit, end_logit = float(self.logits[first, 0]), float(self.logits[last, 1])
        if first == last == _CLS:
            return Answer(start_logit=start_logit, end_logit=end_logit)
        shift = self.feature.window.start - self.feature.first_token
        excerpt = self.feature.context.excerpt(first + shift, last + shift)
        return Answer(excerpt.text, excerpt.start, excerpt.end, 1.0, start_logit, end_logit)

    def score(self, first: int, last: int) -> float:
        """Return the sum of both logits."""
        return float(self.logits[first, 0] + self.logits[last, 1])

    def spans(self, n_best_size: int, max_answer_length: int) -> Iterator[tuple[int, int]]:
        """Yield the first and the last token of every possible answer."""
        first_token = self.feature.first_token
        in_text = range(first_token, first_token + len(self.is_max_context))
        ends = [token for token in _largest(self.logits[:, 1], n_best_size) if token in in_text]
        for first in _largest(self.logits[:, 0], n_best_size):
            if first in in_text and self.is_max_context[first - first_token]:
                yield from ((first, last) for last in ends if 0 <= last - first < max_answer_length)


def best_answers(
    windows: Sequence[ScoredWindow], n_best_size: int, max_answer_length: int, *, allows_no_answer: bool
) -> list[Answer]:
    """Return the `n_best_size` best answers of a paragraph's windows, with different texts.

    As many start and end tokens of each window are considered. "No answer", if allowed, has the lowest score of [CLS]
    over the windows, and is last if it is not among the best.

    Differs: if no span is possible, "no answer" is returned; Google's code returns "empty" or fails.
    """
    spans = [(window, *span) for window in windows for span in window.spans(n_best_size, max_answer_length)]
    if allows_no_answer:
        lowest = min(windows, key=lambda window: window.score(_CLS, _CLS))
        spans.append((lowest, _CLS, _CLS))
    spans.sort(key=lambda span: -span[0].score(*span[1:]))
    answers: dict[str, Answer] = {}  # excerpts are slow: only those of the best are made
    for window, first, last in spans:
        if len(answers) == n_best_size:
            break
        answer = window.answer(first, last)
        answers.setdefault(answer.text, answer)
    if allows_no_answer and "" not in answers:
        answers[""] = lowest.answer(_CLS, _CLS)
    best = list(answers.values()) or [Answer()]
    probabilities = softmax([answer.score for answer in best]).tolist()
    return [replace(answer, probability=p) for answer, p in zip(best, probabilities, strict=True)]


def _largest(logits: Logits, count: int) -> list[int]:
    indices: list[int] = np.argsort(-logits, kind="stable")[:count].tolist()
    return indices
