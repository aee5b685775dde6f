"""Rows of named cells from TSV, CSV, JSON lines and Parquet. The first line of a TSV or CSV names the columns."""

import ast
import difflib
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from cloze.data.compression import COMPRESSED
from cloze.data.delimited import (
    CALL_IT_CSV,
    NAMED_SEPARATOR,
    find_separator,
    split_cells,
    split_rows,
    warn_of_quotation_marks,
)
from cloze.data.files import Line, check_file, read_lines
from cloze.errors import DataWarning, InputError
from cloze.memory_file import place_of, source_of
from cloze.remote_files import PathOrUrl, is_file, is_url
from cloze.text_encoding import refuse_carriage_return

Column: TypeAlias = str | tuple[str, ...]
"""The name of a column, or alternative names: the first that a file has is used."""
RawRow: TypeAlias = tuple[Mapping[str, Any], str]
"""The cells of a row by column, and "file:line"."""
Parsed = TypeVar("Parsed")

_PARQUET = ".parquet"
_PARQUET_ROWS = 1024  # in memory at once
_SHOWN_ERRORS = 10
_MAX_BROKEN_ROWS, _MAX_BROKEN_SHARE = 10, 0.01  # rows that may be left out


@dataclass(frozen=True, slots=True)
class Row:
    """The requested cells of a row by column, as the file has them, and "file:line"."""

    cells: Mapping[Column, Any]
    where: str
    names: Mapping[Column, str]
    """The column of the file for each requested column that may have several names."""

    def text(self, column: Column) -> str:
        """Return a cell as text; InputError if it is null, a list or an object."""
        text = as_text(self.cells[column])
        if text is None:
            what = f"{self.names.get(column, column)!r} is {_shown(self.cells[column])}, not a text"
            raise InputError(what, where=self.where)
        return text

    def required(self, column: Column) -> str:
        """Return the text of a cell that must not be blank."""
        text = self.text(column)
        if not text.strip():
            raise InputError(f"the cell {self.names.get(column, column)!r} is empty", where=self.where)
        return text

    def texts(self, column: Column) -> list[str]:
        """Return a cell that is a list of texts, as JSON and Parquet have them, or such a list written as one text."""
        cell = self.cells[column]
        values = parse_list(cell) if isinstance(cell, str) else cell
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise InputError(
                f"{self.names.get(column, column)!r} is {_shown(cell)}, not a list of texts", where=self.where
            )
        return values


def parse_list(text: str) -> list[Any] | None:
    """Return the list that a cell holds as JSON, Python or NumPy write it; None if it is no list.

    >>> parse_list('["a", "b"]'), parse_list("('a', 'b')"), parse_list("[1. 0.]"), parse_list("a, b")
    (['a', 'b'], ['a', 'b'], [1.0, 0.0], None)
    """
    text = text.strip()
    if not _LIST.fullmatch(text):
        return None
    if _NUMPY_LIST.fullmatch(text):
        return [float(number) for number in text[1:-1].split()]
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            values = parse(text)
            return sorted(values) if isinstance(values, set) else list(values)
    return None


