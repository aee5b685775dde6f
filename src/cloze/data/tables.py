"""Rows of named cells from TSV, CSV, JSON, Parquet and Arrow. The first line of a TSV or CSV names the columns."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cloze.data.annotations import ANSWER, annotated_row, check_annotated
from cloze.data.bad_rows import BadRows, NotAnnotatedError
from cloze.data.class_names import KeepsNumbers, keep_no_numbers
from cloze.data.json_rows import as_text, parse_list
from cloze.data.table_files import CellCountError, Column, NoColumnError, find_column, open_table
from cloze.errors import InputError
from cloze.remote_files import PathOrUrl

Parsed = TypeVar("Parsed")

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


def read_rows(
    path: PathOrUrl,
    columns: Sequence[Column],
    *,
    is_optional: Callable[[str], bool] = lambda name: False,
    header: Sequence[str] | None = None,
    skip_broken: bool = False,
    keeps_numbers: KeepsNumbers = keep_no_numbers,
) -> Iterator[Row]:
    """Yield the rows of a table, one at a time, as `parse_rows` does."""
    return parse_rows(
        path,
        columns,
        lambda row: row,
        is_optional=is_optional,
        header=header,
        skip_broken=skip_broken,
        keeps_numbers=keeps_numbers,
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
    keeps_numbers: KeepsNumbers = keep_no_numbers,
    labeled: bool = False,
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
        keeps_numbers: tells which columns of classes that Parquet and Arrow name are read as numbers.
        labeled: leave out rows that annotators rejected, ignored or skipped, with a warning that counts them.

    Raises:
        InputError: no such file, no rows, a missing column, or bad rows.
    """
    has_answers = labeled and ANSWER not in columns

    def is_read(name: str) -> bool:
        return is_optional(name) or (has_answers and name == ANSWER)

    raw_rows, to_cells = open_table(path, columns, is_read, header, keeps_numbers)
    errors, left_out = BadRows(), BadRows()
    has_flag = leave_out is not None
    leave_out = (NotAnnotatedError, *(leave_out or ()), *([CellCountError] if skip_broken else []))
    rows = 0
    try:
        for raw, where in raw_rows:
            rows += 1
            try:
                cells = annotated_row(to_cells(raw, where), where)
                parsed = parse(_row(cells, columns, is_optional, where, rows, has_answers=has_answers))
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
        raise errors.as_error("--skip-bad-rows leaves out such rows" if can_be_skipped else None, rows=rows)
    if not rows:
        raise InputError("holds no rows", where=path)
    if left_out.count == rows:
        raise left_out.as_error(rows=rows)
    left_out.warn(path, rows)


def _row(
    cells: Mapping[str, Any],
    columns: Sequence[Column],
    is_optional: Callable[[str], bool],
    where: str,
    number: int,
    *,
    has_answers: bool,
) -> Row:
    if has_answers:
        check_annotated(cells)
    names = {column: find_column(cells, column, where) for column in columns}
    if len(cells) > 1 and all(name == cell for name, cell in cells.items()):
        what = "this row has the names of the columns, as where two files are joined"
        raise InputError(what, where=where, remedy="Remove this line")
    wanted: dict[Column, Any] = {column: cells[name] for column, name in names.items()}
    wanted |= {name: cells[name] for name in filter(is_optional, cells)}
    return Row(wanted, where, names, number)


def _shown(value: Any) -> str:
    return json.dumps(value, default=str)[:40]
