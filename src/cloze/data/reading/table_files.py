"""Open tables by their names: TSV, CSV, JSON, Parquet, Arrow, Excel, globs, and directories of the library datasets."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

from cloze.data.reading.annotations import json_row
from cloze.data.reading.class_names import KeepsNumbers, find_class_names, name_classes
from cloze.data.reading.columns import Column, find_columns
from cloze.data.reading.delimited import (
    NAMED_SEPARATOR,
    QuotationMarks,
    find_separator,
    has_quoted_json,
    split_cells,
    split_rows,
)
from cloze.data.reading.directories import dataset_files, glob_files
from cloze.data.reading.excel_files import EXTENSION as EXCEL
from cloze.data.reading.excel_files import read_cells
from cloze.data.reading.files import (
    MAX_LINE_BYTES,
    Line,
    check_file,
    extension_of,
    read_lines,
)
from cloze.data.reading.json_rows import RawRow, read_json
from cloze.data.reading.memory import Data, MemoryRows
from cloze.errors import InputError
from cloze.remote_files import PathOrUrl, is_file
from cloze.text_encoding import refuse_carriage_return

_PARQUET, _ARROW = ".parquet", ".arrow"
_JSON = (".jsonl", ".ndjson", ".json")
EXTENSIONS = (".tsv", ".csv", *_JSON, _PARQUET, _ARROW, EXCEL)
_ARROW_ROWS = 1024  # in memory at once, as Arrow has them
_PYTHON_ROWS = 16  # in memory at once as Python objects, each of at most MAX_LINE_BYTES
_BATCH_BYTES = 1 << 26


class CellCountError(InputError):
    """A row has more or fewer cells than there are columns."""


class RawTable(NamedTuple):
    """An open table."""

    rows: Iterator[tuple[Any, str]]
    """Its rows as they are written, and their places."""
    to_cells: Callable[[Any, str], Mapping[str, Any]]
    """Returns the cells of such a row by column."""
    is_json: bool = False
    """Whether rows of annotation tools are recognized."""


def is_table(source: Data) -> bool:
    """Return whether a source has rows: a file with the name of a table, a data set, or data in memory."""
    return isinstance(source, MemoryRows) or extension_of(source) in EXTENSIONS or is_arrow(source)


def is_arrow(path: Data) -> bool:
    """Return whether a source has the name of a Parquet or Arrow file, or is a directory of such."""
    return extension_of(path) in (_PARQUET, _ARROW) or bool(dataset_files(path))


def is_excel(path: Data) -> bool:
    """Return whether a source has the name of an Excel file."""
    return extension_of(path) == EXCEL


def is_json(path: Data) -> bool:
    """Return whether a source has the name .json, which may also be SQuAD's format."""
    return extension_of(path) == ".json"


def count_rows(path: Data) -> int | None:
    """Return the number of rows for a progress bar; None if only reading them would tell."""
    if isinstance(path, MemoryRows):
        return len(path.rows)
    if extension_of(path) != _PARQUET or not is_file(path):
        return None
    from cloze.data.reading.arrow_files import open_parquet

    try:
        with open_parquet(str(path)) as parquet:
            return int(parquet.metadata.num_rows)
    except InputError:
        return None


def open_table(
    path: Data,
    columns: Sequence[Column],
    is_also_read: Callable[[str], bool],
    header: Sequence[str],
    keeps_numbers: KeepsNumbers,
    *,
    encoding: str | None = None,
    column_names: Sequence[str] = (),
) -> RawTable:
    """Open a table.

    Args:
        path: a file, a glob, a directory of a data set, or rows in memory.
        columns: the columns that are read of Parquet and Arrow, and show the separator of others.
        header: the names of the columns of a TSV whose first line may be a row.
        keeps_numbers: which columns of classes are read as numbers.
        encoding: that of text, if it is not UTF-8.
        column_names: the names of the columns of a TSV or CSV whose first line is a row.
    """
    if isinstance(path, MemoryRows):
        return RawTable(iter(path), json_row, is_json=True)
    if files := glob_files(path):
        open_one = partial(open_table, encoding=encoding, column_names=column_names)
        tables = (open_one(file, columns, is_also_read, header, keeps_numbers) for file in files)
        return RawTable(
            (((table.to_cells, raw), where) for table in tables for raw, where in table.rows),
            lambda raw, where: raw[0](raw[1], where),
            is_json=extension_of(files[0]) in _JSON,
        )
    extension = extension_of(path)
    if is_arrow(path):
        from cloze.data.reading.arrow_files import read_schema

        files = dataset_files(path)
        if not files:
            check_file(path)
        schema = read_schema(files[0] if files else str(path))
        class_names = find_class_names(schema, keeps_numbers)
        rows = _arrow_rows(path, schema.names, columns, is_also_read)
        return RawTable(rows, lambda cells, where: name_classes(cells, class_names, where))
    if extension in _JSON:
        return RawTable(read_json(path, read_lines(path, encoding)), json_row, is_json=True)
    if is_excel(path):
        return _open_excel(path)
    if extension not in EXTENSIONS:
        remedy = f"Its name must end in {', '.join(EXTENSIONS)}"
        raise InputError("not a table that cloze reads", where=path, remedy=remedy)
    lines = read_lines(path, encoding)
    if header:
        first = list(islice(lines, 1))
        lines = chain(first, lines)
        if not first or columns[0].find(dict.fromkeys(first[0][0].split("\t"))) is None:
            marks = QuotationMarks()
            to_cells = partial(_by_column, header, "a row has", marks.remedy)
            return RawTable(marks.watch(split_rows(lines, "\t", len(header), quoted=False)), to_cells)
    return open_delimited(path, lines, columns, column_names=column_names)