def as_text(value: Any) -> str | None:
    """Return a text, or a finite number or Boolean as JSON writes it (labels may be such); None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    return None


def is_tsv(path: PathOrUrl) -> bool:
    """Return whether a file has the name of a TSV."""
    return _extension(path) == ".tsv"


def is_table(path: PathOrUrl) -> bool:
    """Return whether a file has the name of a table."""
    return _extension(path) in _EXTENSIONS


def is_parquet(path: PathOrUrl) -> bool:
    """Return whether a file has the name of a Parquet file."""
    return _extension(path) == _PARQUET


def check_is_text(path: PathOrUrl) -> None:
    """Refuse a file with the name of JSON, which must not be read as plain text."""
    if _extension(path) == ".json":
        remedy = f"A table's name ends in {', '.join(_EXTENSIONS)}"
        raise InputError("not a text", where=path, remedy=remedy)


def read_rows(
    path: PathOrUrl,
    columns: Sequence[Column],
    *,
    optional: Sequence[str] = (),
    header: Sequence[str] | None = None,
    skip_broken: bool = False,
) -> Iterator[Row]:
    """Yield the rows of a table, one at a time, as `parse_rows` does."""
    return parse_rows(
        path, columns, lambda row: row, optional=optional, header=header, skip_broken=skip_broken
    )


def parse_rows(
    path: PathOrUrl,
    columns: Sequence[Column],
    parse: Callable[[Row], Parsed],
    *,
    optional: Sequence[str] = (),
    header: Sequence[str] | None = None,
    skip_broken: bool = False,
    leave_out: tuple[type[InputError], ...] = (),
) -> Iterator[Parsed]:
    """Yield what `parse` returns for each row of a table, one at a time.

    After the first bad row the others are only checked, and the error at the end names ten of them.

    Args:
        path: a .tsv, .csv, .jsonl, .ndjson or .parquet file; text may be compressed.
        columns: those to read; the file may have more.
        parse: raises `InputError` for a bad row.
        optional: more columns to read; a row without one has no such cell.
        header: the names of the columns of a TSV whose first line is a row.
        skip_broken: leave out rows that have more or fewer cells than there are columns, if they are few.
        leave_out: kinds of errors whose rows are left out, with a warning that counts them.

    Raises:
        InputError: no such file, no rows, a missing column, or bad rows.
    """
    raw_rows, to_cells = _open_table(path, columns, optional, header)
    errors, left_out = BadRows(), BadRows()
    leave_out = (*leave_out, _CellCountError) if skip_broken else leave_out
    rows = 0
    try:
        for raw, where in raw_rows:
            rows += 1
            try:
                cells = to_cells(raw, where)
                names = {column: _find(cells, column, where) for column in columns}
                wanted = {column: cells[name] for column, name in names.items()}
                wanted |= {column: cells[column] for column in optional if column in cells}
                parsed = parse(Row(wanted, where, names))
            except InputError as error:
                if rows == 1 and isinstance(error, NoColumnError) and not isinstance(error, leave_out):
                    raise
                (left_out if isinstance(error, leave_out) else errors).add(error)
                if skip_broken and left_out.count > max(_MAX_BROKEN_ROWS, _MAX_BROKEN_SHARE * rows):
                    what = (
                        f"{left_out.count} of {rows} rows have more or fewer cells than the first line names"
                    )
                    raise InputError(what, where=where) from None
            else:
                if not errors.count:
                    yield parsed
    except InputError as error:  # the lines after it cannot be read
        errors.add(error)
        raise errors.as_error() from error
    if errors.count:
        raise errors.as_error()
    if not rows:
        raise InputError("holds no rows", where=path)
    if left_out.count == rows:
        raise left_out.as_error()
    if left_out.count:
        what = f"{left_out.count:,} of {rows:,} rows are left out: {left_out.describe()}"
        warnings.warn(DataWarning(f"{place_of(path)}: {what}"), stacklevel=2)


class BadRows:
    """Errors of rows: the first ten, and their number."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[InputError] = []

    def add(self, error: InputError) -> None:
        """Count an error, and keep it if it is among the first."""
        self.count += 1
        if len(self._first) < _SHOWN_ERRORS:
            self._first.append(error)

    def describe(self) -> str:
        """Return the first errors with their lines, or with their rows in memory."""
        places = [error.where or "" for error in self._first]
        lines = [where.removeprefix(source_of(where)).strip(":[]") for where in places]
        kind = "row" if places[0].endswith("]") else "line"
        if len({error.what for error in self._first}) == 1 < self.count:
            more = ", …" if self.count > len(lines) else ""
            return f"{self._first[0].what}: {kind}s {', '.join(lines)}{more}"
        told = (f"{kind} {line}: {error.what}" for line, error in zip(lines, self._first, strict=True))
        return "; ".join([*told, *(["…"] if self.count > len(self._first) else [])])

    def as_error(self) -> InputError:
        """Return one error for all of them."""
        first = self._first[0]
        if self.count == 1:
            return first
        told = self.describe().removeprefix(f"{first.what}: ")
        what = f"{first.what} (the first of {self.count:,} bad rows: {told})"
        return InputError(what, where=first.where, remedy=first.remedy)


def _open_table(
    path: PathOrUrl,
    columns: Sequence[Column],
    optional: Sequence[str],
    header: Sequence[str] | None,
) -> tuple[Iterator[tuple[Any, str]], Callable[[Any, str], Mapping[str, Any]]]:
    """Return the raw rows of a table with their places, and a function from these to cells by column."""
    extension = _extension(path)
    if extension == _PARQUET:
        return _parquet_rows(path, columns, optional), lambda cells, where: cells
    if extension in _JSON_LINES:
        return ((text, where) for text, where in read_lines(path) if text.strip()), _parse_json
    if extension not in _EXTENSIONS:
        remedy = f"Its name must end in {', '.join(_EXTENSIONS)}"
        raise InputError("not a table that cloze reads", where=path, remedy=remedy)
    lines = read_lines(path)
    if header is not None:
        known = header
        return split_rows(lines, "\t", len(known), quoted=False), partial(_by_column, known, "a row has")
    first, where = next(lines, ("", f"{path}:1"))
    if (named := NAMED_SEPARATOR.fullmatch(first)) is not None:
        first, where = next(lines, ("", f"{path}:2"))
    separator, quoted = find_separator(first, columns, extension)
    if named is not None:
        separator, quoted = named[1], True
    names = _check_header(split_cells(first, separator, where, lines, quoted=quoted), where) if first else []
    rows = split_rows(lines, separator, len(names), quoted=quoted)
    if not quoted:
        rows = warn_of_quotation_marks(rows)
    return rows, partial(_by_column, names, "the first line names")


