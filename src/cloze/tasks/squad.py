"""SQuAD 1.1 and 2.0, and your own questions in a file of the same form."""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from types import MappingProxyType
from typing import ClassVar, Self

from cloze.errors import InputError
from cloze.metrics.squad import (
    best_threshold,
    squad_v1_scores,
    squad_v2_question_scores,
    squad_v2_scores,
)
from cloze.stores import Place
from cloze.tasks.registry import register_task
from cloze.tasks.span import SpanFeature, SpanPrediction, SpanQuestion, SpanTask, answers_of
from cloze.tasks.squad_files import read_answers, read_na_probs, read_question_rows, read_questions
from cloze.tasks.tables import is_table
from cloze.tasks.task import Array, Split

_FILES = ("{split}-{version}.json", "{split}-{version}.json.xz", "{split}-{version}.json.gz", "{split}.json")


def _file_names(version: str) -> Mapping[Split, tuple[str, ...]]:
    return MappingProxyType(
        {
            split: tuple(name.format(split=split, version=version) for name in _FILES)
            for split in ("train", "dev")
        }
    )


@dataclass(frozen=True, kw_only=True)
class Squad(SpanTask):
    """What both versions have in common: the files."""

    data_format: ClassVar[str] = "SQuAD's JSON; to predict also a table with the columns question and context"

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[SpanQuestion]:
        """Read the questions of a file."""
        if not labelled and is_table(path):
            return read_question_rows(path)
        return read_questions(path, labelled=labelled, may_be_none=self.may_be_none)

    def predictions(self, path: Place, examples: Sequence[SpanQuestion]) -> list[SpanPrediction]:
        """Read answers, in SQuAD's form or as `cloze predict` prints them, in any order.

        Raises:
            InputError: the file is of neither form, or a question has no answer in it.
        """
        answers = read_answers(path)
        _check_all_are_there(examples, answers, path)
        return [self.from_json({"answer": answers[example.id]}) for example in examples]


@register_task("squad_v1")
@dataclass(frozen=True, kw_only=True)
class SquadV1(Squad):
    """Every question has an answer in its text (Rajpurkar et al. 2016; Devlin et al. 2019, 4.2)."""

    source: ClassVar[str] = "SQuAD 1.1, or your own file; Devlin et al. 2019, 4.2; score as evaluate-v1.1.py"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "exact_match")
    may_be_none: ClassVar[bool] = False
    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = _file_names("v1.1")

    def score(
        self, examples: Sequence[SpanQuestion], predictions: Sequence[SpanPrediction]
    ) -> dict[str, float]:
        """Return exact match and F1, in percent."""
        return squad_v1_scores(answers_of(examples), _texts_of(examples, predictions))

    def check_scored(self, examples: Sequence[SpanQuestion]) -> None:
        """Refuse questions without an answer."""
        for example in examples:
            if not example.answers:
                raise InputError("no answer: nothing says what is right", where=example.where)


