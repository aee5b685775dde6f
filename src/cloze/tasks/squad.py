"""SQuAD 1.1 and 2.0, and your own questions in a file of the same form."""

import sys
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

from cloze.data.reading.json_rows import as_text
from cloze.data.reading.memory import MemoryRows, Source
from cloze.data.reading.table_files import RawTable
from cloze.data.reading.tables import Row
from cloze.errors import DataWarning, InputError
from cloze.metrics.breakdown import Breakdown
from cloze.metrics.squad import (
    best_threshold,
    question_breakdown,
    squad_v1_scores,
    squad_v2_question_scores,
    squad_v2_scores,
)
from cloze.remote_files import PathOrUrl
from cloze.tasks.families.span import SpanTask, gold_answers
from cloze.tasks.paragraphs import Paragraph, Questions, SpanFeature, SpanQuestion
from cloze.tasks.registry import register_task
from cloze.tasks.span_decoding import Answer, SpanPrediction
from cloze.tasks.squad_files import answers_of_row, has_question_rows, read_answers, read_na_probs, squad_rows
from cloze.tasks.task_batch import Baseline, Outputs, Scores
from cloze.tokenization.unicode import replace_lone_surrogates


def _file_names(split: str, version: str) -> tuple[str, ...]:
    return (*(f"{split}-{version}.json{suffix}" for suffix in ("", ".xz", ".gz")), f"{split}.json")


@dataclass(frozen=True, kw_only=True)
class Squad(SpanTask):
    """The file formats of both versions."""

    data_format: ClassVar[str] = "SQuAD's JSON, or a table with the columns question, context and answers"

    def open_rows(self, source: Source, *, labeled: bool) -> RawTable | None:
        """Open a file in SQuAD's form."""
        if isinstance(source, MemoryRows) or has_question_rows(
            source, labeled=labeled, encoding=self.encoding
        ):
            return None
        return RawTable(squad_rows(source, labeled=labeled, encoding=self.encoding), lambda row, where: row)

    def example(self, row: Row) -> SpanQuestion:
        """Return the question of a row, and its answers; without an id it has its place."""
        question, context = (replace_lone_surrogates(row.required(key)) for key in ("question", "context"))
        answers = answers_of_row(row, context) if row.labeled else ()
        if row.labeled and not answers and not self.allows_no_answer:
            raise InputError("has no answer", where=row.where, remedy="Use the task squad_v2")
        identifier = as_text(row.cells.get("id")) or row.where
        return SpanQuestion(identifier, question, _paragraph(context), answers, row.where)

    def read_predictions(self, source: Source, examples: Questions) -> list[SpanPrediction]:
        """Read answers, in SQuAD's form or as `cloze predict` prints them, in any order."""
        answers = read_answers(source)
        _check_complete(examples, answers, source)
        return [self.from_json(answers[example.id]) for example in examples]

    def breakdown(self, examples: Questions, predictions: Sequence[SpanPrediction]) -> Breakdown:
        """Return exact match and F1, in percent, by question word."""
        questions = {example.id: example.question for example in examples}
        return question_breakdown(questions, gold_answers(examples), _predicted_texts(examples, predictions))


@register_task("squad_v1")
class SquadV1(Squad):
    """Every question has an answer (Rajpurkar et al. 2016; Devlin et al. 2019, 4.2)."""

    source = "SQuAD 1.1, or your own file; Devlin et al. 2019, 4.2; score as evaluate-v1.1.py"
    metrics = ("f1", "exact_match")
    allows_no_answer = False
    train_files = _file_names("train", "v1.1")
    dev_files = _file_names("dev", "v1.1")

    def score(self, examples: Questions, predictions: Sequence[SpanPrediction]) -> Scores:
        """Return exact match and F1, in percent."""
        return squad_v1_scores(gold_answers(examples), _predicted_texts(examples, predictions))

    def gold(self, example: SpanQuestion) -> list[str]:
        """Return the accepted answers, at least one."""
        if not example.answers:
            raise InputError("no answer: nothing says what is right", where=example.where)
        return super().gold(example)


