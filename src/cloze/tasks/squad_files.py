"""The files of SQuAD: questions, predicted answers, and confidences that there is no answer.

    {"data": [{"paragraphs": [{"context": "…", "qas": [
        {"id": "7", "question": "…?", "answers": [{"text": "…", "answer_start": 42}]}]}]}]}

In SQuAD 2.0 a question without an answer has empty `answers` and `"is_impossible": true`.
"""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from cloze.data.reading.files import check_file, open_text, read_text
from cloze.data.reading.json_rows import RawRow, json_lines, show_value
from cloze.data.reading.memory import Data, MemoryRows
from cloze.data.reading.table_files import is_json, is_table
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.remote_files import PathOrUrl
from cloze.tasks.paragraphs import Excerpt
from cloze.tasks.prediction_files import finite_number, is_json_lines, read_prediction_rows
from cloze.tokenization.unicode import replace_lone_surrogates

_KEYS = ("text", "answer_start")


def has_question_rows(path: PathOrUrl, *, labeled: bool, encoding: str | None = None) -> bool:
    """Return whether a file has a question a row, as data sets of the Hugging Face Hub have them."""
    if not is_table(path):
        return False
    if not (is_json(path) or is_json_lines(path)):
        return True
    check_file(path)
    with open_text(str(path), encoding) as (_, _, head):  # SQuAD's form is often one line of 30 MB
        is_rows = b'"context"' in head and not any(name in head for name in (b'"paragraphs"', b'"data"'))
    return is_rows or (not labeled and is_json_lines(path))


def squad_rows(path: PathOrUrl, *, labeled: bool, encoding: str | None = None) -> Iterator[RawRow]:
    """Yield a row with id, question, context and answers for each question of a file in SQuAD's form.

    Unless `labeled`, answers are ignored and may be missing.
    """
    known: dict[str, RawRow] = {}
    name = str(path)
    try:
        table = json.loads(read_text(path, encoding))
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg} at character {error.colno:,} of the line"
        raise InputError(what, where=f"{path}:{error.lineno}") from error
    except RecursionError as error:
        raise InputError(f"not JSON: {error}", where=path) from error
    paragraphs = (
        (paragraph, f"{name}: data[{i}].paragraphs[{j}]")
        for i, article in enumerate(_get(table, "data", name, list))
        for j, paragraph in enumerate(_get(article, "paragraphs", f"{name}: data[{i}]", list))
    )
    for paragraph, where in paragraphs:
        context = _text(paragraph, "context", where)
        for k, values in enumerate(_get(paragraph, "qas", where, list)):
            row, place = _question(values, context, f"{where}.qas[{k}]", labeled=labeled)
            other, first = known.setdefault(row["id"], (row, place))
            if row != other:  # like the official programs, accept a repeated question
                raise InputError(f"{first.removeprefix(f'{name}: ')} has the same id", where=place)
            yield row, place
    if not known:
        raise InputError("holds no questions", where=path)


def _question(values: Any, context: str, where: str, *, labeled: bool) -> RawRow:
    identifier = str(_get(values, "id", where, str, int))
    where = f"{where} (id {identifier})"
    row = {"id": identifier, "question": _text(values, "question", where), "context": context}
    if not labeled:
        return row, where
    answers = tuple(
        _answer(answer, context, f"{where}.answers[{i}]")
        for i, answer in enumerate(_get(values, "answers", where, list))
    )
    if "is_impossible" in values and _get(values, "is_impossible", where, bool) == bool(answers):
        what = f"is_impossible is {json.dumps(values['is_impossible'])}, and there are {len(answers)} answers"
        raise InputError(what, where=where)
    return {**row, "answers": answers}, where


def _answer(row: Any, context: str, where: str) -> Excerpt:
    text, start = _text(row, "text", where), _get(row, "answer_start", where, int)
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


def read_answers(path: Data) -> dict[str, dict[str, Any]]:
    """Read predicted answers by question id: SQuAD's `{id: text}`, or what `cloze predict` wrote.

    Each is an object with `answer` and, if the file says it, `probability`.
    """
    answers = {}
    for name, row in _by_id(path, "answer").items():
        answer = _check_type(row["answer"], f"the answer to {name!r}", path, str)
        answers[name] = {"answer": answer} | {
            key: float(row[key]) for key in ("probability",) if isinstance(row.get(key), (int, float))
        }
    return answers


def read_na_probs(path: PathOrUrl) -> dict[str, float]:
    """Read the confidence that a question has no answer: `{id: number}`, or the lines of `cloze predict`."""
    confidences = {}
    for name, row in _by_id(path, "null_odds").items():
        try:
            number = _check_type(row["null_odds"], f"the value of {name!r}", path, float, int)
            confidences[name] = finite_number(number)
        except ValueError as error:
            raise InputError(f"the value of {name!r}: {error}", where=path) from error
    return confidences


def _by_id(path: Data, key: str) -> dict[str, Mapping[str, Any]]:
    """Read one JSON object, with the values of `key` by id; or rows with "id" and `key`, of JSON lines or a table."""
    if isinstance(path, MemoryRows):
        return _unique(path, key)
    if is_table(path) and not is_json(path) and not is_json_lines(path):
        return _unique(read_prediction_rows(path, ("id", key, "probability", "null_odds")), key)
    text = read_text(path)
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if whole is not None and not (isinstance(whole, dict) and "id" in whole):
        return {name: {key: value} for name, value in _check_type(whole, "all of it", path, dict).items()}
    lines = ((line, f"{path}:{number}") for number, line in enumerate(text.split("\n"), 1))
    return _unique(json_lines(lines), key)


def _unique(rows: Iterable[RawRow], key: str) -> dict[str, Mapping[str, Any]]:
    """Return rows by their id; an id with two values of `key` is an error."""
    by_id: dict[str, Mapping[str, Any]] = {}
    for row, where in rows:
        name = str(_get(row, "id", where, str, int))
        value = _get(row, key, where, str, float, int)
        if name in by_id and by_id[name][key] != value:
            raise InputError(f"two different answers to the question {name!r}", where=where)
        by_id[name] = row
    return by_id


_TYPE_NAMES = MappingProxyType(
    {
        dict: "an object",
        list: "a list",
        str: "a text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
    }
)


def _get(row: Any, key: str, where: str, *kinds: type) -> Any:
    """Return a required value of a JSON object, of one of these types."""
    if not isinstance(row, dict):
        raise InputError(f"{show_value(row)} is no JSON object", where=where)
    if key not in row:
        remedy = f"There are {', '.join(map(repr, row))}" if row else "It is empty"
        raise InputError(f"{key!r} is missing", where=where, remedy=remedy)
    return _check_type(row[key], repr(key), where, *kinds)


def _check_type(value: Any, name: str, where: object, *kinds: type) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        what = f"{name} must be {' or '.join(map(_TYPE_NAMES.__getitem__, kinds))}, not {show_value(value)}"
        raise InputError(what, where=where)
    return value


def _text(row: Any, key: str, where: str) -> str:
    text = replace_lone_surrogates(_get(row, key, where, str))
    if not text.strip():
        raise InputError(f"{key!r} is empty", where=where)
    return text
