"""Rows of JSON: an object a line, or one list of objects; and cells that hold a list, written as text."""

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from cloze.data.reading.files import Line
from cloze.data.reading.source import Source
from cloze.errors import InputError

_ROWS = ("data", "rows", "examples")  # fields of one object that have all rows
_NUMPY_NUMBERS = re.compile(r"\[\s*[-+.0-9e]+(\s+[-+.0-9e]+)+\s*\]")
_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_NUMPY_TEXTS = re.compile(rf"\[\s*{_TEXT}(?:\s+{_TEXT})+\s*\]", re.DOTALL)
_ADJACENT_TEXTS = re.compile(rf"[\[(,{{]\s*{_TEXT}\s+{_TEXT}", re.DOTALL)


def json_lines(lines: Iterator[Line]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the object in each line; blank lines are skipped."""
    return ((as_object(text, where), where) for text, where in lines if text.strip())


def json_values(source: Source) -> Iterator[tuple[Any, str]]:
    """Yield the lines of JSON lines as text, or the rows of a file that is one list or one object."""
    begin, *others = (line.strip() for line in source.content or [""])
    if others and begin != "{" and not begin.startswith("["):
        yield from (line for line in source.lines if line[0].strip())
        return
    whole = source.read_whole()
    rows = _rows_of_list(whole, source) if begin.startswith("[") else _rows_of_object(whole)
    if rows is None:
        lines = enumerate(whole.split("\n"), 1)
        yield from ((line, f"{source}:{number}") for number, line in lines if line.strip())
    else:
        yield from ((row, f"{source}: [{index}]") for index, row in enumerate(rows))


def _rows_of_list(text: str, path: object) -> list[Any] | None:
    """Return the rows of a file that is one list; None if each line is a list."""
    try:
        items: list[Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        if str(error).startswith("Extra data"):
            return None
        remedy = "Give one object a line, or one list of objects"
        raise InputError(f"not JSON: {error}", where=path, remedy=remedy) from error
    if items and isinstance(items[0], str):
        return None
    for index, item in enumerate(items):
        if isinstance(item, str):  # not a line that is still to be parsed
            where = f"{path}: [{index}]"
            raise InputError("not a JSON object", where=where, remedy="Give a list of objects")
    return items


def _rows_of_object(text: str) -> list[Any] | None:
    """Return the rows of a file that is one object, as pandas and data sets of the Hub have them; None for one row.

    >>> _rows_of_object('{"text": {"0": "a"}, "label": {"0": 1}}')
    [{'text': 'a', 'label': 1}]
    >>> _rows_of_object('{"data": [{"text": "a"}]}'), _rows_of_object('{"text": "a"}')
    ([{'text': 'a'}], None)
    """
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(table, dict):
        return None
    names, data = table.get("columns"), next((table[name] for name in _ROWS if name in table), None)
    if isinstance(data, list) and data:
        if all(isinstance(row, dict) for row in data):
            return [row["row"] if isinstance(row.get("row"), dict) else row for row in data]
        if isinstance(names, list) and all(isinstance(row, list) and len(row) == len(names) for row in data):
            return [dict(zip(names, row, strict=True)) for row in data]
    columns = list(table.values())
    if len(columns) > 1 and all(
        isinstance(cells, dict) and cells.keys() == columns[0].keys() for cells in columns
    ):
        return [{name: cells[key] for name, cells in table.items()} for key in columns[0]]
    # lists of one length are columns, but those of words are one row
    is_row = any(isinstance(item, str) for name in ("tokens", "words") for item in table.get(name) or ())
    are_lists = len(columns) > 1 and not is_row and all(isinstance(cells, list) for cells in columns)
    if are_lists and columns[0] and len(set(map(len, columns))) == 1:
        return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]
    return None


def as_object(values: Any, where: str) -> Mapping[str, Any]:
    """Return an object, or parse it from a line."""
    if isinstance(values, str):
        try:
            values = json.loads(values)
        except (ValueError, RecursionError) as error:
            remedy = "Give one object a line, or one list of objects"
            raise InputError(f"not JSON: {error}", where=where, remedy=remedy) from error
    if not isinstance(values, dict):
        raise InputError("not a JSON object", where=where, remedy="Give one object a line")
    return values


def parse_list(text: str) -> list[Any] | None:
    """Return the list that a cell holds as JSON, Python or NumPy write it; None if it is no list.

    >>> parse_list('["a", "b"]'), parse_list("('a', 'b')"), parse_list("[1. 0.]"), parse_list("a, b")
    (['a', 'b'], ['a', 'b'], [1.0, 0.0], None)
    """
    text = text.strip()
    ends = text[:1] + text[1:][-1:]
    if not (ends == "[]" or (ends == "()" and "," in text) or (ends == "{}" and ":" not in text)):
        return None
    if _NUMPY_NUMBERS.fullmatch(text):
        with suppress(ValueError):
            return [int(number) if number.isdigit() else float(number) for number in text[1:-1].split()]
    if _NUMPY_TEXTS.fullmatch(text):
        return [ast.literal_eval(item) for item in re.findall(_TEXT, text, re.DOTALL)]
    if _ADJACENT_TEXTS.search(text):  # Python would join them
        return None
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            values = parse(text)
            return sorted(values) if isinstance(values, set) else list(values)
    return None


def show_value(value: Any) -> str:
    """Return the beginning of a cell as JSON, for messages."""
    return json.dumps(value, ensure_ascii=False, default=str)[:60]


def as_text(value: Any) -> str | None:
    """Return a text, or a finite number or Boolean as JSON writes it (labels may be such); None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    return None
