"""Rows of named cells from TSV, CSV, JSON, Parquet and Arrow. The first line of a TSV or CSV names the columns."""

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
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from cloze.data.compression import COMPRESSED
from cloze.data.delimited import (
    NAMED_SEPARATOR,
    QuotationMarks,
    find_separator,
    split_cells,
    split_rows,
)
from cloze.data.files import MAX_LINE_BYTES, Line, check_file, open_text, read_lines, read_text
from cloze.errors import DataWarning, InputError
from cloze.memory_file import MemoryFile, place_of, source_of
from cloze.remote_files import PathOrUrl, is_file, is_url
from cloze.text_encoding import refuse_carriage_return

Column: TypeAlias = str | tuple[str, ...]
"""The name of a column, or alternative names: the first that a file has is used."""
RawRow: TypeAlias = tuple[Mapping[str, Any], str]
"""The cells of a row by column, and "file:line"."""
Parsed = TypeVar("Parsed")

_PARQUET, _ARROW = ".parquet", ".arrow"
_ARROW_ROWS = 1024  # in memory at once, as Arrow has them
_PYTHON_ROWS = 16  # in memory at once as Python objects, each of at most MAX_LINE_BYTES
_BATCH_BYTES = 1 << 26
_SHOWN_ERRORS = 10
_SAMPLE_LINES = 20  # that tell a plain text from a table
_MAX_BROKEN_ROWS, _MAX_BROKEN_SHARE = 10, 0.01  # rows that may be left out


@dataclass(frozen=True, slots=True)
class Row:
    """The requested cells of a row by column, as the file has them, and "file:line"."""

    cells: Mapping[Column, Any]
    where: str
    names: Mapping[Column, str]
    """The column of the file for each requested column that may have several names."""
    number: int = 0
    """Of the row in the file, from 1, without the line that names the columns."""

    def text(self, column: Column) -> str:
        """Return a cell as text; InputError if it is null, a list or an object."""
        text = as_text(self.cells[column])
        if text is None:
            what = f"{self.names.get(column, column)!r} is {_shown(self.cells[column])}, not a text"
            is_nested = isinstance(self.cells[column], dict | list)
            remedy = "Choose a column of texts, or write this one as text" if is_nested else None
            raise InputError(what, where=self.where, remedy=remedy)
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


def is_arrow(path: PathOrUrl) -> bool:
    """Return whether a file has the name of a Parquet or Arrow file."""
    return _extension(path) in (_PARQUET, _ARROW)


def is_json(path: PathOrUrl) -> bool:
    """Return whether a file has the name .json, which may also be SQuAD's format."""
    return _extension(path) == ".json"


def read_rows(
    path: PathOrUrl,
    columns: Sequence[Column],
    *,
    is_optional: Callable[[str], bool] = lambda name: False,
    header: Sequence[str] | None = None,
    skip_broken: bool = False,
) -> Iterator[Row]:
    """Yield the rows of a table, one at a time, as `parse_rows` does."""
    return parse_rows(
        path, columns, lambda row: row, is_optional=is_optional, header=header, skip_broken=skip_broken
    )


def parse_rows(
    path: PathOrUrl,
    columns: Sequence[Column],
    parse: Callable[[Row], Parsed],
    *,
    is_optional: Callable[[str], bool] = lambda name: False,
    header: Sequence[str] | None = None,
    skip_broken: bool = False,
    leave_out: tuple[type[InputError], ...] | None = None,
) -> Iterator[Parsed]:
    """Yield what `parse` returns for each row of a table, one at a time.

    After the first bad row the others are only checked, and the error at the end names ten of them.

    Args:
        path: a .tsv, .csv, .jsonl, .ndjson, .json, .parquet or .arrow file; text may be compressed.
        columns: those to read; the file may have more.
        parse: raises `InputError` for a bad row.
        is_optional: tells whether another column of the file is read, too; a row may have no such cell.
        header: the names of the columns of a TSV whose first line is a row.
        skip_broken: leave out rows that have more or fewer cells than there are columns, if they are few.
        leave_out: kinds of errors whose rows are left out, with a warning that counts them; None: no flag asks for it.

    Raises:
        InputError: no such file, no rows, a missing column, or bad rows.
    """
    raw_rows, to_cells = _open_table(path, columns, is_optional, header)
    errors, left_out = BadRows(), BadRows()
    has_flag = leave_out is not None
    leave_out = (*(leave_out or ()), *([_CellCountError] if skip_broken else []))
    rows = 0
    try:
        for raw, where in raw_rows:
            rows += 1
            try:
                cells = to_cells(raw, where)
                names = {column: _find(cells, column, where) for column in columns}
                if len(cells) > 1 and all(name == cell for name, cell in cells.items()):
                    what = "this row has the names of the columns, as where two files are joined"
                    raise InputError(what, where=where, remedy="Remove this line")
                wanted = {column: cells[name] for column, name in names.items()}
                wanted |= {name: cells[name] for name in filter(is_optional, cells)}
                parsed = parse(Row(wanted, where, names, rows))
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
        can_be_skipped = has_flag and errors.count < rows
        raise errors.as_error("--skip-bad-rows leaves out such rows" if can_be_skipped else None)
    if not rows:
        raise InputError("holds no rows", where=path)
    if left_out.count == rows:
        raise left_out.as_error()
    left_out.warn(path, rows)


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

    def warn(self, path: PathOrUrl, rows: int) -> None:
        """Warn that they are left out of so many rows, if there are any."""
        if self.count:
            what = f"{self.count:,} of {rows:,} rows are left out: {self.describe()}"
            warnings.warn(DataWarning(f"{place_of(path)}: {what}"), stacklevel=2)

    def as_error(self, remedy: str | None = None) -> InputError:
        """Return one error for all of them, with a remedy if they have none."""
        first = self._first[0]
        first.remedy = first.remedy or remedy
        if self.count == 1:
            return first
        told = self.describe().removeprefix(f"{first.what}: ")
        what = f"{first.what} (the first of {self.count:,} bad rows: {told})"
        return InputError(what, where=first.where, remedy=first.remedy)


