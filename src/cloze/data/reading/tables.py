"""Rows of named cells from TSV, CSV, JSON, Parquet and Arrow. The first line of a TSV or CSV names the columns."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TypeVar

from cloze.choices import AnnotationFormat, Clean
from cloze.data.reading.annotations import ANSWER, AnnotatedRow, annotated_row, check_annotated, find_tool
from cloze.data.reading.bad_rows import BadRows, NotAnnotatedError
from cloze.data.reading.class_names import KeepsNumbers
from cloze.data.reading.columns import Column, NoColumnError, find_columns
from cloze.data.reading.files import Line, extension_of, read_lines
from cloze.data.reading.json_rows import as_text, parse_list, show_value
from cloze.data.reading.memory import Data, MemoryRows
from cloze.data.reading.pdf_text import clean_pdf_text
from cloze.data.reading.table_files import CellCountError, RawTable, is_table, open_table
from cloze.errors import DataWarning, InputError
from cloze.remote_files import PathOrUrl
from cloze.tables import format_count
from cloze.text_encoding import UTF_8

Parsed = TypeVar("Parsed")

_MAX_BROKEN_ROWS, _MAX_BROKEN_SHARE = 10, 0.01  # rows that may be left out
_SAMPLE_LINES = 20
_COLUMN_NAME = re.compile(r"[\w.#-]*")
_JSON_OBJECT = re.compile(r'\s*\{\s*"[^"]*"\s*:')


@dataclass(frozen=True, slots=True)
class Row:
    """The requested cells of a row by the key of their column, as the data have them, and "file:line"."""

    cells: Mapping[str, Any]
    where: str
    names: Mapping[str, str]
    """The name in the data of each requested column."""
    number: int = 0
    """Of the row, from 1, without the line that names the columns."""
    labeled: bool = False
    """Whether labels are read."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """The other cells by the name of their column, if they are kept."""
    num_cleaned: int = 0
    """Changes in its texts, if they are cleaned."""

    def text(self, key: str) -> str:
        """Return a cell as text; InputError if it is null, a list or an object."""
        text = as_text(self.cells[key])
        if text is None:
            what = f"{self.name(key)!r} is {show_value(self.cells[key])}, not a text"
            is_nested = isinstance(self.cells[key], dict | list)
            remedy = "Choose a column of texts, or write this one as text" if is_nested else None
            raise InputError(what, where=self.where, remedy=remedy)
        return text

    def required(self, key: str) -> str:
        """Return the text of a cell that must not be blank."""
        text = self.text(key)
        if not text.strip():
            raise InputError(f"the cell {self.name(key)!r} is empty", where=self.where)
        return text

    def texts(self, key: str) -> list[str]:
        """Return a cell that is a list of texts, as JSON and Parquet have them, or such a list written as one text."""
        cell = self.cells[key]
        values = parse_list(cell) if isinstance(cell, str) else cell
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            what = f"{self.name(key)!r} is {show_value(cell)}, not a list of texts"
            raise InputError(what, where=self.where)
        return values

    def name(self, key: str) -> str:
        """Return the name that the data have for a column."""
        return self.names.get(key, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """What is read of a table, and how."""

    columns: tuple[Column, ...]
    """The table may have more."""
    is_also_read: Callable[[str], bool] = lambda name: False
    """Whether another column is read, too; a row may have no such cell."""
    keeps_others: bool = False
    """Whether a row has the cells of all other columns."""
    header: tuple[str, ...] = ()
    """The names of the columns of a TSV whose first line may be a row."""
    keeps_numbers: KeepsNumbers = lambda column, names: False
    """Which columns of classes that Parquet and Arrow name are read as numbers."""
    format: AnnotationFormat | None = None
    """The annotation tool that wrote the rows; None: recognized in JSON alone."""
    labeled: bool = False
    """Leave out rows that annotators rejected, ignored or skipped, with a warning that counts them."""
    may_be_lines: bool = False
    """Read a file that has no name of a table as plain text, whose lines are cells of the first column."""
    skip_broken: bool = False
    """Leave out rows that have more or fewer cells than there are columns, if they are few."""
    encoding: str | None = None
    """That of text files; None: UTF-8."""
    clean: Clean | None = None
    """Kind of text that the texts are cleaned as."""
    column_names: tuple[str, ...] = ()
    """The names of the columns of a TSV or CSV whose first line is a row."""
    can_name_columns: bool = False
    """Whether the user can say these names with `column_names`."""
    leave_out: tuple[type[InputError], ...] | None = None
    """Kinds of errors whose rows are left out, with a warning that counts them; None: no flag asks for it."""


def read_rows(
    source: Data, columns: Sequence[str], *, is_also_read: Callable[[str], bool] = lambda name: False
) -> Iterator[Row]:
    """Yield the rows of a table in UTF-8, one at a time, as `parse_rows` does."""
    config = TableConfig(columns=tuple(map(Column, columns)), is_also_read=is_also_read, encoding=UTF_8)
    return parse_rows(source, config, lambda row: row)


def parse_rows(
    source: Data, config: TableConfig, parse: Callable[[Row], Parsed], table: RawTable | None = None
) -> Iterator[Parsed]:
    """Yield what `parse` returns for each row of a table, one at a time.

    After the first bad row the others are only checked, and the error at the end names ten of them.

    Args:
        source: a .tsv, .csv, .jsonl, .ndjson, .json, .parquet or .arrow file, where text may be compressed; or rows in
            memory.
        parse: raises `InputError` for a bad row.
        table: the source, if it is open already.
    """
    raw_rows, to_cells, is_json = table or _open(source, config)
    errors, left_out = BadRows(), BadRows()
    has_flag, skip_broken = config.leave_out is not None, config.skip_broken
    leave_out: tuple[type[InputError], ...] = (NotAnnotatedError, *(config.leave_out or ()))
    leave_out += (CellCountError,) if skip_broken else ()
    rows = num_rejected_spans = num_cleaned = 0
    answers: dict[str, object] = {}
    try:
        for raw, where in raw_rows:
            rows += 1
            try:
                cells = to_cells(raw, where)
                tool = find_tool(cells) if is_json and config.format is None else config.format
                cells = annotated_row(cells, where, tool)
                row = _row(cells, config, where, rows, answers)
                parsed = parse(row)
            except InputError as error:
                if rows == 1 and isinstance(error, NoColumnError) and not isinstance(error, leave_out):
                    if config.can_name_columns and not config.column_names and _is_delimited(source):
                        names = ",".join(column.names[0] for column in config.columns if column.is_required)
                        error.remedy = f"{error.remedy}; if line 1 is a row, name all: `column_names={names}`"
                    raise
                (left_out if isinstance(error, leave_out) else errors).add(error)
                if skip_broken and left_out.count > max(_MAX_BROKEN_ROWS, _MAX_BROKEN_SHARE * rows):
                    what = (
                        f"{left_out.count} of {rows} rows have more or fewer cells than the first line names"
                    )
                    raise InputError(what, where=where) from None
            else:
                num_cleaned += row.num_cleaned
                num_rejected_spans += cells.num_rejected_spans if isinstance(cells, AnnotatedRow) else 0
                if not errors.count:
                    yield parsed
    except InputError as error:  # the lines after it cannot be read
        errors.add(error)
        raise errors.as_error() from error
    if errors.count:
        can_be_skipped = has_flag and errors.count < rows
        raise errors.as_error("`skip_bad_rows` leaves out such rows" if can_be_skipped else None, rows=rows)
    if not rows:
        raise InputError("holds no rows", where=source)
    if left_out.count == rows:
        raise left_out.as_error(rows=rows)
    left_out.warn(source, rows)
    _warn_of_changes(source, config, num_cleaned, num_rejected_spans)


def _warn_of_changes(source: Data, config: TableConfig, num_cleaned: int, num_rejected_spans: int) -> None:
    if config.clean == "pdf":
        changes = format_count(num_cleaned, "change")
        remark = f"{source}: `clean=pdf` made {changes}: hyphens at line ends, ligatures, soft hyphens"
        warnings.warn(DataWarning(remark), stacklevel=3)
    if num_rejected_spans and config.labeled and config.is_also_read("spans"):
        remark = f"{source}: {format_count(num_rejected_spans, 'rejected span')} left out"
        warnings.warn(DataWarning(remark), stacklevel=3)


def _open(source: Data, config: TableConfig) -> RawTable:
    if config.may_be_lines and not isinstance(source, MemoryRows) and not is_table(source):
        text = config.columns[0]
        return RawTable(
            _read_texts_of_lines(source, text, config.encoding), lambda line, where: {text.names[0]: line}
        )

    def is_read(name: str) -> bool:
        return config.keeps_others or config.is_also_read(name) or config.format is not None

    return open_table(
        source,
        config.columns if config.format is None else (),
        is_read,
        config.header,
        config.keeps_numbers,
        encoding=config.encoding,
        column_names=config.column_names,
    )


def _is_delimited(source: Data) -> bool:
    return not isinstance(source, MemoryRows) and extension_of(source) in (".tsv", ".csv")


def _row(
    cells: Mapping[str, Any], config: TableConfig, where: str, number: int, answers: dict[str, object]
) -> Row:
    """Return the cells of a row that are asked for; `answers` has those of earlier rows by `AnnotatedRow.task`."""
    if config.labeled and not any(column.find({ANSWER: ""}) for column in config.columns):
        check_annotated(cells, where, answers)
    names = find_columns(cells, config.columns, where)
    if len(cells) > 1 and all(name == cell for name, cell in cells.items()):
        what = "this row has the names of the columns, as where two files are joined"
        raise InputError(what, where=where, remedy="Remove this line")
    wanted = {key: cells[name] for key, name in names.items()}
    wanted |= {name: cells[name] for name in filter(config.is_also_read, cells)}
    used = names.values() if config.keeps_others else cells
    others = {name: cell for name, cell in cells.items() if name not in used}
    num_cleaned = 0
    if config.clean == "pdf":
        for column in config.columns:
            if column.kind in ("text", "texts") and column.key in wanted:
                wanted[column.key], changes = _clean_pdf(wanted[column.key])
                num_cleaned += changes
    return Row(wanted, where, names, number, config.labeled, others, num_cleaned)


def _clean_pdf(cell: Any) -> tuple[Any, int]:
    """Return a text or a list of texts without marks of a page's layout, and the number of changes."""
    if isinstance(cell, list):
        cleaned = list(map(_clean_pdf, cell))
        return [text for text, _ in cleaned], sum(changes for _, changes in cleaned)
    return clean_pdf_text(cell) if isinstance(cell, str) else (cell, 0)


def _read_texts_of_lines(path: PathOrUrl, text_column: Column, encoding: str | None = None) -> Iterator[Line]:
    """Yield the lines of a plain text; refuse a table."""
    lines = read_lines(path, encoding)
    sample = list(islice(lines, _SAMPLE_LINES))
    if not sample:
        raise InputError("contains no text", where=path)
    first, where = sample[0]
    if _JSON_OBJECT.match(first):
        raise InputError("JSON lines, not plain text", where=where, remedy="Call the file .jsonl")
    names = set(text_column.names)
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
