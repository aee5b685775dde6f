"""Write rows and vectors: JSON lines, CSV, TSV, Excel and Parquet, as the ending of the file's name says.

In CSV and TSV all texts are in quotation marks, so that tabs and line ends in cells are read back. In tables a list or
an object is JSON in one cell, and probabilities have a column per class.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from cloze.data.reading.compression import COMPRESSED
from cloze.data.reading.excel_files import EXTENSION, write_excel
from cloze.data.reading.files import JSON_LINES
from cloze.errors import InputError
from cloze.file_io import to_json_text
from cloze.optional_dependencies import require
from cloze.progress import SILENT, Progress
from cloze.remote_files import PathOrUrl, check_output_file, write_file_to
from cloze.tables import format_count
from cloze.tokenization.unicode import replace_lone_surrogates

if TYPE_CHECKING:  # not needed to print predictions
    import pyarrow

PROBABILITY = "probability_"
"""Prefix of a class in the name of the column with its probability."""
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_ENDINGS = (*_SEPARATORS, *JSON_LINES, ".parquet", EXTENSION)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_ROWS_AT_ONCE = 4096
_INTEGER_BITS = 63  # without the sign; a column with larger numbers is text

Rows = Iterable[Mapping[str, Any]]


def check_output(output: PathOrUrl | None, *, overwrite: bool, source: PathOrUrl) -> None:
    """Check that rows can be written to a file; None is stdout."""
    if output is None:
        return
    ending = _ending(output := str(output))
    if ending in COMPRESSED:
        remedy = "Leave out the last suffix, and compress the file afterwards"
        raise InputError("output is not compressed", where=output, remedy=remedy)
    if ending and ending not in _ENDINGS:
        what = f"the ending {ending!r} names no format"
        raise InputError(what, where=output, remedy=f"End the name in {', '.join(_ENDINGS)}")
    if ending == EXTENSION:
        require(["openpyxl"], extra="excel", where=output)
    check_output_file(output, overwrite=overwrite, source=source)


def check_csv_safe(*outputs: str | Path | None) -> None:
    """Check that there are outputs, and all of them tables that spreadsheets open as text; None is stdout."""
    files = [str(output) for output in outputs if output is not None]
    if not files or any(_ending(file) not in _SEPARATORS for file in files):
        remedy = f"Name an output that ends in {' or '.join(_SEPARATORS)}, or leave it out"
        raise InputError("is for tables that spreadsheets open", where="csv_safe", remedy=remedy)


def _defuse_formulas(rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield rows with an apostrophe before each text, and each name of a column, that a spreadsheet would compute.

    Source: OWASP, CSV injection.
    """

    def defuse(cell: Any) -> Any:
        return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell

    return ({defuse(name): defuse(cell) for name, cell in row.items()} for row in rows)


def write_rows(rows: Rows, output: str, *, csv_safe: bool = False, progress: Progress = SILENT) -> int:
    """Write rows to a file or URL that appears only when it is complete; return their number, and note it.

    A name without an ending gets JSON lines. The columns of a table are the keys of all rows, which are kept in a
    temporary file until the last one is known. `csv_safe` defuses formulas.
    """
    rows = _defuse_formulas(rows) if csv_safe else rows
    ending = _ending(output)
    with write_file_to(output) as temporary:
        if ending in (*JSON_LINES, ""):
            with _open_lines(temporary) as stream:
                count = write_json_lines(rows, stream)
        else:
            count = _write_table(rows, temporary, ending, output)
    progress.note(f"wrote {output}: {format_count(count, 'row')}")
    return count


def write_json_lines(rows: Rows, stream: IO[str]) -> int:
    """Write rows as JSON lines, NaN and infinity as null; return their number."""
    count = 0
    for row in rows:
        stream.write(f"{to_json_text(row)}\n")
        count += 1
    return count


