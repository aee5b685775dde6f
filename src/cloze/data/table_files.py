"""Open a table by its name: TSV, CSV, JSON, Parquet or Arrow, and find its columns."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from cloze.data.annotations import annotated_row
from cloze.data.class_names import KeepsNumbers, find_class_names, name_classes
from cloze.data.compression import COMPRESSED
from cloze.data.delimited import NAMED_SEPARATOR, QuotationMarks, find_separator, split_cells, split_rows
from cloze.data.files import MAX_LINE_BYTES, Line, check_file, extension_of, read_lines
from cloze.data.json_rows import RawRow, read_json
from cloze.errors import InputError
from cloze.memory_file import MemoryFile
from cloze.remote_files import PathOrUrl, is_file, is_url
from cloze.text_encoding import refuse_carriage_return

Column: TypeAlias = str | tuple[str, ...]
"""The name of a column, or alternative names: the first that a file has is used."""

_PARQUET, _ARROW = ".parquet", ".arrow"
_JSON = (".jsonl", ".ndjson", ".json")
_EXTENSIONS = (".tsv", ".csv", *_JSON, _PARQUET, _ARROW)
_ARROW_ROWS = 1024  # in memory at once, as Arrow has them
_PYTHON_ROWS = 16  # in memory at once as Python objects, each of at most MAX_LINE_BYTES
_BATCH_BYTES = 1 << 26


class NoColumnError(InputError):
    """A row has no such column."""

    column: Column = ""


class CellCountError(InputError):
    """A row has more or fewer cells than there are columns."""


def is_tsv(path: PathOrUrl) -> bool:
    """Return whether a file has the name of a TSV."""
    return extension_of(path) == ".tsv"


def is_table(path: PathOrUrl) -> bool:
    """Return whether a file has the name of a table."""
    return extension_of(path) in _EXTENSIONS


def is_arrow(path: PathOrUrl) -> bool:
    """Return whether a file has the name of a Parquet or Arrow file."""
    return extension_of(path) in (_PARQUET, _ARROW)


def is_json(path: PathOrUrl) -> bool:
    """Return whether a file has the name .json, which may also be SQuAD's format."""
    return extension_of(path) == ".json"


def count_rows(path: PathOrUrl) -> int | None:
    """Return the approximate number of rows of a table for a progress bar; None if only reading it would tell."""
    if isinstance(path, MemoryFile):
        return len(path.rows)
    if not (is_table(path) and is_file(path)) or Path(str(path).lower()).suffix in COMPRESSED:
        return None
    if extension_of(path) == _PARQUET:
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


def open_table(
    path: PathOrUrl,
    columns: Sequence[Column],
    is_optional: Callable[[str], bool],
    header: Sequence[str] | None,
    keeps_numbers: KeepsNumbers,
) -> tuple[Iterator[tuple[Any, str]], Callable[[Any, str], Mapping[str, Any]]]:
    """Return the raw rows of a table with their places, and a function from these to cells by column."""
    extension = extension_of(path)
    if extension in (_PARQUET, _ARROW):
        from cloze.data.arrow_files import read_schema

        check_file(path)
        schema = read_schema(str(path))
        class_names = find_class_names(schema, keeps_numbers)
        rows = _arrow_rows(path, schema.names, columns, is_optional)
        return rows, lambda cells, where: name_classes(cells, class_names, where)
    if extension in _JSON:
        return read_json(path), annotated_row
    if extension not in _EXTENSIONS:
        remedy = f"Its name must end in {', '.join(_EXTENSIONS)}"
        raise InputError("not a table that cloze reads", where=path, remedy=remedy)
    lines = read_lines(path)
    if header is not None:
        known = header
        marks = QuotationMarks()
        to_cells = partial(_by_column, known, "a row has", marks.remedy)
        return marks.watch(split_rows(lines, "\t", len(known), quoted=False)), to_cells
    return open_delimited(path, lines, columns)


def open_delimited(
    path: PathOrUrl, lines: Iterator[Line], columns: Sequence[Column], *, keep_empty: bool = False
) -> tuple[Iterator[tuple[list[str], str]], Callable[[list[str], str], Mapping[str, Any]]]:
    """Return the cells of each row of a TSV or CSV, and a function from these to cells by column.

    Args:
        path: the file.
        lines: its lines; the first names the columns.
        columns: some names that show the separator.
        keep_empty: whether empty lines are rows.
    """
    first, where = next(lines, ("", f"{path}:1"))
    if (named := NAMED_SEPARATOR.fullmatch(first)) is not None:
        first, where = next(lines, ("", f"{path}:2"))
    extension = extension_of(path)
    if extension not in (".tsv", ".csv"):
        extension = ".tsv" if "\t" in first else ".csv"
    separator, quoted = find_separator(first, columns, extension)
    if named is not None:
        separator, quoted = named[1], True
    cells = split_cells(first, separator, where, lines, quoted=quoted) if first else []
    names = _check_header([cell.strip().strip("\ufeff") for cell in cells], where)
    rows = split_rows(lines, separator, len(names), quoted=quoted, keep_empty=keep_empty)
    remedy = f"A cell with {separator!r} or a quotation mark is written in quotation marks"
    if quoted:
        return rows, partial(_by_column, names, "the first line names", lambda: remedy)
    marks = QuotationMarks()
    return marks.watch(rows), partial(_by_column, names, "the first line names", marks.remedy)


def _arrow_rows(
    path: PathOrUrl, names: Iterable[str], columns: Sequence[Column], is_optional: Callable[[str], bool]
) -> Iterator[RawRow]:
    """Yield the cells of these columns of a Parquet or Arrow file, without those of the others."""
    from cloze.data.arrow_files import longest_cell, read_batches

    names = dict.fromkeys(names)
    wanted = [find_column(names, column, f"{path}:1") for column in columns]
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
    known: set[str] = set()
    for number, name in enumerate(names, 1):
        refuse_carriage_return(name, where=where, what=f"the name of column {number}")
        if not name.strip() and number > 1:  # pandas gives the numbers of its rows no name
            what = f"column {number} has no name"
            remedy = "Name it in the first line, or remove the separators at the ends of all lines"
            raise InputError(what, where=where, remedy=remedy)
        if name in known:
            raise InputError(f"two columns are called {name!r}", where=where, remedy="Rename one of them")
        known.add(name)
    return names


def _by_column(
    header: Sequence[str], expected: str, remedy: Callable[[], str], cells: list[str], where: str
) -> dict[str, str]:
    if len(cells) != len(header):
        what = f"{len(cells)} cells, {expected} {len(header)} columns"
        raise CellCountError(what, where=where, remedy=remedy())
    return dict(zip(header, cells, strict=True))


def find_column(cells: Mapping[str, Any], column: Column, where: str) -> str:
    """Return the name that a column has among the cells of a row, or raise `NoColumnError`."""
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