@register_task("squad_v2")
@dataclass(frozen=True, kw_only=True)
class SquadV2(Squad):
    """A text may not answer the question (Rajpurkar et al. 2018; Devlin et al. 2019, 4.3)."""

    source: ClassVar[str] = "SQuAD 2.0, or your own file; Devlin et al. 2019, 4.3; score as evaluate-v2.0.py"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "exact")
    may_be_none: ClassVar[bool] = True
    defaults: ClassVar[tuple[str, ...]] = (*SpanTask.defaults, "batch_size=48", "epochs=2")
    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = _file_names("v2.0")

    null_threshold: float = 0.0
    """With larger odds of it there is no answer; training finds the best on the dev data."""

    def decode(
        self, example: SpanQuestion, features: Sequence[SpanFeature], outputs: Sequence[Array]
    ) -> SpanPrediction:
        """Return the likeliest answer, or none where that is likelier by more than the threshold."""
        found = super().decode(example, features, outputs)
        null = next(answer for answer in found.candidates if not answer.text)
        if found.best is None:
            return replace(found, answer=null, null_odds=sys.float_info.max)
        odds = null.score - found.best.start_logit - found.best.end_logit
        return replace(found, answer=null if odds > self.null_threshold else found.best, null_odds=odds)

    def tuned(self, examples: Sequence[SpanQuestion], predictions: Sequence[SpanPrediction]) -> Self:
        """Return the task with the threshold that gives the best F1."""
        answers = answers_of(examples)
        best = {
            example.id: "" if prediction.best is None else prediction.best.text
            for example, prediction in zip(examples, predictions, strict=True)
        }
        odds = {
            example.id: prediction.null_odds or 0.0
            for example, prediction in zip(examples, predictions, strict=True)
        }
        _, f1 = squad_v2_question_scores(answers, best)
        found = best_threshold(f1, best, odds, {question for question in answers if answers[question]})
        return replace(self, null_threshold=_behind(found.threshold, odds.values()))

    def averaged(self, others: Sequence[Self]) -> Self:
        """Return the task with the mean of the thresholds, since the odds are means, too."""
        task = super().averaged([replace(other, null_threshold=self.null_threshold) for other in others])
        return replace(task, null_threshold=fmean(each.null_threshold for each in (self, *others)))

    def score(
        self, examples: Sequence[SpanQuestion], predictions: Sequence[SpanPrediction]
    ) -> dict[str, float]:
        """Return exact match and F1, of all questions, of those with an answer and of those without, in percent."""
        scores = squad_v2_scores(answers_of(examples), _texts_of(examples, predictions))
        return {name: value for name, value in scores.items() if not name.endswith("total")}

    def scores_with_na_probs(
        self, examples: Sequence[SpanQuestion], predictions: Sequence[SpanPrediction], na_probs: Place
    ) -> dict[str, float]:
        """Return all that evaluate-v2.0.py prints, the best thresholds among it.

        Args:
            examples: the questions.
            predictions: the answer to each.
            na_probs: a file that says how sure it is that a question has no answer.

        Raises:
            InputError: that file is wrong, or says nothing to a question.
        """
        sure = read_na_probs(na_probs)
        _check_all_are_there(examples, sure, na_probs)
        return squad_v2_scores(answers_of(examples), _texts_of(examples, predictions), sure)

    def collapse(self, examples: Sequence[SpanQuestion], predictions: Sequence[SpanPrediction]) -> str | None:
        """Name a model that answers no question, or does no better than such a one, where one has an answer."""
        if not any(example.answers for example in examples):
            return None
        if not any(prediction.answer.text for prediction in predictions):
            return "no question is answered"
        unanswerable = sum(not example.answers for example in examples)
        no_better = self.score(examples, predictions)["f1"] <= 100 * unanswerable / len(examples)
        return "no better than to answer no question" if no_better else None


def _texts_of(examples: Sequence[SpanQuestion], predictions: Sequence[SpanPrediction]) -> dict[str, str]:
    return {
        example.id: prediction.answer.text for example, prediction in zip(examples, predictions, strict=True)
    }


def _check_all_are_there(examples: Sequence[SpanQuestion], found: Collection[str], path: Place) -> None:
    missing = [example.id for example in examples if example.id not in found]
    if missing:
        what = f"says nothing to {len(missing):,} of {len(examples):,} questions, such as {missing[0]!r}"
        raise InputError(what, where=path, remedy='An answer that is not there is ""')


def _behind(threshold: float | None, odds: Collection[float]) -> float:
    """Return a threshold that parts the same questions, halfway to the next one's odds; None parts off none.

    On the odds of a question itself its answer would hang on the last bit, and so on the machine.
    """
    if threshold is None:
        return min(odds, default=0.0) - 1.0
    # a question without any candidate has the largest odds that there are, and no half way to them
    larger = min((each for each in odds if threshold < each < sys.float_info.max), default=threshold + 2.0)
    return (threshold + larger) / 2
