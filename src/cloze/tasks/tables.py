"""Rows of named cells, from TSV, CSV and JSON lines. The first line of a TSV or CSV names the columns.

A TSV is never quote-parsed: a quotation mark is a character like any other, as in GLUE's files.
"""

import csv
import difflib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TypeAlias

from cloze.errors import InputError

Line: TypeAlias = tuple[str, str]
"""The text of a line, and its file:line."""
RawRow: TypeAlias = tuple[Mapping[str, Any], str]
"""The cells of a row by column, and its file:line."""

_MAX_LINE_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the cells asked for by column, and file:line."""

    cells: Mapping[str, str]
    where: str

    def required(self, column: str) -> str:
        """Return a cell that must hold something.

        Raises:
            InputError: it is empty.
        """
        if not self.cells[column].strip():
            raise InputError(f"the cell {column!r} is empty", where=self.where)
        return self.cells[column]


def is_table(path: Path) -> bool:
    """Return whether a file's name is that of a table."""
    return Path(path).suffix in FORMATS


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a table, one at a time.

    Args:
        path: a .tsv, .csv, .jsonl or .ndjson file.
        columns: those wanted; the file may have more.

    Raises:
        InputError: no such file, no rows, a column that is not there, or a line that cannot be read.
    """
    path = Path(path)
    if not is_table(path):
        remedy = f"Its name must end in {', '.join(FORMATS)}"
        raise InputError("not a table that cloze reads", where=path, remedy=remedy)
    row = None
    for cells, where in FORMATS[path.suffix](read_lines(path)):
        row = Row({column: _cell(cells, column, where) for column in columns}, where)
        yield row
    if row is None:
        raise InputError("holds no rows", where=path)


def read_lines(path: Path) -> Iterator[Line]:
    r"""Yield the lines of a UTF-8 file, or of stdin where `path` is -, without their ends; only \n ends a line.

    Raises:
        InputError: no such file, not text in UTF-8, or a line over the limit.
    """
    name = "stdin" if str(path) == "-" else path
    try:
        with _open(path) as stream:
            for number, raw in enumerate(iter(partial(stream.readline, _MAX_LINE_BYTES + 1), b""), 1):
                where = f"{name}:{number}"
                if len(raw) > _MAX_LINE_BYTES:
                    what = f"a line of over {_MAX_LINE_BYTES // 10**6} MB"
                    raise InputError(what, where=where, remedy="Give a text a line")
                if b"\0" in raw:
                    remedy = "Give UTF-8 text"
                    raise InputError(
                        "a NUL byte: this is no text file, or one in UTF-16", where=where, remedy=remedy
                    )
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    what = f"not UTF-8 at byte {error.start + 1} of the line"
                    remedy = "Convert it: iconv -f latin1 -t utf8"
                    raise InputError(what, where=where, remedy=remedy) from error
                yield text.removesuffix("\n").removesuffix("\r"), where
    except OSError as error:
        raise InputError((error.strerror or str(error)).lower(), where=name) from error


def _open(path: Path) -> AbstractContextManager[IO[bytes]]:
    return nullcontext(sys.stdin.buffer) if str(path) == "-" else Path(path).open("rb")


def _tsv(lines: Iterator[Line]) -> Iterator[RawRow]:
    header: list[str] | None = None
    for text, where in lines:
        cells = text.split("\t")
        if header is None:
            header = _checked_header(cells, where)
        elif text:
            yield _by_column(header, cells, where), where


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
        elif cells:
            yield _by_column(header, cells, starts[0]), starts[0]


def _json_lines(lines: Iterator[Line]) -> Iterator[RawRow]:
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
    {".tsv": _tsv, ".csv": _csv, ".jsonl": _json_lines, ".ndjson": _json_lines}
)
"""By the end of the file's name, how lines become rows."""


def _checked_header(names: list[str], where: str) -> list[str]:
    for number, name in enumerate(names, 1):
        if not name.strip():
            what = f"column {number} has no name"
            raise InputError(what, where=where, remedy="The first line names the columns")
        if name in names[: number - 1]:
            raise InputError(f"two columns are called {name!r}", where=where)
    return names


def _by_column(header: list[str], cells: list[str], where: str) -> dict[str, str]:
    if len(cells) != len(header):
        what = f"{len(cells)} cells, the first line names {len(header)} columns"
        raise InputError(what, where=where)
    return dict(zip(header, cells, strict=True))


def _cell(cells: Mapping[str, Any], column: str, where: str) -> str:
    if column not in cells:
        near = difflib.get_close_matches(column, cells, n=1, cutoff=0.5)
        there = f"There are {', '.join(map(repr, cells))}" if cells else "The row is empty"
        remedy = f"Did you mean {near[0]!r}? {there}" if near else there
        raise InputError(f"no column {column!r}", where=where, remedy=remedy)
    value = cells[column]
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):  # a label may be a number or true
        return json.dumps(value)
    raise InputError(f"{column!r} is {json.dumps(value)[:40]}, not a text", where=where)
