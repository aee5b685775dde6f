"""Rows of named cells, from TSV, CSV, JSON lines and Parquet. The first line of a TSV or CSV names the columns.

A TSV is never quote-parsed: a quotation mark is a character like any other, as in GLUE's files.
"""

import csv
import difflib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow
import pyarrow.parquet

from cloze.corpus.streams import COMPRESSED, MAX_LINE_BYTES, STDIN, open_bytes
from cloze.corpus.tables import open_for_arrow
from cloze.errors import InputError
from cloze.stores import Place, is_file, is_folder, is_url

Column: TypeAlias = str | tuple[str, ...]
"""The name of a column; or several, of which the first that a file has is meant."""
Line: TypeAlias = tuple[str, str]
"""The text of a line, and its file:line."""
RawRow: TypeAlias = tuple[Mapping[str, Any], str]
"""The cells of a row by column, and its file:line."""

_PARQUET = ".parquet"
_PARQUET_ROWS = 1024  # in memory at once
_FEW_BROKEN, _SHARE_BROKEN = 10, 0.01  # rows that may be left out

csv.field_size_limit(MAX_LINE_BYTES)  # as of a line: the library's own limit would refuse a long text


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the cells asked for by column, as the file has them, and file:line."""

    cells: Mapping[Column, Any]
    where: str

    def text(self, column: Column) -> str:
        """Return a cell as text.

        Raises:
            InputError: it is null, a list or a table.
        """
        text = as_text(self.cells[column])
        if text is None:
            what = f"{_name(column)} is {_shown(self.cells[column])}, not a text"
            raise InputError(what, where=self.where)
        return text

    def required(self, column: Column) -> str:
        """Return the text of a cell that must hold something.

        Raises:
            InputError: it is empty.
        """
        text = self.text(column)
        if not text.strip():
            raise InputError(f"the cell {_name(column)} is empty", where=self.where)
        return text

    def texts(self, column: Column) -> list[str]:
        """Return a cell that is a list of texts, as JSON and Parquet have them.

        Raises:
            InputError: it is something else.
        """
        values = self.cells[column]
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise InputError(f"{_name(column)} is {_shown(values)}, not a list of texts", where=self.where)
        return values


def as_text(value: Any) -> str | None:
    """Return a text, or a number or truth value as JSON writes it, since a label may be one; None of anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    return None


def is_tsv(path: Place) -> bool:
    """Return whether a file's name is that of a table with tabs."""
    return _kind(path) == ".tsv"


def is_table(path: Place) -> bool:
    """Return whether a file's name is that of a table."""
    return _kind(path) in FORMATS or _kind(path) == _PARQUET


def check_is_text(path: Place) -> None:
    """Refuse what is no plain text by its name, which would else be read as if every line of it were one.

    Raises:
        InputError: it is JSON by its name.
    """
    if _kind(path) == ".json":
        raise InputError("not a text", where=path, remedy=f"A table's name ends in {', '.join(_TABLES)}")


def read_rows(
    path: Place,
    columns: Sequence[Column],
    *,
    header: Sequence[str] | None = None,
    skip_broken: bool = False,
) -> Iterator[Row]:
    """Yield the rows of a table, one at a time.

    Args:
        path: a .tsv, .csv, .jsonl, .ndjson or .parquet file; the lines of text may be compressed.
        columns: those wanted; the file may have more.
        header: the names of the columns of a TSV whose first line is a row.
        skip_broken: leave out the rows of a TSV that have more or fewer cells than there are columns, if those are few.

    Raises:
        InputError: no such file, no rows, a column that is not there, or a line that cannot be read.
    """
    kind = _kind(path)
    if kind == _PARQUET:
        rows = _parquet(path, columns)
    elif kind == ".tsv":
        rows = _tsv(read_lines(path), header, skip_broken=skip_broken)
    elif kind in FORMATS:
        rows = FORMATS[kind](read_lines(path))
    else:
        remedy = f"Its name must end in {', '.join(_TABLES)}"
        raise InputError("not a table that cloze reads", where=path, remedy=remedy)
    row = None
    for cells, where in rows:
        row = Row({column: cells[_find(cells, column, where)] for column in columns}, where)
        yield row
    if row is None:
        raise InputError("holds no rows", where=path)


def count_rows(path: Place) -> int | None:
    """Return about how many rows a table has, for a progress bar; None where only reading it would tell.

    Raises:
        InputError: the store that has it does not answer.
    """
    if not (is_table(path) and is_file(path)) or Path(str(path).lower()).suffix in COMPRESSED:
        return None
    if _kind(path) == _PARQUET:
        try:
            with open_for_arrow(str(path)) as source:
                return int(pyarrow.parquet.read_metadata(source).num_rows)
        except (pyarrow.ArrowException, OSError):
            return None
    if is_url(path):
        return None
    with Path(path).open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(partial(stream.read, 1 << 20), b""))


def read_lines(path: Place) -> Iterator[Line]:
    r"""Yield the lines of a UTF-8 file, or of stdin where `path` is -, without their ends; only \n ends a line.

    Raises:
        InputError: no such file, not text in UTF-8, or a line over the limit.
    """
    name = "stdin" if str(path) == STDIN else str(path)
    check_file(path)
    with open_bytes(str(path)) as (stream, _):
        for number, raw in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES + 1), b""), 1):
            where = f"{name}:{number}"
            if len(raw) > MAX_LINE_BYTES:
                what = f"a line of over {MAX_LINE_BYTES // 10**6} MB"
                raise InputError(what, where=where, remedy="Give a text a line")
            if b"\0" in raw:
                remedy = "Give UTF-8 text"
                what = "a NUL byte: this is no text file, or one in UTF-16"
                raise InputError(what, where=where, remedy=remedy)
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                what = f"not UTF-8 at byte {error.start + 1} of the line"
                remedy = "Convert it: iconv -f latin1 -t utf8"
                raise InputError(what, where=where, remedy=remedy) from error
            yield text.removesuffix("\n").removesuffix("\r"), where


