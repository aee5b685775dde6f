"""Rows of named cells from TSV, CSV, JSON, Parquet and Arrow. The first line of a TSV or CSV names the columns."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cloze.data.reading.annotations import ANNOTATION_TOOLS, ANSWER, annotators_differ, find_tool
from cloze.data.reading.bad_rows import BadRows, CellCountError, NotAnnotatedError
from cloze.data.reading.columns import NoColumnError, find_columns
from cloze.data.reading.delimited import DELIMITED
from cloze.data.reading.json_rows import as_text, parse_list, show_value
from cloze.data.reading.source import RawRow, Source
from cloze.data.reading.text_layout import clean_pdf_text
from cloze.errors import DataWarning, InputError
from cloze.tables import format_count

Parsed = TypeVar("Parsed")

_MAX_BROKEN_ROWS, _MAX_BROKEN_SHARE = 10, 0.01  # rows that may be left out


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
    raw: Mapping[str, Any] = field(default_factory=dict)
    """All cells that were read, by the name of their column."""
    num_cleaned: int = 0
    """Changes in its texts, if they are cleaned."""

    @property
    def others(self) -> dict[str, Any]:
        """The cells of columns that are not requested, by name."""
        used = self.names.values()
        return {name: cell for name, cell in self.raw.items() if name not in used}

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


def parse_rows(
    source: Source, parse: Callable[[Row], Parsed], rows: Iterable[RawRow] | None = None
) -> Iterator[Parsed]:
    """Yield what `parse` returns for each row of a source, one at a time.

    After the first bad row the others are only checked, and the error at the end names ten of them.

    `rows` may differ from those of the source.
    """
    config = source.options
    errors, left_out = BadRows(), BadRows()
    leave_out: tuple[type[InputError], ...] = (NotAnnotatedError, *(config.leave_out or ()))
    leave_out += (CellCountError,) if config.skip_broken else ()
    number = num_rejected_spans = num_cleaned = 0
    answers: dict[str, object] = {}
    try:
        for number, (cells, where) in enumerate(source.rows() if rows is None else rows, 1):
            try:
                row = _row(cells, source, where, number, answers)
                parsed = parse(row)
            except InputError as error:
                if number == 1 and isinstance(error, NoColumnError) and not isinstance(error, leave_out):
                    raise
                (left_out if isinstance(error, leave_out) else errors).add(error)
                if config.skip_broken and left_out.count > max(_MAX_BROKEN_ROWS, _MAX_BROKEN_SHARE * number):
                    what = f"{left_out.count} of {number} rows have more or fewer cells than the first line names"
                    raise InputError(what, where=where) from None
            else:
                num_cleaned += row.num_cleaned
                num_rejected_spans += getattr(row.raw, "num_rejected_spans", 0)
                if not errors.count:
                    yield parsed
    except InputError as error:  # the lines after it cannot be read
        errors.add(error)
        raise errors.as_error() from error
    if errors.count:
        can_be_skipped = config.leave_out is not None and errors.count < number
        raise errors.as_error("`skip_bad_rows` leaves out such rows" if can_be_skipped else None, rows=number)
    if not number:
        raise InputError("holds no rows", where=source)
    if left_out.count == number:
        raise left_out.as_error(rows=number)
    left_out.warn(source, number)
    _warn_of_changes(source, num_cleaned, num_rejected_spans)


def _warn_of_changes(source: Source, num_cleaned: int, num_rejected_spans: int) -> None:
    config = source.options
    if config.clean == "pdf":
        changes = format_count(num_cleaned, "change")
        remark = f"{source}: `clean=pdf` made {changes}: hyphens at line ends, ligatures, soft hyphens"
        warnings.warn(DataWarning(remark), stacklevel=3)
    if num_rejected_spans and config.labeled and config.is_also_read("spans"):
        remark = f"{source}: {format_count(num_rejected_spans, 'rejected span')} left out"
        warnings.warn(DataWarning(remark), stacklevel=3)


def _row(
    cells: Mapping[str, Any] | InputError, source: Source, where: str, number: int, answers: dict[str, object]
) -> Row:
    """Return the wanted cells of a row; `answers` maps `AnnotatedRow.task` to the answers of earlier rows."""
    if isinstance(cells, InputError):
        raise cells
    config, tool = source.options, source.tool
    if tool is None and source.format.is_json:
        tool = find_tool(cells)
    if tool is not None:
        cells = ANNOTATION_TOOLS[tool].read(cells, where)
        if config.labeled and not any(column.find({ANSWER: ""}) for column in config.columns):
            if cells.problem is not None:
                raise cells.problem
            if cells.task is not None and answers.setdefault(cells.task, cells.answers) != cells.answers:
                raise annotators_differ("the annotators of a text differ", where)
    try:
        names = find_columns(cells, config.columns, where)
    except NoColumnError as error:
        can_be_named = source.format.extensions == DELIMITED and any(c.setting for c in config.columns)
        if number == 1 and can_be_named and not config.column_names:
            all_names = ",".join(column.names[0] for column in config.columns if column.is_required)
            error.remedy = f"{error.remedy}; if line 1 is a row, name all: `column_names={all_names}`"
        raise
    if len(cells) > 1 and all(name == cell for name, cell in cells.items()):
        what = "this row has the names of the columns, as where two files are joined"
        raise InputError(what, where=where, remedy="Remove this line")
    wanted = {key: cells[name] for key, name in names.items()}
    wanted |= {name: cells[name] for name in filter(config.is_also_read, cells)}
    num_cleaned = 0
    if config.clean == "pdf":
        texts = {column.key for column in config.columns if column.kind in ("text", "texts")}
        for key in texts & wanted.keys():
            wanted[key], changes = _clean_pdf(wanted[key])
            num_cleaned += changes
    return Row(wanted, where, names, number, config.labeled, cells, num_cleaned)


def _clean_pdf(cell: Any) -> tuple[Any, int]:
    """Return a text or a list of texts without marks of a page's layout, and the number of changes."""
    if isinstance(cell, list):
        cleaned = list(map(_clean_pdf, cell))
        return [text for text, _ in cleaned], sum(changes for _, changes in cleaned)
    return clean_pdf_text(cell) if isinstance(cell, str) else (cell, 0)