def count_rows(path: PathOrUrl) -> int | None:
    """Return the approximate number of rows of a table for a progress bar; None if only reading it would tell."""
    if not (is_table(path) and is_file(path)) or Path(str(path).lower()).suffix in COMPRESSED:
        return None
    if _extension(path) == _PARQUET:
        from cloze.data.arrow_files import open_parquet

        try:
            with open_parquet(str(path)) as parquet:
                return int(parquet.metadata.num_rows)
        except InputError:
            return None
    if is_url(path):
        return None
    with Path(path).open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(partial(stream.read, 1 << 20), b""))


def json_lines(lines: Iterator[Line]) -> Iterator[RawRow]:
    """Yield the object in each line; blank lines are skipped."""
    return ((_parse_json(text, where), where) for text, where in lines if text.strip())


def _parse_json(text: str, where: str) -> Mapping[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", where=where, remedy="Give one object a line") from error
    if not isinstance(values, dict):
        raise InputError("not a JSON object", where=where, remedy="Give one object a line")
    return values


_LIST = re.compile(r"\[.*\]|\(.*,.*\)|\{[^:]*\}", re.DOTALL)
_NUMPY_LIST = re.compile(r"\[\s*[-+.0-9e]+(\s+[-+.0-9e]+)+\s*\]")
_JSON_LINES = (".jsonl", ".ndjson")
_EXTENSIONS = (".tsv", ".csv", *_JSON_LINES, _PARQUET)


class NoColumnError(InputError):
    """A row has no such column."""


class _CellCountError(InputError):
    """A row has more or fewer cells than there are columns."""


def _extension(path: PathOrUrl) -> str:
    path = Path(str(path).lower())
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def _parquet_rows(path: PathOrUrl, columns: Sequence[Column], optional: Sequence[str]) -> Iterator[RawRow]:
    """Yield the cells of these columns of a Parquet file, without reading the others."""
    from cloze.data.arrow_files import open_parquet

    check_file(path)
    with open_parquet(str(path)) as file:
        names = dict.fromkeys(file.schema_arrow.names)
        wanted = [_find(names, column, f"{path}:1") for column in columns]
        wanted += [column for column in optional if column in names]
        number = 0
        for batch in file.iter_batches(_PARQUET_ROWS, columns=wanted):
            try:
                rows = batch.to_pylist()
            except (ValueError, OverflowError) as error:  # a time after the year 9999, or of nanoseconds
                what = f"a cell of this row or the {batch.num_rows - 1:,} after it cannot be read: {error}"
                raise InputError(what, where=f"{path}:{number + 1}") from error
            for values in rows:
                number += 1
                yield values, f"{path}:{number}"


def _check_header(names: list[str], where: str) -> list[str]:
    for number, name in enumerate(names, 1):
        refuse_carriage_return(name, where=where, what=f"the name of column {number}")
        if not name.strip() and number > 1:  # pandas gives the numbers of its rows no name
            what = f"column {number} has no name"
            raise InputError(what, where=where, remedy="The first line names the columns")
        if name in names[: number - 1]:
            raise InputError(f"two columns are called {name!r}", where=where)
    return names


def _by_column(header: Sequence[str], expected: str, cells: list[str], where: str) -> dict[str, str]:
    if len(cells) != len(header):
        what = f"{len(cells)} cells, {expected} {len(header)} columns"
        remedy = None
        if any(cell.startswith('"') for cell in cells):
            remedy = CALL_IT_CSV
        raise _CellCountError(what, where=where, remedy=remedy)
    return dict(zip(header, cells, strict=True))


def _find(cells: Mapping[str, Any], column: Column, where: str) -> str:
    names = (column,) if isinstance(column, str) else column
    for name in names:
        if name in cells:
            return name
    near = difflib.get_close_matches(names[0], cells, n=1, cutoff=0.5)
    columns = f"There are {', '.join(map(repr, cells))}" if cells else "The row is empty"
    remedy = f"Did you mean {near[0]!r}? {columns}" if near else columns
    raise NoColumnError(f"no column {_name(column)}", where=where, remedy=remedy)


def _name(column: Column) -> str:
    return " or ".join(map(repr, (column,) if isinstance(column, str) else column))


def _shown(value: Any) -> str:
    return json.dumps(value, default=str)[:40]
