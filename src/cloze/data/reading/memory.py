"""Data in memory as rows: dicts, tuples, pandas, `datasets` or Arrow tables, or dicts of columns.

None of these libraries is imported.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from cloze.arguments import check_text, describe, is_missing, iterate
from cloze.data.reading.columns import KeepsNumbers, find_class_names, name_classes
from cloze.errors import InputError
from cloze.file_io import write_text
from cloze.remote_files import PathOrUrl

ROWS_EXTENSION = ".cloze-rows"
"""Extension of a temporary file of JSON lines with rows in memory, called by the name of their argument."""


@dataclass(frozen=True, slots=True)
class MemoryRows:
    """Rows in memory by column, with cells as JSON has them."""

    name: str
    """Name of the argument that they are from, for messages."""
    rows: tuple[Mapping[str, Any], ...]

    def __str__(self) -> str:
        return self.name

    def __iter__(self) -> Iterator[tuple[Mapping[str, Any], str]]:
        return ((row, f"{self.name}[{number}]") for number, row in enumerate(self.rows))

    @property
    def content(self) -> str:
        """The text of a file of JSON lines with the rows; halves of characters are escapes."""
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows)
        return "".join(lines).encode(errors="backslashreplace").decode()

    @property
    def sha256(self) -> str:
        """SHA-256 of that file as hexadecimal digits."""
        return hashlib.sha256(self.content.encode()).hexdigest()

    @classmethod
    def read(cls, file: Path) -> "MemoryRows":
        """Return the rows in a temporary file."""
        with file.open(encoding="utf-8") as lines:
            return cls(file.stem, tuple(map(json.loads, lines)))

    def write(self, folder: Path) -> Path:
        """Write a temporary file of the rows, and return it."""
        file = folder / f"{self.name}{ROWS_EXTENSION}"
        write_text(file, self.content, sync=False)
        return file


Data: TypeAlias = PathOrUrl | MemoryRows
"""Where rows are from."""


def rows_from_memory(data: Any, name: str) -> MemoryRows:
    """Return data in memory as rows."""
    rows = list(iterate_rows(data, name))
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputError(f"{name}[{number}] is {describe_row(row)}", remedy="Give a dict by column")
    return MemoryRows(name, tuple(map(plain_row, rows)))


def is_table(data: object) -> bool:
    """Return whether data are a table with named columns: of pandas, datasets or Arrow, or a dict of columns."""
    return isinstance(data, Mapping) or hasattr(data, "column_names") or hasattr(data, "columns")


def are_splits(data: object) -> bool:
    """Return whether data are several tables by name, as a `DatasetDict` of datasets."""
    return (
        isinstance(data, Mapping) and len(data) > 0 and all(hasattr(p, "column_names") for p in data.values())
    )


def iterate_rows(
    data: Any, name: str, keeps_numbers: KeepsNumbers = lambda column, names: False
) -> Iterator[Any]:
    """Yield the rows of data, dicts for those of a table, as they are in other collections."""
    if are_splits(data):
        first = next(iter(data))
        what = f"has the splits {', '.join(map(str, data))}"
        raise InputError(what, where=name, remedy=f"Give one of them, as in {name}[{first!r}]")
    if isinstance(data, Mapping):
        _check_distinct(data, name)
        return _rows_of_columns(data, name)
    if hasattr(data, "to_pylist") and hasattr(data, "schema"):  # Arrow
        _check_distinct(data.schema.names, name)
        return _with_class_names(data.to_pylist(), data, name, keeps_numbers)
    if hasattr(data, "column_names") and hasattr(data, "features"):  # datasets
        data = _without_format(data)
        return _with_class_names(data, data, name, keeps_numbers)
    if hasattr(data, "itertuples"):  # pandas
        _check_distinct(data.columns, name)
        names = list(map(str, data.columns))
        return (dict(zip(names, row, strict=True)) for row in data.itertuples(index=False, name=None))
    return iterate(data, name, "row")


def plain_row(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row as JSON has it. A missing value becomes None; one that JSON lacks, a dict with its type.

    >>> plain_row({"text": "a", "label": float("nan"), "at": 1 + 2j})
    {'text': 'a', 'label': None, 'at': {'complex': '(1+2j)'}}
    """
    if any(type(name) is not str for name in row):  # 1 and "1" would be one column
        _check_distinct(row, "a row")
    return {str(name): None if is_missing(cell) else _cell(cell) for name, cell in row.items()}


def check_unicode_texts(texts: Any, name: str) -> Iterator[str]:
    """Yield texts; a table has them in its column text."""
    if is_table(texts):
        columns = list(getattr(texts, "column_names", getattr(texts, "columns", texts)))
        if "text" not in columns:
            remedy = f"Give one of its columns, as in {name}[{columns[0]!r}]" if columns else None
            raise InputError("has no column 'text'", where=name, remedy=remedy)
        texts = (_without_format(texts) if hasattr(texts, "with_format") else texts)["text"]
    for number, text in zip(count(), iterate(texts, name, "text")):
        checked = check_text(text, f"{name}[{number}]")
        try:
            checked.encode()
        except UnicodeEncodeError as error:
            what = f"half a character (\\u{ord(checked[error.start]):x}) at {error.start}"
            raise InputError(what, where=f"{name}[{number}]", remedy="Replace it by U+FFFD") from None
        yield checked


def _without_format(data: Any) -> Any:
    """Return a data set of `datasets` with rows of Python instead of NumPy, pandas, Arrow or others.

    One that computes its rows (`set_transform`) stays as it is.
    """
    format = getattr(data, "format", None)
    if format is None:
        return data.with_format(None)
    return data if format["type"] == "custom" else data.with_format(None, columns=format["columns"])


def _check_distinct(columns: Iterable[Any], where: str) -> None:
    """Refuse a table whose rows would have the cell of only one of two columns."""
    if repeated := [column for column, count in Counter(map(str, columns)).items() if count > 1]:
        what = f"two columns are called {repeated[0]!r}"
        raise InputError(what, where=where, remedy="Rename one of them")


def _with_class_names(
    rows: Iterable[Mapping[str, Any]], table: Any, name: str, keeps_numbers: KeepsNumbers
) -> Iterator[dict[str, Any]]:
    class_names = find_class_names(table, keeps_numbers)
    for number, row in enumerate(rows):
        yield name_classes(row, class_names, f"{name}[{number}]")


def _rows_of_columns(data: Mapping[Any, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a dict of columns, which must have equal lengths."""
    columns = {
        str(column): list(iterate(values, f"{name}[{column!r}]", "cell")) for column, values in data.items()
    }
    if len(lengths := {len(values) for values in columns.values()}) > 1:
        what = f"columns of {min(lengths)} and of {max(lengths)} cells"
        raise InputError(what, where=name, remedy="Give columns of equal length")
    for cells in zip(*columns.values(), strict=True):
        yield dict(zip(columns, cells, strict=True))


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float)):  # also of NumPy
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, Mapping):
        return {str(key): _cell(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cell(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy and torch
        return _cell(value.tolist())
    return {type(value).__name__: str(value)}


def describe_row(row: object) -> str:
    """Name a row of a wrong kind in a few words."""
    return f"{len(row)} values" if isinstance(row, tuple) else describe(row)
