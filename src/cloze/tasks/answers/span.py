"""An answer that is a span of a paragraph, as in SQuAD.

Shapes: T tokens in the packed batch, B sequences, L tokens of a sequence, P tokens of the paragraph in it.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cloze.config import Positive
from cloze.data.batch import collate
from cloze.data.reading.columns import Column
from cloze.data.reading.memory import Data
from cloze.data.reading.squad import Excerpt, answers_of_row
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.metrics.breakdown import Breakdown
from cloze.metrics.squad import (
    best_threshold,
    exact_score,
    question_breakdown,
    squad_v1_scores,
    squad_v2_question_scores,
    squad_v2_scores,
)
from cloze.remote_files import PathOrUrl
from cloze.results import Result
from cloze.tasks.answers.kind import AnswerKind
from cloze.tasks.arrays import softmax
from cloze.tasks.features import max_context_windows, sliding_windows
from cloze.tasks.prediction_files import finite_number, read_by_id
from cloze.tasks.questions import Questions, SpanFeature, SpanQuestion
from cloze.tasks.task_batch import Baseline, GoldAnswer, Outputs, Scores, SummedLoss, TaskBatch, Tensor
from cloze.tokenization.tokenizer import Tokenizer

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
    """Score of "no answer" minus the score of the best answer."""

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

    Source: google-research/bert run_squad.py:741 @eedf571.

    Differs: if no span is possible, "no answer" is returned; Google's code returns "empty" or fails.
    """
    spans = [(window, *span) for window in windows for span in window.spans(n_best_size, max_answer_length)]
    if allows_no_answer:
        lowest = min(windows, key=lambda window: window.score(_CLS, _CLS))
        spans.append((lowest, _CLS, _CLS))
    spans.sort(key=lambda span: -span[0].score(*span[1:]))
    answers: dict[str, Answer] = {}  # excerpts are slow: only the best answers have one
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


SpanPredictions = Sequence[SpanPrediction]