def write_tables(
    tables: Iterable["pyarrow.Table"], schema: "pyarrow.Schema", path: Path, ending: str
) -> None:
    """Write tables with one schema, one after the other, as a file of this ending."""
    if ending in JSON_LINES:
        with _open_lines(path) as stream:
            for table in tables:
                write_json_lines(table.to_pylist(), stream)
        return
    import pyarrow.csv
    import pyarrow.parquet

    if ending in _SEPARATORS:
        options = pyarrow.csv.WriteOptions(delimiter=_SEPARATORS[ending])
        opened: Any = pyarrow.csv.CSVWriter(path, schema, write_options=options)
    else:
        scalars = [field.name for field in schema if not pyarrow.types.is_nested(field.type)]
        opened = pyarrow.parquet.ParquetWriter(path, schema, use_dictionary=scalars, write_page_checksum=True)
    with opened as writer:
        for table in tables:
            writer.write_table(table)


def _open_lines(path: Path) -> IO[str]:
    # halves of characters become escapes of JSON
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")


def _ending(path: str) -> str:
    return Path(path.lower()).suffix


def _write_table(rows: Rows, path: Path, ending: str, output: str) -> int:
    """Write rows as a table; any of them may have one more column."""
    import pyarrow

    kinds: dict[str, set[type]] = {}
    with TemporaryFile("w+", encoding="utf-8", dir=path.parent) as file:
        count = 0
        for row in _flat_rows(rows, kinds):
            file.write(f"{json.dumps(row)}\n")
            count += 1
        file.seek(0)
        schema = pyarrow.schema([(name, _arrow_type(its)) for name, its in kinds.items()])
        if ending == EXTENSION:
            rows = chain.from_iterable(table.to_pylist() for table in _tables(file, schema))
            write_excel(path, list(kinds), (row.values() for row in rows), where=output)
            return count
        write_tables(_tables(file, schema), schema, path, ending)
    return count


def _flat_rows(rows: Rows, kinds: dict[str, set[type]]) -> Iterator[dict[str, Any]]:
    """Yield rows with JSON for lists and objects, and add the types of their cells by column."""
    for row in rows:
        cells: dict[str, Any] = {}
        for name, cell in row.items():
            if name == "probabilities" and isinstance(cell, (list, dict)):
                by_class = cell if isinstance(cell, dict) else dict(enumerate(cell))
                cells |= {f"{PROBABILITY}{key}": probability for key, probability in by_class.items()}
            else:
                is_nested = isinstance(cell, (list, tuple, dict))
                cells[name] = to_json_text(cell) if is_nested else cell
        for name, cell in cells.items():
            is_too_large = isinstance(cell, int) and cell.bit_length() > _INTEGER_BITS
            kinds.setdefault(name, set()).add(str if is_too_large else type(cell))
        yield cells


def _tables(lines: Iterable[str], schema: "pyarrow.Schema") -> Iterator["pyarrow.Table"]:
    """Yield the rows in JSON lines as tables of some thousand rows."""
    import pyarrow

    rows = map(json.loads, lines)
    while part := list(islice(rows, _ROWS_AT_ONCE)):
        columns = []
        for field in schema:
            cells = [row.get(field.name) for row in part]
            if pyarrow.types.is_string(field.type):
                cells = [None if cell is None else replace_lone_surrogates(str(cell)) for cell in cells]
            elif pyarrow.types.is_floating(field.type):
                cells = [None if cell is None else float(cell) for cell in cells]
            columns.append(pyarrow.array(cells, field.type))
        yield pyarrow.table(columns, schema=schema)


def _arrow_type(kinds: Set[type]) -> "pyarrow.DataType":
    """Return the type of a column: numbers, booleans, or text if it mixes kinds of cells."""
    import pyarrow

    kinds = kinds - {type(None)}
    if kinds == {bool}:
        return pyarrow.bool_()
    if kinds == {int}:
        return pyarrow.int64()
    return pyarrow.float64() if kinds and kinds <= {int, float} else pyarrow.string()
