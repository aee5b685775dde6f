"""Rows of Excel's .xlsx files, which the package openpyxl reads."""

import datetime
import zipfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

from cloze.data.reading.delimited import by_column, check_header
from cloze.data.reading.files import MAX_WHOLE_BYTES, check_file, open_file
from cloze.data.reading.source import RawRow, Source
from cloze.errors import InputError
from cloze.optional_dependencies import import_package, require
from cloze.remote_files import PathOrUrl

EXTENSION = ".xlsx"


def read_excel(source: Source) -> Iterator[RawRow]:
    """Yield the rows of a workbook's only sheet; columns to the right of the last name have no cells."""
    rows = _read_cells(str(source))
    first, where = next(rows, ([], f"{source}:1"))
    while first and first[-1] is None:
        first.pop()
    names = check_header(["" if cell is None else str(cell).strip() for cell in first], where)

    def without_empty_ends() -> Iterator[tuple[list[Any], str]]:
        for cells, where in rows:
            while len(cells) > len(names) and cells[-1] is None:
                cells.pop()
            yield cells, where

    return by_column(without_empty_ends(), names, "the first line names", lambda: "Name all columns")


def _read_cells(path: PathOrUrl) -> Iterator[tuple[list[Any], str]]:
    """Yield the cells of each row of a workbook's only sheet, and its place; empty rows are left out.

    Dates are texts in ISO 8601, formulas their last results.
    """
    check_file(path)
    require(["openpyxl"], extra="excel", where=path)
    with open_file(str(path)) as stream:
        rows = _rows(stream, path)
        while True:
            try:  # sheets are parsed row by row
                row = next(rows, None)
            except InputError:
                raise
            except Exception as error:  # openpyxl raises those of zipfile, XML and many others
                what = (
                    f"cannot be read as Excel's {EXTENSION}: {str(error).partition(chr(10))[0].rstrip('. ')}"
                )
                raise InputError(what, where=path, remedy="Save it again, or as CSV") from error
            if row is None:
                return
            yield row


def _rows(stream: IO[bytes], path: PathOrUrl) -> Iterator[tuple[list[Any], str]]:
    _check_size(stream, path)
    workbook = import_package("openpyxl").load_workbook(stream, read_only=True, data_only=True)
    sheets = [
        sheet for sheet in workbook.worksheets if not all(map(_is_empty, sheet.iter_rows(values_only=True)))
    ]
    if len(sheets) > 1:
        names = ", ".join(repr(sheet.title) for sheet in sheets)
        what = f"{len(sheets)} sheets have cells: {names}"
        raise InputError(what, where=path, remedy="Save the one to read as CSV, or remove the others")
    for number, row in enumerate(sheets[0].iter_rows(values_only=True) if sheets else (), 1):
        if not _is_empty(row):
            yield [_plain(cell) for cell in row], f"{path}:{number}"


def _check_size(stream: IO[bytes], path: PathOrUrl) -> None:
    """Refuse a file that is too large once expanded: the texts of its cells are in memory as a whole."""
    with zipfile.ZipFile(stream) as archive:
        if sum(part.file_size for part in archive.infolist()) > MAX_WHOLE_BYTES:
            what = f"has over {MAX_WHOLE_BYTES // 10**6} MB once expanded, too large to read into memory as a whole"
            raise InputError(what, where=path, remedy="Split it, or save it as CSV")
    stream.seek(0)


def _is_empty(row: Iterable[Any]) -> bool:
    return all(cell in (None, "") for cell in row)


def _plain(cell: Any) -> Any:
    return cell.isoformat() if isinstance(cell, datetime.date | datetime.time) else cell
