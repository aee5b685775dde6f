"""Rows of Excel's .xlsx files, which the package openpyxl reads and writes."""

import datetime
import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any

from cloze.data.reading.delimited import by_column, check_header
from cloze.data.reading.files import MAX_WHOLE_BYTES, check_file, open_file
from cloze.data.reading.source import RawRow, Source
from cloze.errors import InputError
from cloze.optional_dependencies import import_package, require

EXTENSION = ".xlsx"
_MAX_ROWS, _MAX_CHARACTERS = 2**20, 2**15 - 1  # of a sheet with its first row, and of a cell
_EXACT = 10**15
"""Excel keeps 15 digits of a number."""
_WRITTEN_AS_CODE = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_CODE = re.compile("_x(00[01][0-9A-F]|005F|D[89A-F][0-9A-F]{2}|FFF[EF])_", re.IGNORECASE)
"""A character that XML cannot hold, or the underscore before a text like this code: ECMA-376, 22.9.2.19."""


def read_excel(source: Source) -> Iterator[RawRow]:
    """Yield the rows of a workbook's only sheet; columns to the right of the last name have no cells.

    Empty rows are left out. Dates are texts in ISO 8601, formulas their last results.
    """
    check_file(str(source))
    require(["openpyxl"], extra="excel", where=str(source))
    with open_file(str(source)) as stream:
        try:  # sheets are parsed row by row
            rows = _cells_of_rows(stream, str(source))
            first, where = next(rows, ([], f"{source}:1"))
            names = check_header(["" if cell is None else str(cell).strip() for cell in first], where)
            padded = ((cells + [None] * (len(names) - len(cells)), where) for cells, where in rows)
            yield from by_column(padded, names, "the first line names", "Name all columns")
        except InputError:
            raise
        except Exception as error:  # openpyxl raises those of zipfile, XML and many others
            reason = str(error).partition("\n")[0].rstrip(". ")
            what = f"cannot be read as Excel's {EXTENSION}: {reason}"
            raise InputError(what, where=source, remedy="Save it again, or as CSV") from error


def write_excel(path: Path, names: Sequence[str], rows: Iterable[Iterable[Any]], *, where: str) -> None:
    """Write rows of texts, numbers and None to the only sheet of a workbook; texts are never formulas."""
    openpyxl = import_package("openpyxl")
    workbook = openpyxl.Workbook(write_only=True)
    sheet = workbook.create_sheet()
    remedy = "Write a .csv instead"

    def cell(value: Any) -> Any:
        is_text = isinstance(value, str) or (isinstance(value, int) and abs(value) >= _EXACT)
        if not is_text:
            return value if not isinstance(value, float) or math.isfinite(value) else None
        if len(text := str(value)) > _MAX_CHARACTERS:
            what = f"a cell of {len(text):,} characters, and Excel's have at most {_MAX_CHARACTERS:,}"
            raise InputError(what, where=where, remedy=remedy)
        text = text.replace("\r\n", "\n")  # Excel's line ends
        text = _WRITTEN_AS_CODE.sub(lambda match: f"_x{ord(match[0]):04X}_", text)
        written = openpyxl.cell.WriteOnlyCell(sheet, text)
        written.data_type = "s"
        return written

    try:
        for number, row in enumerate(chain([names], rows), 1):
            if number > _MAX_ROWS:
                raise InputError(f"more than {_MAX_ROWS:,} rows, Excel's limit", where=where, remedy=remedy)
            sheet.append([cell(value) for value in row])
    finally:
        sheet.close()  # it has a temporary file
    workbook.save(path)


def _cells_of_rows(stream: IO[bytes], path: str) -> Iterator[tuple[list[Any], str]]:
    """Yield the cells of each row that is not empty, and its place."""
    with zipfile.ZipFile(stream) as archive:
        # the texts of its cells are in memory as a whole
        if sum(part.file_size for part in archive.infolist()) > MAX_WHOLE_BYTES:
            what = f"has over {MAX_WHOLE_BYTES // 10**6} MB once expanded, too large to read into memory as a whole"
            raise InputError(what, where=path, remedy="Split it, or save it as CSV")
    stream.seek(0)
    workbook = import_package("openpyxl").load_workbook(stream, read_only=True, data_only=True)
    sheets = [sheet for sheet in workbook.worksheets if any(map(_cells, sheet.iter_rows(values_only=True)))]
    if len(sheets) > 1:
        names = ", ".join(repr(sheet.title) for sheet in sheets)
        what = f"{len(sheets)} sheets have cells: {names}"
        raise InputError(what, where=path, remedy="Save the one to read as CSV, or remove the others")
    for number, row in enumerate(sheets[0].iter_rows(values_only=True) if sheets else (), 1):
        if cells := _cells(row):
            yield cells, f"{path}:{number}"


def _cells(row: Sequence[Any]) -> list[Any]:
    """Return the cells up to the last one that is not null; none of an empty row."""
    if all(cell in (None, "") for cell in row):
        return []
    cells = list(map(_cell, row))
    while cells[-1] is None:
        cells.pop()
    return cells


def _cell(cell: Any) -> Any:
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return _CODE.sub(lambda match: chr(int(match[1], 16)), cell) if isinstance(cell, str) else cell