def check_file(path: Place) -> None:
    """Refuse what is neither a file nor stdin.

    Raises:
        InputError: it is a directory, or nothing.
    """
    if str(path) != STDIN and not is_file(path):
        raise InputError("is a directory" if is_folder(path) else "no such file", where=path)


def _kind(path: Place) -> str:
    path = Path(str(path).lower())
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def _tsv(
    lines: Iterator[Line], header: Sequence[str] | None = None, *, skip_broken: bool = False
) -> Iterator[RawRow]:
    expected = "the first line names" if header is None else "a row has"
    rows = broken = 0
    for text, where in lines:
        cells = text.split("\t")
        if header is None:
            header = _checked_header(cells, where)
        elif text or len(header) == 1:  # an empty line is a row where that has one cell
            rows += 1
            if skip_broken and len(cells) != len(header):
                broken += 1
                if broken > max(_FEW_BROKEN, _SHARE_BROKEN * rows):
                    what = f"{broken} of {rows} rows have more or fewer cells than the first line names"
                    raise InputError(what, where=where)
            else:
                yield _by_column(header, cells, where, expected), where


def _csv(lines: Iterator[Line]) -> Iterator[RawRow]:
    starts: list[str] = []  # of the lines of this row: a quoted cell may hold line ends

    def texts() -> Iterator[str]:
        for text, where in lines:
            starts.append(where)
            yield text + "\n"

    header: list[str] | None = None
    reader = csv.reader(texts(), strict=True)
    while True:
        starts.clear()
        try:
            cells = next(reader, None)
        except csv.Error as error:
            unclosed = "unexpected end of data" in str(error)
            what = "a quotation mark is never closed" if unclosed else str(error)
            raise InputError(what, where=starts[0], remedy="Quotation marks in a cell are doubled") from error
        if cells is None:
            return
        if header is None:
            header = _checked_header(cells, starts[0])
        elif cells or len(header) == 1:
            yield _by_column(header, cells or [""], starts[0]), starts[0]


def read_objects(path: Place) -> Iterator[RawRow]:
    """Yield the objects of JSON lines.

    Raises:
        InputError: no such file, or a line that is no object.
    """
    yield from json_lines(read_lines(path))


def json_lines(lines: Iterator[Line]) -> Iterator[RawRow]:
    """Yield the object that each line is; empty lines are passed over.

    Raises:
        InputError: a line is no object.
    """
    for text, where in lines:
        if not text.strip():
            continue
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"not JSON: {error}", where=where, remedy="Give one object a line") from error
        if not isinstance(values, dict):
            raise InputError("not a JSON object", where=where, remedy="Give one object a line")
        yield values, where


FORMATS: Mapping[str, Callable[[Iterator[Line]], Iterator[RawRow]]] = MappingProxyType(
    {".tsv": _tsv, ".csv": _csv, ".jsonl": json_lines, ".ndjson": json_lines}
)
"""By the end of the file's name, how lines become rows."""
_TABLES = (*FORMATS, _PARQUET)


def _parquet(path: Place, columns: Sequence[Column]) -> Iterator[RawRow]:
    """Yield the cells of these columns of a Parquet file, the others unread; file:row stands for file:line."""
    check_file(path)
    try:
        with open_for_arrow(str(path)) as source, pyarrow.parquet.ParquetFile(source) as file:
            there = dict.fromkeys(file.schema_arrow.names)
            wanted = [_find(there, column, f"{path}:1") for column in columns]
            number = 0
            for batch in file.iter_batches(_PARQUET_ROWS, columns=wanted):
                for values in _objects(batch, f"{path}:{number + 1}"):
                    number += 1
                    yield values, f"{path}:{number}"
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"not a Parquet file: {error}", where=path) from error


def _objects(batch: pyarrow.RecordBatch, where: str) -> list[dict[str, Any]]:
    """Return rows as objects of Python, which knows no time beyond the year 9999 and no nanoseconds."""
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except (ValueError, OverflowError) as error:
        what = f"a cell of this row or the {batch.num_rows - 1:,} after it cannot be read: {error}"
        raise InputError(what, where=where) from error
    return rows


def _checked_header(names: list[str], where: str) -> list[str]:
    for number, name in enumerate(names, 1):
        if not name.strip() and number > 1:  # pandas gives the numbers of its rows no name
            what = f"column {number} has no name"
            raise InputError(what, where=where, remedy="The first line names the columns")
        if name in names[: number - 1]:
            raise InputError(f"two columns are called {name!r}", where=where)
    return names


def _by_column(
    header: Sequence[str], cells: list[str], where: str, expected: str = "the first line names"
) -> dict[str, str]:
    if len(cells) != len(header):
        what = f"{len(cells)} cells, {expected} {len(header)} columns"
        raise InputError(what, where=where)
    return dict(zip(header, cells, strict=True))


def _find(cells: Mapping[str, Any], column: Column, where: str) -> str:
    names = (column,) if isinstance(column, str) else column
    for name in names:
        if name in cells:
            return name
    near = difflib.get_close_matches(names[0], cells, n=1, cutoff=0.5)
    there = f"There are {', '.join(map(repr, cells))}" if cells else "The row is empty"
    remedy = f"Did you mean {near[0]!r}? {there}" if near else there
    raise InputError(f"no column {_name(column)}", where=where, remedy=remedy)


def _name(column: Column) -> str:
    return " or ".join(map(repr, (column,) if isinstance(column, str) else column))


def _shown(value: Any) -> str:
    return json.dumps(value, default=str)[:40]
