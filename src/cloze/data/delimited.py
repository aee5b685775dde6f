"""Split lines of TSV and CSV into cells, by the separator and the quotation marks that a file uses.

Columns are parted by the separator that the first line has. A table with tabs is quote-parsed if its name ends in .csv
or its first line is in quotation marks; in others a quotation mark is a character like any other, as in GLUE's files.
"""

import re
import warnings
from collections.abc import Iterator, Sequence

from cloze.data.files import MAX_LINE_BYTES, Line
from cloze.errors import DataWarning, InputError
from cloze.text_encoding import refuse_carriage_return

NAMED_SEPARATOR = re.compile(r"sep=([\t,;|])")  # a first line that Excel writes
CALL_IT_CSV = "If cells are in quotation marks, call the file .csv"
_SEPARATORS = "\t,;|"


def find_separator(first: str, columns: Sequence[str | tuple[str, ...]], extension: str) -> tuple[str, bool]:
    """Return the separator of a table by its first line, and whether cells may be in quotation marks.

    It is the one by which the line has the wanted columns; else the one that the line has most often.
    """
    usual = "\t" if extension == ".tsv" else ","
    names = [(column,) if isinstance(column, str) else column for column in columns]

    def score(separator: str) -> tuple[bool, int, bool]:
        cells = {cell.strip('"') for cell in first.split(separator)}
        return all(cells & set(name) for name in names), first.count(separator), separator == usual

    has_usual = score(usual)[0]
    separator = usual if has_usual else max(_SEPARATORS, key=score)
    is_quoted_tsv = first.startswith('"') and first.endswith('"') and f'"{separator}"' in first
    return separator, extension != ".tsv" or separator != usual or is_quoted_tsv


def split_rows(
    lines: Iterator[Line], separator: str, num_columns: int, *, quoted: bool
) -> Iterator[tuple[list[str], str]]:
    """Yield the cells of each row, and "file:line"."""
    for text, where in lines:
        if text or num_columns == 1:  # an empty line is a row of a table with one column
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
            end = text.find('"', position + 1)
            while end < 0 or text.startswith('""', end):
                searched = len(text) if end < 0 else end + 2
                if end < 0:
                    following, _ = next(lines, (None, ""))
                    if following is None or len(text) > MAX_LINE_BYTES:
                        remedy = "Quotation marks in a cell are doubled"
                        raise InputError("a quotation mark is never closed", where=where, remedy=remedy)
                    text += "\n" + following
                end = text.find('"', searched)
            cells.append(text[position + 1 : end].replace('""', '"'))
            position = end + 1
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


def warn_of_quotation_marks(rows: Iterator[tuple[list[str], str]]) -> Iterator[tuple[list[str], str]]:
    """Yield rows without quote parsing; warn at the end if some of their cells look as if they needed it."""
    count = 0
    first = ""
    for cells, where in rows:
        count += sum(map(_is_quoted, cells))
        if count and not first:
            first = where
        yield cells, where
    if count:
        what = (
            f"a cell in quotation marks, with doubled ones inside, is read as it is (the first of {count:,})"
        )
        warnings.warn(DataWarning(f"{first}: {what}. {CALL_IT_CSV}"), stacklevel=2)


def _is_quoted(cell: str) -> bool:
    """Return whether a cell begins and ends with a quotation mark, and all between them are doubled."""
    if not (cell.startswith('"') and cell.endswith('"') and '""' in cell[1:-1]):
        return False
    return '"' not in cell[1:-1].replace('""', "")