@register_task("squad_v2")
class SquadV2(Squad):
    """A question may have no answer (Rajpurkar et al. 2018; Devlin et al. 2019, 4.3)."""

    source = "SQuAD 2.0, or your own file; Devlin et al. 2019, 4.3; score as evaluate-v2.0.py"
    metrics = ("f1", "exact")
    allows_no_answer = True
    defaults = (*SpanTask.defaults, "batch_size=48", "epochs=2")
    averaged_settings = ("null_threshold",)
    train_files = _file_names("train", "v2.0")
    dev_files = _file_names("dev", "v2.0")

    null_threshold: float = 0.0
    """Predict "no answer" if its odds are larger; tuned on the dev data."""

    def decode(
        self, example: SpanQuestion, features: Sequence[SpanFeature], outputs: Outputs
    ) -> SpanPrediction:
        """Return the best answer, or "no answer" if its odds exceed the threshold."""
        prediction = super().decode(example, features, outputs)
        null = next(answer for answer in prediction.candidates if not answer.text)
        best = prediction.best
        odds = sys.float_info.max
        if best is not None:
            odds = null.score - best.start_logit - best.end_logit
        answer = null if best is None or odds > self.null_threshold else best
        return SpanPrediction.choose(answer, prediction.candidates, null_odds=odds)

    def with_tuned_settings(self, examples: Questions, predictions: Sequence[SpanPrediction]) -> Self:
        """Return the task with the threshold that has the best F1."""
        answers = gold_answers(examples)
        best, odds = {}, {}
        for example, prediction in zip(examples, predictions, strict=True):
            best[example.id] = "" if prediction.best is None else prediction.best.text
            odds[example.id] = prediction.null_odds or 0.0
        _, f1 = squad_v2_question_scores(answers, best)
        tuned = best_threshold(f1, best, odds, {question for question in answers if answers[question]})
        return replace(self, null_threshold=_between_odds(tuned.threshold, odds.values()))

    def score(self, examples: Questions, predictions: Sequence[SpanPrediction]) -> Scores:
        """Return exact match and F1, of all questions and of those with and without an answer, in percent."""
        scores = squad_v2_scores(gold_answers(examples), _predicted_texts(examples, predictions))
        return {name: value for name, value in scores.items() if not name.endswith("total")}

    def score_with_na_probs(
        self, examples: Questions, predictions: Sequence[SpanPrediction], na_probs: PathOrUrl
    ) -> Scores:
        """Return all scores of evaluate-v2.0.py, with the best thresholds on the confidences in a file."""
        confidences = read_na_probs(na_probs)
        _check_complete(examples, confidences, na_probs)
        return squad_v2_scores(gold_answers(examples), _predicted_texts(examples, predictions), confidences)

    def baselines(self) -> Mapping[str, Baseline]:
        """Return "no answer" for every question."""
        return {"no_answer": _no_answer}

    def collapse(self, examples: Questions, predictions: Sequence[SpanPrediction]) -> str | None:
        """Detect predictions without an answer, or no better than that, unless no question has an answer."""
        if not any(example.answers for example in examples):
            return None
        if not any(prediction.text for prediction in predictions):
            return "no question is answered"
        unanswerable = sum(not example.answers for example in examples)
        is_no_better = self.score(examples, predictions)["f1"] <= 100 * unanswerable / len(examples)
        return "no better than to answer no question" if is_no_better else None


def _no_answer(train: Questions, dev: Questions) -> list[SpanPrediction]:
    return [SpanPrediction(candidates=(Answer(),))] * len(dev)


@lru_cache(maxsize=1)
def _paragraph(text: str) -> Paragraph:
    """Return the paragraph of a text, which consecutive questions share, so that it is tokenized once."""
    return Paragraph(text)


def _predicted_texts(examples: Questions, predictions: Sequence[SpanPrediction]) -> dict[str, str]:
    return {example.id: prediction.text for example, prediction in zip(examples, predictions, strict=True)}


def _check_complete(examples: Questions, by_id: Collection[str], path: Source) -> None:
    if missing := [example.id for example in examples if example.id not in by_id]:
        what = f"{len(missing):,} of {len(examples):,} questions are missing, such as {missing[0]!r}"
        raise InputError(what, where=path, remedy='Give "" for no answer')
    if others := set(by_id) - {example.id for example in examples}:
        what = f"{len(others):,} of {len(by_id):,} predictions have no gold example, such as {min(others)!r}"
        warnings.warn(DataWarning(f"{path}: {what}. The others are scored"), stacklevel=2)


def _between_odds(threshold: float | None, odds: Collection[float]) -> float:
    """Return a threshold that divides the questions alike, halfway to the next odds; None: below all odds.

    With the odds of a question as threshold, its answer would depend on rounding, and so on the machine.
    """
    if threshold is None:
        return min(odds, default=0.0) - 1.0
    # a question without candidates has the largest float as odds, which has no midpoint
    larger = [value for value in odds if threshold < value < sys.float_info.max]
    return (threshold + min(larger, default=threshold + 2.0)) / 2