@dataclass(frozen=True, kw_only=True)
class Span(AnswerKind[SpanQuestion, SpanPrediction]):
    """A start vector and an end vector, whose products with each token score it as first and last of the answer.

    Every question has an answer (Rajpurkar et al. 2016).

    Source: Devlin et al. 2019, 4.2 and 4.3; google-research/bert run_squad.py @eedf571.

    Differs: the softmax is over the sequence; Google's includes the padding. A window learns the first answer that it
    contains; Google's code takes the first answer of the question, and trains other windows as without an answer.
    """

    allows_no_answer: ClassVar[bool] = False
    """Whether a paragraph may have no answer."""
    metrics: ClassVar[tuple[str, ...]] = ("f1", "exact_match")
    ranked_field = "candidates"
    head_name = "BertForQuestionAnswering"

    doc_stride: Positive[int] = 128
    """Tokens from the start of a window to the start of the next."""
    max_query_length: Positive[int] = 64
    """Maximum tokens of a question; a longer one is truncated."""
    max_answer_length: Positive[int] = 30
    """Maximum tokens of an answer."""
    n_best_size: Positive[int] = 20
    """Number of candidates."""
    original: bool = False
    """Tokenize word by word and search for the text of an answer as Google's code does, without offsets, and train on
    the first answer only."""

    def columns(self) -> tuple[Column, ...]:
        return (Column("answers", "label"),)

    def read(self, row: Row) -> tuple[Excerpt, ...]:
        answers = answers_of_row(row)
        if not answers and not self.allows_no_answer:
            raise InputError("has no answer", where=row.where, remedy="Use the task squad_v2")
        return answers

    def notes(self, train: Questions, dev: Questions, tokenizer: Tokenizer) -> Iterator[str]:
        if several := sum(len({(answer.start, answer.end) for answer in e.answers}) > 1 for e in train):
            what = f"{several:,} of {len(train):,} training questions have answers at several places"
            learned = "a window learns the first that it contains"
            yield f"{what}: {'only the first is trained' if self.original else learned}"

    def describe_truncation(self, examples: str, max_seq_length: int) -> str:
        return f"{examples} have a question of more than {self.max_query_length} tokens"

    def features(
        self, example: SpanQuestion, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[SpanFeature]:
        context = example.paragraph.context(tokenizer, original=self.original)
        if self.original:
            query = tokenizer.google_tokenizer.ids(example.question)
        else:
            query = tokenizer.encode(example.question).input_ids[1:-1]
        num_special = tokenizer.template(is_pair=True).num_special
        kept = query[: min(self.max_query_length, max_seq_length - num_special - 1)]
        front_length = num_special - 1 + len(kept)
        answers = [context.token_span(a) for a in example.answers[: 1 if self.original else None]]
        size = max_seq_length - num_special - len(kept)
        features = []
        for window in sliding_windows(len(context.input_ids), size, self.doc_stride):
            input_ids, token_type_ids = tokenizer.join(kept, context.input_ids[window].tolist())
            # the first answer that is wholly in the window, or [CLS]. The paper does not mention windows without one,
            # and a comment in Google's code says that they are left out; the code trains on [CLS], and so does this.
            shift = front_length - window.start
            contained = (a for a in answers if window.start <= a[0] <= a[1] < window.stop)
            target = next(((shift + first, shift + last) for first, last in contained), (0, 0))
            feature = SpanFeature(
                np.array(input_ids, np.int32),
                np.array(token_type_ids, np.int8),
                context,
                window,
                target,
                is_truncated=len(kept) < len(query),
            )
            features.append(feature)
        return features

    def batch(self, features: Sequence[SpanFeature]) -> TaskBatch:
        batch = collate([f.input_ids for f in features], [f.token_type_ids for f in features])
        targets = np.array([feature.target for feature in features])
        return TaskBatch.extend(batch, targets=targets, counts=tuple(f.num_tokens for f in features))

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the cross entropy of logits [T, 2] over each sequence, the mean of start and end, summed.

        Differs: the paper has the sum of start and end; Google's code takes the mean, and so does this.
        """
        from torch import nn

        from cloze.training.metric_sums import pad_groups

        logits_BL2 = pad_groups(logits, batch.counts, -math.inf)
        loss = nn.functional.cross_entropy(logits_BL2, batch.targets, reduction="sum") / 2
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def decode(
        self, example: SpanQuestion, features: Sequence[SpanFeature], outputs: Outputs
    ) -> SpanPrediction:
        best_window_P = max_context_windows([feature.window for feature in features])
        windows = [
            ScoredWindow(feature, logits_L2.astype(np.float64), best_window_P[feature.window] == index)
            for index, (feature, logits_L2) in enumerate(zip(features, outputs, strict=True))
        ]
        candidates = best_answers(
            windows, self.n_best_size, self.max_answer_length, allows_no_answer=self.allows_no_answer
        )
        return SpanPrediction(**asdict(candidates[0]), candidates=tuple(candidates))

    def gold(self, example: SpanQuestion) -> list[str]:
        """Return the accepted answers; "" if there is none."""
        if not (example.answers or self.allows_no_answer):
            raise InputError("no answer: nothing says what is right", where=example.where)
        return list(dict.fromkeys(answer.text for answer in example.answers)) or [""]

    def pairs(self, example: SpanQuestion, answer: SpanPrediction) -> Iterator[GoldAnswer]:
        """Yield the accepted answers beside the predicted one, which is gold if it equals one; "" is "no answer"."""
        accepted, text = self.gold(example), answer.text
        gold = text if exact_score(accepted, text) else accepted[0]
        context = {"context": example.paragraph.text}
        yield GoldAnswer(gold, text, answer.probability, " | ".join(accepted), details=context)

    def score(self, examples: Questions, answers: SpanPredictions, metrics: Sequence[str]) -> Scores:
        return squad_v1_scores(*_texts(examples, answers))

    def breakdown(self, examples: Questions, answers: SpanPredictions) -> Breakdown:
        questions = {example.id: example.question for example in examples}
        return question_breakdown(questions, *_texts(examples, answers))

    def to_json(self, example: SpanQuestion, answer: SpanPrediction) -> dict[str, Any]:
        odds = {} if answer.null_odds is None else {"null_odds": answer.null_odds}
        candidates = [_to_json(candidate) for candidate in answer.candidates]
        return {"id": example.id, **_to_json(answer), **odds, "candidates": candidates}

    def from_json(self, values: Mapping[str, Any]) -> SpanPrediction:
        probability = values.get("probability")
        known = float(probability) if isinstance(probability, (int, float)) else math.nan
        return SpanPrediction(values["answer"], probability=known)

    def read_answers(self, source: Data, examples: Questions) -> list[SpanPrediction]:
        answers = read_by_id(source, "answer", [example.id for example in examples], str)
        return [self.from_json(answers[example.id]) for example in examples]


@dataclass(frozen=True, kw_only=True)
class SpanOrNone(Span):
    """A span, or no answer: the span of [CLS] (Rajpurkar et al. 2018; Devlin et al. 2019, 4.3)."""

    allows_no_answer = True
    metrics: ClassVar[tuple[str, ...]] = ("f1", "exact")
    averaged_settings = ("null_threshold",)

    null_threshold: float = 0.0
    """Predict "no answer" if its odds are larger; tuned on the dev data."""

    def decode(
        self, example: SpanQuestion, features: Sequence[SpanFeature], outputs: Outputs
    ) -> SpanPrediction:
        prediction = super().decode(example, features, outputs)
        null, best = next(answer for answer in prediction.candidates if not answer.text), prediction.best
        odds = sys.float_info.max if best is None else null.score - best.start_logit - best.end_logit
        answer = null if best is None or odds > self.null_threshold else best
        return SpanPrediction(**asdict(answer), candidates=prediction.candidates, null_odds=odds)

    def tuned(self, examples: Questions, answers: SpanPredictions) -> Self:
        """Return the kind with the threshold that has the best F1."""
        gold, _ = _texts(examples, answers)
        best, odds = {}, {}
        for example, answer in zip(examples, answers, strict=True):
            best[example.id] = "" if answer.best is None else answer.best.text
            odds[example.id] = answer.null_odds or 0.0
        _, f1 = squad_v2_question_scores(gold, best)
        _, tuned = best_threshold(f1, best, odds, {question for question in gold if gold[question]})
        if tuned is None:
            return replace(self, null_threshold=min(odds.values(), default=0.0) - 1.0)
        # halfway to the next odds: with a question's own odds its answer would depend on rounding, and so on the
        # machine; a question without candidates has the largest float, which has no midpoint
        larger = [value for value in odds.values() if tuned < value < sys.float_info.max]
        return replace(self, null_threshold=(tuned + min(larger, default=tuned + 2.0)) / 2)

    def score(self, examples: Questions, answers: SpanPredictions, metrics: Sequence[str]) -> Scores:
        scores = squad_v2_scores(*_texts(examples, answers))
        return {name: value for name, value in scores.items() if not name.endswith("total")}

    def score_with_na_probs(
        self, examples: Questions, answers: SpanPredictions, na_probs: PathOrUrl
    ) -> Scores:
        """Return all scores of evaluate-v2.0.py, with the best thresholds on the confidences in a file."""
        rows = read_by_id(na_probs, "null_odds", [example.id for example in examples], float, int)
        confidences = {}
        for name, row in rows.items():
            try:
                confidences[name] = finite_number(row["null_odds"])
            except ValueError as error:
                raise InputError(f"the value of {name!r}: {error}", where=na_probs) from error
        return squad_v2_scores(*_texts(examples, answers), confidences)

    def baselines(self, train: Sequence[Any]) -> Mapping[str, Baseline]:
        return {"no_answer": lambda train, dev: [SpanPrediction("")] * len(dev)}

    def collapse(self, examples: Questions, answers: SpanPredictions, metrics: Sequence[str]) -> str | None:
        if not any(example.answers for example in examples):
            return None
        if not any(answer.text for answer in answers):
            return "no question is answered"
        unanswerable = sum(not example.answers for example in examples)
        is_no_better = self.score(examples, answers, metrics)["f1"] <= 100 * unanswerable / len(examples)
        return "no better than to answer no question" if is_no_better else None


def _to_json(answer: Answer) -> dict[str, Any]:
    place = {"start": answer.start, "end": answer.end}
    return {"answer": answer.text, **place, "probability": answer.probability}


def _texts(examples: Questions, answers: SpanPredictions) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the accepted answers and the predicted one of each question by its id."""
    gold = {example.id: [answer.text for answer in example.answers] for example in examples}
    return gold, {example.id: answer.text for example, answer in zip(examples, answers, strict=True)}