def open_delimited(
    path: Data,
    lines: Iterator[Line],
    columns: Sequence[Column],
    *,
    keep_empty: bool = False,
    column_names: Sequence[str] = (),
) -> RawTable:
    """Open a TSV or CSV; its raw rows are lists of cells.

    Args:
        lines: its lines; the first names the columns.
        columns: some names that show the separator.
        column_names: the names of the columns, if the first line is a row.
    """
    first, where = next(lines, ("", f"{path}:1"))
    if (named := NAMED_SEPARATOR.fullmatch(first)) is not None:
        first, where = next(lines, ("", f"{path}:2"))
    extension = extension_of(path)
    if extension not in (".tsv", ".csv"):
        extension = ".tsv" if "\t" in first else ".csv"
    known = [] if column_names else [column.names for column in columns if column.is_required]
    separator, quoted = find_separator(first, known, extension, len(column_names) or None)
    if named is not None:
        separator, quoted = named[1], True
    if not quoted:
        second = list(islice(lines, 1))
        lines = chain(second, lines)
        first_rows = [*([first] if column_names else []), *(text for text, _ in second)]
        quoted = any(map(has_quoted_json, first_rows))
    if column_names:
        lines = chain([(first, where)] if first else [], lines)
        cells = list(column_names)
    else:
        cells = split_cells(first, separator, where, lines, quoted=quoted) if first else []
    names = _check_header([cell.strip().strip("\ufeff") for cell in cells], where)
    rows = split_rows(lines, separator, len(names), quoted=quoted, keep_empty=keep_empty)
    remedy = f"A cell with {separator!r} or a quotation mark is written in quotation marks"
    expected = "`column_names` has" if column_names else "the first line names"
    if quoted:
        return RawTable(rows, partial(_by_column, names, expected, lambda: remedy))
    marks = QuotationMarks()
    return RawTable(marks.watch(rows), partial(_by_column, names, expected, marks.remedy))


def _open_excel(path: PathOrUrl) -> RawTable:
    """Open an Excel file; columns to the right of the last name have no cells."""
    rows = read_cells(path)
    first, where = next(rows, ([], f"{path}:1"))
    while first and first[-1] is None:
        first.pop()
    names = _check_header(["" if cell is None else str(cell).strip() for cell in first], where)

    def to_cells(cells: list[Any], where: str) -> dict[str, Any]:
        while len(cells) > len(names) and cells[-1] is None:
            cells.pop()
        return _by_column(names, "the first line names", lambda: "Name all columns", cells, where)

    return RawTable(rows, to_cells)


def _arrow_rows(
    path: PathOrUrl, names: Iterable[str], columns: Sequence[Column], is_also_read: Callable[[str], bool]
) -> Iterator[RawRow]:
    """Yield the cells of these columns of a Parquet or Arrow file, without those of the others."""
    from cloze.data.reading.arrow_files import longest_cell, python_rows, read_batches

    names = dict.fromkeys(names)
    wanted = [*find_columns(dict.fromkeys(names), columns, f"{path}:1").values()]
    optional = {name for column in columns if not column.is_required and (name := column.find(names))}
    wanted += [name for name in names if (name in optional or is_also_read(name)) and name not in wanted]
    if not wanted:
        others = ", ".join(map(repr, names))
        raise InputError("no column has a known name", where=f"{path}:1", remedy=f"There are {others}")
    number = 0
    batches = (
        read_batches(file, wanted, max_rows=_ARROW_ROWS, max_bytes=_BATCH_BYTES)
        for file in dataset_files(path) or [str(path)]
    )
    for batch in chain.from_iterable(batches):
        if longest_cell(batch) > MAX_LINE_BYTES:
            what = f"a cell of over {MAX_LINE_BYTES // 10**6} MB in this row or the {batch.num_rows - 1:,} after it"
            raise InputError(what, where=f"{path}:{number + 1}", remedy="Split it into shorter texts")
        left = batch.num_rows
        try:
            for rows in python_rows(batch, max_rows=_PYTHON_ROWS, max_bytes=_BATCH_BYTES):
                for values in rows:
                    number += 1
                    yield values, f"{path}:{number}"
                left -= len(rows)
        except (ValueError, OverflowError) as error:  # a time after the year 9999, or of nanoseconds
            others = min(left, _PYTHON_ROWS) - 1
            what = f"a cell of this row or the {others:,} after it cannot be read: {error}"
            raise InputError(what, where=f"{path}:{number + 1}") from error


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
    header: Sequence[str], expected: str, remedy: Callable[[], str], cells: list[Any], where: str
) -> dict[str, Any]:
    if len(cells) != len(header):
        what = f"{len(cells)} cells, {expected} {len(header)} columns"
        raise CellCountError(what, where=where, remedy=remedy())
    return dict(zip(header, cells, strict=True))
