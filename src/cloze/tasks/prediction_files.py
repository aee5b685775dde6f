"""Read the files of predictions that `cloze predict` or another program wrote: JSON lines or a table."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cloze.data.reading.files import STDIN, extension_of, read_lines
from cloze.data.reading.json_rows import json_lines
from cloze.data.reading.memory import MemoryRows, Source
from cloze.data.reading.table_files import is_table
from cloze.data.reading.tables import read_rows
from cloze.data.row_files import JSON_LINES
from cloze.errors import InputError

IDENTITY = ("id", "text", "pair", "prompt", "question")
"""Columns of predictions that say which example they are for."""
_TEXTS = {"label", "answer", *IDENTITY}


def is_json_lines(path: Source) -> bool:
    """Return whether a file has the name of JSON lines."""
    return extension_of(path) in JSON_LINES


def read_prediction_rows(path: Source, keys: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the keys and values of each prediction in a file, and "file:line".

    Args:
        path: JSON lines, or a table, whose cells are JSON but for texts and labels.
        keys: those of the answer, the required one first. A table's columns of these and of `IDENTITY` are read.

    Raises:
        InputError: the file has another format, or a line is invalid.
    """
    columns = tuple(dict.fromkeys((*keys, *IDENTITY, "row")))
    if isinstance(path, MemoryRows):
        yield from path
        return
    if str(path) == STDIN or not is_table(path) or is_json_lines(path) or not keys:
        yield from json_lines(read_lines(path, can_name_encoding=False))
        return
    for row in read_rows(path, columns[:1], is_also_read=columns[1:].__contains__):
        values = {str(name): value for name, value in row.cells.items() if value is not None}
        for name in (key for key in keys if key not in _TEXTS):
            if isinstance(text := values.get(name), str):
                if text:
                    values[name] = _parse(text, name, row.where)
                else:  # an empty cell
                    del values[name]
        yield values, row.where


def _parse(text: str, name: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the cell {name!r} is not JSON: {error}", where=where) from error


def finite_number(value: Any) -> float:
    """Return a number of JSON as a float.

    Raises:
        TypeError, ValueError: it is not a number, or infinite, NaN or too large.
    """
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a number")
    return number