def _open_table(
    path: PathOrUrl,
    columns: Sequence[Column],
    is_optional: Callable[[str], bool],
    header: Sequence[str] | None,
) -> tuple[Iterator[tuple[Any, str]], Callable[[Any, str], Mapping[str, Any]]]:
    """Return the raw rows of a table with their places, and a function from these to cells by column."""
    extension = _extension(path)
    if extension in (_PARQUET, _ARROW):
        return _arrow_rows(path, columns, is_optional), lambda cells, where: cells
    if extension in _JSON:
        return read_json(path), as_object
    if extension not in _EXTENSIONS:
        remedy = f"Its name must end in {', '.join(_EXTENSIONS)}"
        raise InputError("not a table that cloze reads", where=path, remedy=remedy)
    lines = read_lines(path)
    if header is not None:
        known = header
        marks = QuotationMarks()
        to_cells = partial(_by_column, known, "a row has", marks.remedy)
        return marks.watch(split_rows(lines, "\t", len(known), quoted=False)), to_cells
    first, where = next(lines, ("", f"{path}:1"))
    if (named := NAMED_SEPARATOR.fullmatch(first)) is not None:
        first, where = next(lines, ("", f"{path}:2"))
    separator, quoted = find_separator(first, columns, extension)
    if named is not None:
        separator, quoted = named[1], True
    cells = split_cells(first, separator, where, lines, quoted=quoted) if first else []
    names = _check_header([cell.strip() for cell in cells], where)
    rows = split_rows(lines, separator, len(names), quoted=quoted)
    remedy = f"A cell with {separator!r} or a quotation mark is written in quotation marks"
    if quoted:
        return rows, partial(_by_column, names, "the first line names", lambda: remedy)
    marks = QuotationMarks()
    return marks.watch(rows), partial(_by_column, names, "the first line names", marks.remedy)


def read_texts_of_lines(path: PathOrUrl, text_column: Column = "text") -> Iterator[Line]:
    """Yield the lines of a plain text.

    Raises:
        InputError: there are none, or the first ones are those of a table.
    """
    lines = read_lines(path)
    sample = list(islice(lines, _SAMPLE_LINES))
    if not sample:
        raise InputError("contains no text", where=path)
    first, where = sample[0]
    names = {text_column} if isinstance(text_column, str) else set(text_column)
    if _JSON_OBJECT.match(first):
        raise InputError("JSON lines, not plain text", where=where, remedy="Call the file .jsonl")
    for separator, extension in (("\t", ".tsv"), (",", ".csv"), (";", ".csv")):
        cells = {cell.strip(' "') for cell in first.split(separator)}
        if len(cells) > 1 and cells & names and all(_COLUMN_NAME.fullmatch(cell) for cell in cells):
            what = "the first line names the columns of a table, which plain text does not have"
            raise InputError(what, where=where, remedy=f"Call the file {extension}")
    tabs = {text.count("\t") for text, _ in sample if text.strip()}
    if len(sample) > 1 and len(tabs) == 1 and 0 not in tabs:
        remedy = "Call the file .tsv, with names of the columns in its first line, or write spaces for tabs"
        raise InputError("columns with tabs between them, not plain text", where=where, remedy=remedy)
    yield from chain(sample, lines)


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
    if is_url(path) or is_json(path) or is_arrow(path):
        return None
    with Path(path).open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(partial(stream.read, 1 << 20), b""))


def json_lines(lines: Iterator[Line]) -> Iterator[RawRow]:
    """Yield the object in each line; blank lines are skipped."""
    return ((as_object(text, where), where) for text, where in lines if text.strip())


