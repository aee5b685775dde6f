"""The files of SQuAD: questions on paragraphs, with their answers.

    {"data": [{"paragraphs": [{"context": "…", "qas": [
        {"id": "7", "question": "…?", "answers": [{"text": "…", "answer_start": 42}]}]}]}]}

In SQuAD 2.0 a question without an answer has empty `answers` and `"is_impossible": true`.
"""

import ast
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cloze.data.reading.delimited import DELIMITED
from cloze.data.reading.files import JSON_LINES
from cloze.data.reading.json_rows import show_value
from cloze.data.reading.source import RawRow, Source
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.tokenization.unicode import replace_lone_surrogates

_KEYS = ("text", "answer_start")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Characters of a text, from `start` to before `end`."""

    text: str
    start: int
    end: int


def fits_squad(source: Source) -> bool:
    """Return whether a file is in SQuAD's form, and not JSON with a question a row, as the Hub's data sets are."""
    if source.extension not in (*JSON_LINES, ".json"):
        return source.extension not in DELIMITED
    head = "\n".join(source.sample)  # SQuAD's form is often one line of 30 MB
    is_rows = '"context"' in head and not any(name in head for name in ('"paragraphs"', '"data"'))
    return not is_rows and (source.options.labeled or source.extension not in JSON_LINES)


def read_squad(source: Source) -> Iterator[RawRow]:
    """Yield a row with id, question, context and answers for each question of a file in SQuAD's form.

    Unless they are labeled, answers are ignored and may be missing.
    """
    known: dict[str, tuple[Mapping[str, Any], str]] = {}
    name, labeled = str(source), source.options.labeled
    try:
        table = json.loads(source.read_whole())
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg} at character {error.colno:,} of the line"
        raise InputError(what, where=f"{name}:{error.lineno}") from error
    except RecursionError as error:
        raise InputError(f"not JSON: {error}", where=name) from error
    paragraphs = (
        (paragraph, f"{name}: data[{i}].paragraphs[{j}]")
        for i, article in enumerate(get(table, "data", name, list))
        for j, paragraph in enumerate(get(article, "paragraphs", f"{name}: data[{i}]", list))
    )
    for paragraph, where in paragraphs:
        context = _text(paragraph, "context", where)
        for k, values in enumerate(get(paragraph, "qas", where, list)):
            row, place = _question(values, context, f"{where}.qas[{k}]", labeled=labeled)
            other, first = known.setdefault(row["id"], (row, place))
            if row != other:  # like the official programs, accept a repeated question
                raise InputError(f"{first.removeprefix(f'{name}: ')} has the same id", where=place)
            yield row, place
    if not known:
        raise InputError("holds no questions", where=name)


def _question(values: Any, context: str, where: str, *, labeled: bool) -> tuple[dict[str, Any], str]:
    identifier = str(get(values, "id", where, str, int))
    where = f"{where} (id {identifier})"
    row = {"id": identifier, "question": _text(values, "question", where), "context": context}
    if not labeled:
        return row, where
    answers = tuple(
        _answer(answer, context, f"{where}.answers[{i}]")
        for i, answer in enumerate(get(values, "answers", where, list))
    )
    if "is_impossible" in values and get(values, "is_impossible", where, bool) == bool(answers):
        what = f"is_impossible is {json.dumps(values['is_impossible'])}, and there are {len(answers)} answers"
        raise InputError(what, where=where)
    return {**row, "answers": answers}, where


def _answer(row: Any, context: str, where: str) -> Excerpt:
    text, start = _text(row, "text", where), get(row, "answer_start", where, int)
    end = start + len(text)
    if start < 0 or context[start:end] != text:
        actual = context[start:end] if 0 <= start < len(context) else ""
        what = f"the answer {text[:60]!r} is not at character {start}; the text there is {actual[:60]!r}"
        remedy = f"The text has {len(context)} characters; answer_start counts them from 0"
        raise InputError(what, where=where, remedy=remedy)
    return Excerpt(text, start, end)


def answers_of_row(row: Row) -> tuple[Excerpt, ...]:
    """Return the answers of a row: a list of objects, or an object of lists, in TSV and CSV as text."""
    answers, context = row.cells["answers"], replace_lone_surrogates(row.required("context"))
    if isinstance(answers, tuple):
        return answers
    if isinstance(answers, str):
        for parse in (json.loads, ast.literal_eval):  # as JSON and Python write them
            with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                answers = parse(answers)
                break
    if isinstance(answers, dict) and all(isinstance(answers.get(key), list) for key in _KEYS):
        texts, starts = (answers[key] for key in _KEYS)
        if len(texts) != len(starts):
            what = f"{len(texts)} answers have {len(starts)} starts"
            raise InputError(what, where=row.where, remedy="Give one answer_start for each text")
        answers = [dict(zip(_KEYS, answer, strict=True)) for answer in zip(texts, starts, strict=True)]
    if not isinstance(answers, list):
        remedy = 'Write {"text": ["Oslo"], "answer_start": [13]}'
        raise InputError("the answers are not texts with their starts", where=row.where, remedy=remedy)
    return tuple(_answer(answer, context, row.where) for answer in answers)


_TYPE_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def get(row: Any, key: str, where: str, *kinds: type) -> Any:
    """Return a required value of a JSON object, of one of these types."""
    if not isinstance(row, dict):
        raise InputError(f"{show_value(row)} is no JSON object", where=where)
    if key not in row:
        remedy = f"There are {', '.join(map(repr, row))}" if row else "It is empty"
        raise InputError(f"{key!r} is missing", where=where, remedy=remedy)
    return check_type(row[key], repr(key), where, *kinds)


def check_type(value: Any, name: str, where: object, *kinds: type) -> Any:
    """Return a value of JSON that must be of one of these types."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        what = f"{name} must be {' or '.join(map(_TYPE_NAMES.__getitem__, kinds))}, not {show_value(value)}"
        raise InputError(what, where=where)
    return value


def _text(row: Any, key: str, where: str) -> str:
    text = replace_lone_surrogates(get(row, key, where, str))
    if not text.strip():
        raise InputError(f"{key!r} is empty", where=where)
    return text
