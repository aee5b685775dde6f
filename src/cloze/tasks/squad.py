"""SQuAD 1.1 and 2.0, and your own questions in a file of the same form.

    {"data": [{"paragraphs": [{"context": "…", "qas": [
        {"id": "7", "question": "…?", "answers": [{"text": "…", "answer_start": 42}]}]}]}]}

In SQuAD 2.0 a question that its text does not answer has no answers, and `"is_impossible": true`.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from cloze.corpus.streams import STDIN, open_bytes
from cloze.errors import InputError
from cloze.metrics.squad import (
    best_threshold,
    squad_v1_scores,
    squad_v2_question_scores,
    squad_v2_scores,
)
from cloze.tasks.contexts import Excerpt, Paragraph
from cloze.tasks.registry import register_task
from cloze.tasks.span import SpanFeature, SpanPrediction, SpanQuestion, SpanTask, answers_of
from cloze.tasks.tables import is_table, read_rows
from cloze.tasks.task import Array, Split
from cloze.text.characters import replace_lone_surrogates

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

    def examples(self, path: Path, *, labelled: bool = True) -> Iterator[SpanQuestion]:
        """Read the questions of a file."""
        if not labelled and is_table(path):
            return _read_table(path)
        return read_questions(path, labelled=labelled, may_be_none=self.may_be_none)


@register_task("squad_v1")
@dataclass(frozen=True, kw_only=True)
class SquadV1(Squad):
    """Every question has an answer in its text (Rajpurkar et al. 2016; Devlin et al. 2019, 4.2)."""

    source: ClassVar[str] = "SQuAD 1.1, or your own file; Devlin et al. 2019, 4.2; score as evaluate-v1.1.py"
    may_be_none: ClassVar[bool] = False
    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = _file_names("v1.1")

    def score(
        self, examples: Sequence[SpanQuestion], predictions: Sequence[SpanPrediction]
    ) -> dict[str, float]:
        """Return exact match and F1, in percent."""
        return squad_v1_scores(answers_of(examples), _texts_of(examples, predictions))


@register_task("squad_v2")
@dataclass(frozen=True, kw_only=True)
class SquadV2(Squad):
    """A text may not answer the question (Rajpurkar et al. 2018; Devlin et al. 2019, 4.3)."""

    source: ClassVar[str] = "SQuAD 2.0, or your own file; Devlin et al. 2019, 4.3; score as evaluate-v2.0.py"
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
            return replace(found, answer=null, null_odds=math.inf)
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
            example.id: math.inf if prediction.null_odds is None else prediction.null_odds
            for example, prediction in zip(examples, predictions, strict=True)
        }
        _, f1 = squad_v2_question_scores(answers, best)
        found = best_threshold(f1, best, odds, {question for question in answers if answers[question]})
        return replace(
            self, null_threshold=_below(odds.values()) if found.threshold is None else found.threshold
        )

    def score(
        self, examples: Sequence[SpanQuestion], predictions: Sequence[SpanPrediction]
    ) -> dict[str, float]:
        """Return exact match and F1, of all questions, of those with an answer and of those without, in percent."""
        scores = squad_v2_scores(answers_of(examples), _texts_of(examples, predictions))
        return {name: value for name, value in scores.items() if not name.endswith("total")}

    def collapse(self, examples: Sequence[SpanQuestion], predictions: Sequence[SpanPrediction]) -> str | None:
        """Name a model that answers no question, or does no better than such a one."""
        if not any(prediction.answer.text for prediction in predictions):
            return "no question is answered"
        unanswerable = sum(not example.answers for example in examples)
        no_better = self.score(examples, predictions)["f1"] <= 100 * unanswerable / len(examples)
        return "no better than to answer no question" if no_better else None


def read_questions(path: Path, *, labelled: bool, may_be_none: bool) -> Iterator[SpanQuestion]:
    """Yield the questions of a file in SQuAD's form, `-` for stdin; those of one text share it.

    Args:
        path: JSON, plain or compressed.
        labelled: whether the answers must be there; otherwise they are not looked at.
        may_be_none: whether there may be none.

    Raises:
        InputError: the file is not of that form; the place in it is named.
    """
    ids: dict[str, str] = {}
    for number, article in enumerate(_get(_read_json(path), "data", list, str(path))):
        article_place = f"{path}: data[{number}]"
        for i, table in enumerate(_get(article, "paragraphs", list, article_place)):
            place = f"{article_place}.paragraphs[{i}]"
            paragraph = Paragraph(_text(table, "context", place))
            for j, row in enumerate(_get(table, "qas", list, place)):
                question = _question(
                    row, paragraph, f"{place}.qas[{j}]", labelled=labelled, may_be_none=may_be_none
                )
                if question.id in ids:
                    what = f"the id {question.id!r} is that of another question, too"
                    raise InputError(what, where=question.where, remedy=f"See {ids[question.id]}")
                ids[question.id] = question.where.removeprefix(f"{path}: ")
                yield question
    if not ids:
        raise InputError("holds no questions", where=path)


def _question(
    row: Any, paragraph: Paragraph, place: str, *, labelled: bool, may_be_none: bool
) -> SpanQuestion:
    identifier = str(_get(row, "id", (str, int), place))
    place = f"{place} (id {identifier})"
    question = SpanQuestion(identifier, _text(row, "question", place), paragraph, where=place)
    if not labelled:
        return question
    answers = tuple(
        _answer(table, paragraph.text, f"{place}.answers[{i}]")
        for i, table in enumerate(_get(row, "answers", list, place))
    )
    if not answers and not may_be_none:
        raise InputError("has no answer", where=place, remedy="The task squad_v2 knows questions without one")
    if "is_impossible" in row and _get(row, "is_impossible", bool, place) == bool(answers):
        what = f"is_impossible is {json.dumps(row['is_impossible'])}, and there are {len(answers)} answers"
        raise InputError(what, where=place)
    return replace(question, answers=answers)


def _answer(table: Any, context: str, place: str) -> Excerpt:
    text, start = _text(table, "text", place), _get(table, "answer_start", int, place)
    end = start + len(text)
    if start < 0 or context[start:end] != text:
        found = context[start:end] if 0 <= start < len(context) else ""
        what = f"the answer {text[:60]!r} does not stand at {start}: there is {found[:60]!r}"
        remedy = f"The text has {len(context)} characters; answer_start counts them from 0"
        raise InputError(what, where=place, remedy=remedy)
    return Excerpt(text, start, end)


def _read_table(path: Path) -> Iterator[SpanQuestion]:
    paragraph = Paragraph("")
    for row in read_rows(path, ["question", "context"]):
        text = replace_lone_surrogates(row.required("context"))
        if text != paragraph.text:
            paragraph = Paragraph(text)
        yield SpanQuestion(row.where, row.required("question"), paragraph, where=row.where)


_KINDS = MappingProxyType({list: "a list", str: "a text", int: "a whole number", bool: "true or false"})


def _get(table: Any, key: str, kind: type | tuple[type, ...], place: str) -> Any:
    """Return a value of a JSON object, that must be there and of that kind."""
    if not isinstance(table, dict):
        raise InputError(f"not a JSON object but {json.dumps(table)[:40]}", where=place)
    if key not in table:
        there = f"There are {', '.join(map(repr, table))}" if table else "It is empty"
        raise InputError(f"{key!r} is missing", where=place, remedy=there)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    value = table[key]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        what = f"{key!r} must be {' or '.join(_KINDS[each] for each in kinds)}, not {json.dumps(value)[:40]}"
        raise InputError(what, where=place)
    return value


def _text(table: Any, key: str, place: str) -> str:
    text = replace_lone_surrogates(_get(table, key, str, place))
    if not text.strip():
        raise InputError(f"{key!r} is empty", where=place)
    return text


def _read_json(path: Path) -> Any:
    if str(path) != STDIN and not Path(path).is_file():
        raise InputError("is a directory" if Path(path).is_dir() else "no such file", where=path)
    with open_bytes(str(path)) as (stream, _):
        content = stream.read()
    try:
        return json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg} at character {error.colno}"
        raise InputError(what, where=f"{path}:{error.lineno}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", where=path) from error


def _texts_of(examples: Sequence[SpanQuestion], predictions: Sequence[SpanPrediction]) -> dict[str, str]:
    return {
        example.id: prediction.answer.text for example, prediction in zip(examples, predictions, strict=True)
    }


def _below(odds: Iterable[float]) -> float:
    """Return a threshold that no question is under."""
    return min(odds, default=0.0) - 1.0
