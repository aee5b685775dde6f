"""Split lines of TSV and CSV into cells, by the separator and the quotation marks that a file uses.

Columns are separated as in the first line. A table with tabs is quote-parsed if its name ends in .csv
or its first line is in quotation marks; in others a quotation mark is a character like any other, as in GLUE's files.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from cloze.data.reading.bad_rows import CellCountError
from cloze.data.reading.files import MAX_LINE_BYTES, Line
from cloze.data.reading.source import RawRow, Source
from cloze.errors import DataWarning, InputError
from cloze.text_encoding import refuse_carriage_return

DELIMITED = (".tsv", ".csv")
_CALL_IT_CSV = "If cells are in quotation marks, call the file .csv"
_TABS_REMEDY = f"{_CALL_IT_CSV}; otherwise replace tabs within a text by spaces"
_QUOTED_CELL = re.compile(r'"(?:[^"]|"")*"')
_SEPARATORS = "\t,;|"
_BEFORE_CLOSING_MARK = re.compile(r'[^"]*(?:""[^"]*)*')
"""The text before the closing quotation mark; quotation marks within a cell are doubled."""


def read_delimited(source: Source) -> Iterator[RawRow]:
    """Yield the rows of a TSV or CSV. An empty line is left out, or of tagged words a row without cells."""
    lines, options = source.lines_with_cr, source.options
    first, where = next(lines, ("", f"{source}:1"))
    first_line = first.rstrip("\r")
    extension = source.extension
    if extension not in DELIMITED:
        extension = ".tsv" if "\t" in first_line else ".csv"
    column_names = options.column_names
    expected = "`column_names` has" if column_names else "the first line names"
    if options.header and options.columns[0].find(dict.fromkeys(first_line.split("\t"))) is None:
        column_names, expected = options.header, "a row has"
    known = [] if column_names else [column.names for column in options.columns if column.is_required]
    separator, quoted = find_separator(first_line, known, extension, len(column_names) or None)
    quoted = quoted or options.tool is not None  # tools put JSON into quotation marks
    if column_names:
        lines = chain([(first, where)] if first_line else [], lines)
        cells = list(column_names)
    else:
        cells = split_cells(first_line, separator, where, lines, quoted=quoted) if first_line else []
    names = check_header([cell.strip().strip("\ufeff") for cell in cells], where)
    keep_empty = options.reader == "words"
    rows = split_rows(lines, separator, len(names), quoted=quoted, keep_empty=keep_empty)
    remedy = f"A cell with {separator!r} or a quotation mark is written in quotation marks"
    if not quoted:
        rows, remedy = _warn_of_marks(rows), _TABS_REMEDY
    return by_column(rows, names, expected, remedy, keep_empty=keep_empty)


def check_header(names: list[str], where: str) -> list[str]:
    """Return the names of columns; refuse two of one name, and an empty one but the first, of pandas' row numbers."""
    known: set[str] = set()
    for number, name in enumerate(names, 1):
        refuse_carriage_return(name, where=where, what=f"the name of column {number}")
        if not name.strip() and number > 1:
            what = f"column {number} has no name"
            remedy = "Name it in the first line, or remove the separators at the ends of all lines"
            raise InputError(what, where=where, remedy=remedy)
        if name in known:
            raise InputError(f"two columns are called {name!r}", where=where, remedy="Rename one of them")
        known.add(name)
    return names


def by_column(
    rows: Iterator[tuple[list[Any], str]],
    names: Sequence[str],
    expected: str,
    remedy: str,
    *,
    keep_empty: bool = False,
) -> Iterator[RawRow]:
    """Yield the cells of rows by the names of their columns; none of a blank row if such rows are kept."""
    width = len(names)
    for cells, where in rows:
        if keep_empty and not any(map(str.strip, cells)):
            yield {}, where
        elif len(cells) == width:
            yield dict(zip(names, cells, strict=True)), where
        else:
            what = f"{len(cells)} cells, {expected} {width} columns"
            yield CellCountError(what, where=where, remedy=remedy), where