def read_json(path: PathOrUrl, lines: Iterator[Line] | None = None) -> Iterator[tuple[Any, str]]:
    """Yield the lines of JSON lines as text, or the items of a file that is one list.

    Args:
        path: the file.
        lines: its lines, if they are read already.

    Raises:
        InputError: a list cannot be parsed.
    """
    if lines is None and isinstance(path, MemoryFile):
        lines = read_lines(path)
    if lines is None:
        check_file(path)
        with open_text(str(path)) as (_, _, head):
            is_list = head.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"[")
        if not is_list:
            lines = read_lines(path)
    if lines is not None:
        first = next((line for line in lines if line[0].strip()), ("", ""))
        is_list = first[0].lstrip().startswith("[")
        lines = chain([first], lines)
    if not is_list:
        assert lines is not None
        yield from (line for line in lines if line[0].strip())
        return
    read = None if lines is None else list(lines)
    text = read_text(path) if read is None else "\n".join(line for line, _ in read)
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        if not str(error).startswith("Extra data"):
            remedy = "Give one object a line, or one list of objects"
            raise InputError(f"not JSON: {error}", where=path, remedy=remedy) from error
        items = None
    if items is None or (items and isinstance(items[0], str)):  # each line is a list
        yield from (line for line in read or read_lines(path) if line[0].strip())
        return
    for index, item in enumerate(items):
        where = f"{path}: [{index}]"
        if isinstance(item, str):  # not a line that is still to be parsed
            raise InputError("not a JSON object", where=where, remedy="Give a list of objects")
        yield item, where


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


_LIST = re.compile(r"\[.*\]|\(.*,.*\)|\{[^:]*\}", re.DOTALL)
_NUMPY_LIST = re.compile(r"\[\s*[-+.0-9e]+(\s+[-+.0-9e]+)+\s*\]")
_COLUMN_NAME = re.compile(r"[\w.#-]*")
_JSON_OBJECT = re.compile(r'\s*\{\s*"[^"]*"\s*:')
_JSON = (".jsonl", ".ndjson", ".json")
_EXTENSIONS = (".tsv", ".csv", *_JSON, _PARQUET, _ARROW)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class NoColumnError(InputError):
    """A row has no such column."""

    column: Column = ""


class _CellCountError(InputError):
    """A row has more or fewer cells than there are columns."""


def _extension(path: PathOrUrl) -> str:
    path = Path(str(path).lower())
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def _arrow_rows(
    path: PathOrUrl, columns: Sequence[Column], is_optional: Callable[[str], bool]
) -> Iterator[RawRow]:
    """Yield the cells of these columns of a Parquet or Arrow file, without those of the others."""
    from cloze.data.arrow_files import longest_cell, read_batches, read_schema

    check_file(path)
    names = dict.fromkeys(read_schema(str(path)).names)
    wanted = [_find(names, column, f"{path}:1") for column in columns]
    wanted += [name for name in filter(is_optional, names) if name not in wanted]
    number = 0
    for batch in read_batches(str(path), wanted, max_rows=_ARROW_ROWS, max_bytes=_BATCH_BYTES):
        if longest_cell(batch) > MAX_LINE_BYTES:
            what = f"a cell of over {MAX_LINE_BYTES // 10**6} MB in this row or the {batch.num_rows - 1:,} after it"
            raise InputError(what, where=f"{path}:{number + 1}", remedy="Split it into shorter texts")
        for start in range(0, batch.num_rows, _PYTHON_ROWS):
            part = batch.slice(start, _PYTHON_ROWS)
            try:
                rows = part.to_pylist()
            except (ValueError, OverflowError) as error:  # a time after the year 9999, or of nanoseconds
                what = f"a cell of this row or the {part.num_rows - 1:,} after it cannot be read: {error}"
                raise InputError(what, where=f"{path}:{number + 1}") from error
            for values in rows:
                number += 1
                yield values, f"{path}:{number}"


def _check_header(names: list[str], where: str) -> list[str]:
    for number, name in enumerate(names, 1):
        refuse_carriage_return(name, where=where, what=f"the name of column {number}")
        if not name.strip() and number > 1:  # pandas gives the numbers of its rows no name
            what = f"column {number} has no name"
            remedy = "Name it in the first line, or remove the separators at the ends of all lines"
            raise InputError(what, where=where, remedy=remedy)
        if name in names[: number - 1]:
            raise InputError(f"two columns are called {name!r}", where=where, remedy="Rename one of them")
    return names


def _by_column(
    header: Sequence[str], expected: str, remedy: Callable[[], str], cells: list[str], where: str
) -> dict[str, str]:
    if len(cells) != len(header):
        what = f"{len(cells)} cells, {expected} {len(header)} columns"
        raise _CellCountError(what, where=where, remedy=remedy())
    return dict(zip(header, cells, strict=True))


def _find(cells: Mapping[str, Any], column: Column, where: str) -> str:
    names = (column,) if isinstance(column, str) else column
    for name in names:
        if name in cells:
            return name
    near = difflib.get_close_matches(names[0], cells, n=1, cutoff=0.5)
    columns = f"There are {', '.join(map(repr, cells))}" if cells else "The row is empty"
    remedy = f"Did you mean {near[0]!r}? {columns}" if near else columns
    error = NoColumnError(f"no column {_name(column)}", where=where, remedy=remedy)
    error.column = column
    raise error


def _name(column: Column) -> str:
    return " or ".join(map(repr, (column,) if isinstance(column, str) else column))


def _shown(value: Any) -> str:
    return json.dumps(value, default=str)[:40]
