"""The files of SQuAD: questions, answers to them, and how sure it is that there is none.

    {"data": [{"paragraphs": [{"context": "…", "qas": [
        {"id": "7", "question": "…?", "answers": [{"text": "…", "answer_start": 42}]}]}]}]}

In SQuAD 2.0 a question that its text does not answer has no answers, and `"is_impossible": true`.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from cloze.corpus.streams import open_bytes
from cloze.errors import InputError
from cloze.stores import Place
from cloze.tasks.contexts import Excerpt, Paragraph
from cloze.tasks.span import SpanQuestion
from cloze.tasks.tables import check_file, json_lines, read_rows
from cloze.tasks.texts import finite
from cloze.text.characters import replace_lone_surrogates


def read_questions(path: Place, *, labelled: bool, may_be_none: bool) -> Iterator[SpanQuestion]:
    """Yield the questions of a file in SQuAD's form, `-` for stdin; those of one text share it.

    Args:
        path: JSON, plain or compressed.
        labelled: whether the answers must be there; otherwise they are not looked at.
        may_be_none: whether there may be none.

    Raises:
        InputError: the file is not of that form; the place in it is named.
    """
    known: dict[str, SpanQuestion] = {}
    for number, article in enumerate(_get(_parse(_read_text(path), path), "data", list, str(path))):
        article_place = f"{path}: data[{number}]"
        for i, table in enumerate(_get(article, "paragraphs", list, article_place)):
            place = f"{article_place}.paragraphs[{i}]"
            paragraph = Paragraph(_text(table, "context", place))
            for j, row in enumerate(_get(table, "qas", list, place)):
                question = _question(
                    row, paragraph, f"{place}.qas[{j}]", labelled=labelled, may_be_none=may_be_none
                )
                other = known.setdefault(question.id, question)
                if not _is_same(question, other):
                    where = other.where.removeprefix(f"{path}: ")
                    raise InputError(f"another question with this id stands at {where}", where=question.where)
                yield question
    if not known:
        raise InputError("holds no questions", where=path)


def _is_same(question: SpanQuestion, other: SpanQuestion) -> bool:
    """Whether a question is the one that was read before: the official programs take one that stands twice."""
    return (question.question, question.answers, question.paragraph.text) == (
        other.question,
        other.answers,
        other.paragraph.text,
    )


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


def read_question_rows(path: Place) -> Iterator[SpanQuestion]:
    """Yield the questions of a table with the columns question and context; neighbours share their text.

    Raises:
        InputError: a row is wrong.
    """
    paragraph = Paragraph("")
    for row in read_rows(path, ["question", "context"]):
        text = replace_lone_surrogates(row.required("context"))
        if text != paragraph.text:
            paragraph = Paragraph(text)
        yield SpanQuestion(row.where, row.required("question"), paragraph, where=row.where)


def read_answers(path: Place) -> dict[str, str]:
    """Read predicted answers by question: SQuAD's `{id: text}`, or what `cloze predict` prints, a line for each.

    Raises:
        InputError: the file is of neither form, or answers a question twice.
    """
    rows = _by_id(path, "answer")
    return {name: _checked(value, str, f"the answer to {name!r}", str(path)) for name, value in rows.items()}


def read_na_probs(path: Place) -> dict[str, float]:
    """Read how sure it is that a question has no answer: `{id: number}`, or what `cloze predict` prints.

    Raises:
        InputError: the file is of neither form, or a value is NaN or infinite.
    """
    sure = {}
    for name, value in _by_id(path, "null_odds").items():
        number = _checked(value, (float, int), f"the value of {name!r}", str(path))
        try:
            sure[name] = finite(number)
        except ValueError as error:
            raise InputError(f"the value of {name!r}: {error}", where=path) from error
    return sure


def _by_id(path: Place, key: str) -> dict[str, Any]:
    """Read one JSON object; or, where each line is one, what they hold under `key`, by their "id"."""
    text = _read_text(path)
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if whole is not None and not (isinstance(whole, dict) and "id" in whole):
        return dict(_checked(whole, dict, "all of it", str(path)))
    values: dict[str, Any] = {}
    lines = ((line, f"{path}:{number}") for number, line in enumerate(text.split("\n"), 1))
    for row, where in json_lines(lines):
        name = str(_get(row, "id", (str, int), where))
        value = _get(row, key, (str, float, int), where)
        if name in values and values[name] != value:
            raise InputError(f"the question {name!r} is answered twice, and not the same", where=where)
        values[name] = value
    return values


_KINDS = MappingProxyType(
    {
        dict: "an object",
        list: "a list",
        str: "a text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
    }
)


def _get(table: Any, key: str, kind: type | tuple[type, ...], place: str) -> Any:
    """Return a value of a JSON object, that must be there and of that kind."""
    if not isinstance(table, dict):
        raise InputError(f"{_shown(table)} is no JSON object", where=place)
    if key not in table:
        there = f"There are {', '.join(map(repr, table))}" if table else "It is empty"
        raise InputError(f"{key!r} is missing", where=place, remedy=there)
    return _checked(table[key], kind, repr(key), place)


def _checked(value: Any, kind: type | tuple[type, ...], name: str, place: str) -> Any:
    """Return a value that must be of that kind."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        what = f"{name} must be {' or '.join(_KINDS[each] for each in kinds)}, not {_shown(value)}"
        raise InputError(what, where=place)
    return value


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]


def _text(table: Any, key: str, place: str) -> str:
    text = replace_lone_surrogates(_get(table, key, str, place))
    if not text.strip():
        raise InputError(f"{key!r} is empty", where=place)
    return text


def _read_text(path: Place) -> str:
    check_file(path)
    with open_bytes(str(path)) as (stream, _):
        content = stream.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start + 1:,}", where=path) from error


def _parse(text: str, path: Place) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg} at character {error.colno:,} of the line"
        raise InputError(what, where=f"{path}:{error.lineno}") from error
    except RecursionError as error:
        raise InputError(f"not JSON: {error}", where=path) from error