def find_separator(
    first: str, columns: Sequence[Sequence[str]], extension: str, num_columns: int | None = None
) -> tuple[str, bool]:
    """Return the separator of a table by its first line, and whether cells may be in quotation marks.

    It is the one by which the line has the wanted columns; else the one that the line has most often. If the line is a
    row, `num_columns` decides.
    """
    usual = "\t" if extension == ".tsv" else ","

    def score(separator: str) -> tuple[bool, int, bool]:
        cells = {cell.strip('"') for cell in first.split(separator)}
        return all(cells & set(names) for names in columns), first.count(separator), separator == usual

    if num_columns is not None:
        # any mark that a line lacks would make one column of it
        marks = (usual, *_SEPARATORS) if num_columns > 1 else ()
        fitting = (mark for mark in marks if first.count(mark) == num_columns - 1)
        separator = next(fitting, usual)
    else:
        has_usual = bool(columns) and score(usual)[0]
        separator = usual if has_usual else max(_SEPARATORS, key=score)
    is_quoted_tsv = first.startswith('"') and first.endswith('"') and f'"{separator}"' in first
    return separator, extension != ".tsv" or separator != usual or is_quoted_tsv


def split_rows(
    lines: Iterator[Line], separator: str, num_columns: int, *, quoted: bool, keep_empty: bool = False
) -> Iterator[tuple[list[str], str]]:
    """Yield the cells of each row, and "file:line"; empty lines are left out unless `keep_empty`."""
    for text, where in lines:
        # an empty line is a row of a table with one column
        if text.rstrip("\r") or num_columns == 1 or keep_empty:
            yield split_cells(text, separator, where, lines, quoted=quoted), where


def split_cells(text: str, separator: str, where: str, lines: Iterator[Line], *, quoted: bool) -> list[str]:
    """Split a row; a cell in quotation marks may continue over the following lines, whose ends it keeps.

    Differs: Python's csv module refuses long cells, by a limit that can only be set for the whole process.
    """
    line = text.rstrip("\r")
    if not quoted or ('"' not in line and "\r" not in line):
        return line.split(separator)
    cells: list[str] = []
    position, line_end = 0, len(line)
    while True:
        if text.startswith('"', position):
            cell, text, position = _read_quoted(text, position + 1, where, lines)
            cells.append(cell)
            line_end = len(text.rstrip("\r"))
            if position < line_end and text[position] != separator:
                remedy = "Quotation marks in a cell are doubled"
                raise InputError(f"{separator!r} expected after '\"'", where=where, remedy=remedy)
        else:
            end = text.find(separator, position)
            cells.append(text[position : end if end >= 0 else line_end])
            refuse_carriage_return(cells[-1], where=where, what="a cell without quotation marks")
            position += len(cells[-1])
        if position == line_end:
            return cells
        position += 1


def _read_quoted(text: str, position: int, where: str, lines: Iterator[Line]) -> tuple[str, str, int]:
    """Return the rest of a quoted cell, its last line, and the position after the closing mark in that line."""
    parts: list[str] = []
    size = 0
    while True:
        end = _BEFORE_CLOSING_MARK.match(text, position).end()  # type: ignore[union-attr]  # it matches nothing, too
        parts.append(text[position:end])
        if end < len(text):
            return "\n".join(parts).replace('""', '"'), text, end + 1
        size += end + 1 - position
        following, _ = next(lines, (None, ""))
        if following is None or size > MAX_LINE_BYTES:
            remedy = "Quotation marks in a cell are doubled"
            raise InputError("a quotation mark is never closed", where=where, remedy=remedy)
        text, position = following, 0


def _warn_of_marks(rows: Iterator[tuple[list[str], str]]) -> Iterator[tuple[list[str], str]]:
    """Yield rows that are read without quote parsing; warn if all quotation marks in them are around cells.

    A program that quotes cells leaves no other marks; GLUE's files have them everywhere.
    """
    count, first, are_around_cells = 0, "", True
    for cells, where in rows:
        for cell in cells:
            if '"' in cell:
                count, first = count + 1, first or where
                are_around_cells = are_around_cells and _QUOTED_CELL.fullmatch(cell) is not None
        yield cells, where
    if count and are_around_cells:
        what = f"a cell in quotation marks is read as it is (the first of {count:,})"
        warnings.warn(DataWarning(f"{first}: {what}. {_CALL_IT_CSV}"), stacklevel=2)
