"""Split lines of TSV and CSV into cells, by the separator and the quotation marks that a file uses.

Columns are separated as in the first line. A table with tabs is quote-parsed if its name ends in .csv
or its first line is in quotation marks; in others a quotation mark is a character like any other, as in GLUE's files.
"""

import re
import warnings
from collections.abc import Iterator, Sequence

from cloze.data.reading.files import MAX_LINE_BYTES, Line
from cloze.errors import DataWarning, InputError
from cloze.text_encoding import refuse_carriage_return

NAMED_SEPARATOR = re.compile(r"sep=([\t,;|])")  # a first line that Excel writes
CALL_IT_CSV = "If cells are in quotation marks, call the file .csv"
_SEPARATORS = "\t,;|"
_QUOTED_JSON = re.compile(r'(?:^|\t)"(?:\[\{|\{)""')
"""Matches a row of a TSV with a cell of JSON in quotation marks, which are doubled in it."""
_BEFORE_CLOSING_MARK = re.compile(r'[^"]*(?:""[^"]*)*')
"""The text before the closing quotation mark; quotation marks within a cell are doubled."""


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


def has_quoted_json(row: str) -> bool:
    """Return whether a row of a TSV has JSON in quotation marks, as annotation tools export it."""
    return _QUOTED_JSON.search(row) is not None


def split_rows(
    lines: Iterator[Line], separator: str, num_columns: int, *, quoted: bool, keep_empty: bool = False
) -> Iterator[tuple[list[str], str]]:
    """Yield the cells of each row, and "file:line"; empty lines are left out unless `keep_empty`."""
    for text, where in lines:
        if text or num_columns == 1 or keep_empty:  # an empty line is a row of a table with one column
            yield split_cells(text, separator, where, lines, quoted=quoted), where


def split_cells(text: str, separator: str, where: str, lines: Iterator[Line], *, quoted: bool) -> list[str]:
    """Split a row; a cell in quotation marks may continue over the following lines.

    Differs: Python's csv module refuses long cells, by a limit that can only be set for the whole process.
    """
    if not quoted or ('"' not in text and "\r" not in text):
        return text.split(separator)
    cells: list[str] = []
    position = 0
    while True:
        if text.startswith('"', position):
            cell, text, position = _read_quoted(text, position + 1, where, lines)
            cells.append(cell)
            if text[position : position + 1] not in ("", separator):
                remedy = "Quotation marks in a cell are doubled"
                raise InputError(f"{separator!r} expected after '\"'", where=where, remedy=remedy)
        else:
            end = text.find(separator, position)
            cells.append(text[position : end if end >= 0 else None])
            refuse_carriage_return(cells[-1], where=where, what="a cell without quotation marks")
            position += len(cells[-1])
        if position == len(text):
            return cells
        position += 1


def _read_quoted(text: str, position: int, where: str, lines: Iterator[Line]) -> tuple[str, str, int]:
    """Read the rest of a quoted cell.

    Returns:
        The cell, its last line, and the position after the closing quotation mark in that line.
    """
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


class QuotationMarks:
    """The evidence that a table read without quote parsing needs it.

    A program that quotes cells with a tab, a quotation mark or a line end, and Excel also those with a comma, leaves no
    quotation mark outside of such cells; GLUE's files have them everywhere.
    """

    def __init__(self) -> None:
        self._num_quoted = self._num_doubled = self._num_others = 0
        self._first_quoted = self._first_doubled = ""
        self._is_open = False

    def watch(self, rows: Iterator[tuple[list[str], str]]) -> Iterator[tuple[list[str], str]]:
        """Yield rows, and warn at the end if their cells look as if they were quoted."""
        for cells, where in rows:
            for cell in cells:
                if '"' in cell:
                    self._add(cell, where)
            yield cells, where
        if self._num_doubled or (self._num_quoted and not self._num_others):
            if self._num_doubled:
                first, count, how = self._first_doubled, self._num_doubled, ", with doubled ones inside,"
            else:
                first, count, how = self._first_quoted, self._num_quoted, ""
            what = f"a cell in quotation marks{how} is read as it is (the first of {count:,})"
            warnings.warn(DataWarning(f"{first}: {what}. {CALL_IT_CSV}"), stacklevel=2)

    def _add(self, cell: str, where: str) -> None:
        inner = cell[1:-1]
        is_quoted = len(cell) > 1 and cell.startswith('"') and cell.endswith('"')
        if is_quoted and '"' not in inner.replace('""', ""):
            self._num_quoted += 1
            self._first_quoted = self._first_quoted or where
            if '""' in inner:
                self._num_doubled += 1
                self._first_doubled = self._first_doubled or where
        else:
            self._num_others += 1
            self._is_open = self._is_open or (cell.startswith('"') and cell.count('"') % 2 == 1)

    def remedy(self) -> str:
        """Return the remedy for a row with too many or too few cells."""
        return (
            CALL_IT_CSV
            if self._is_open
            else "A tab separates two cells: replace tabs within a text by spaces"
        )
