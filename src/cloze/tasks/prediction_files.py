"""Files of predictions: JSON lines, CSV, TSV and Parquet, as the ending of their name says; JSON lines without one.

In a table a list or an object is JSON in one cell.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, Any

from cloze.data.compression import COMPRESSED
from cloze.data.files import STDIN, read_lines
from cloze.data.json_rows import json_lines
from cloze.data.table_files import is_table
from cloze.data.tables import read_rows
from cloze.errors import InputError, RunError
from cloze.remote_files import PathOrUrl, check_output_file, write_file_to
from cloze.tokenization.unicode import replace_lone_surrogates

_JSON_LINES = (".jsonl", ".ndjson")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET = ".parquet"
_ENDINGS = (".csv", ".tsv", *_JSON_LINES, _PARQUET)
_ROWS_AT_ONCE = 4096

Rows = Iterable[Mapping[str, Any]]


def check_output(output: str | None, *, overwrite: bool, source: PathOrUrl) -> None:
    """Check that rows can be written to a file; None is stdout.

    Raises:
        InputError: the file exists, is the source, or has an ending that names no format.
    """
    if output is None:
        return
    suffix = _suffix(output)
    if suffix in COMPRESSED:
        remedy = "Leave out the last suffix, and compress the file afterwards"
        raise InputError("output is not compressed", where=output, remedy=remedy)
    if suffix and suffix not in _ENDINGS:
        what = f"the ending {suffix!r} names no format"
        raise InputError(what, where=output, remedy=f"End the name in {', '.join(_ENDINGS)}")
    check_output_file(output, overwrite=overwrite, source=source)


def write_rows(rows: Rows, output: str) -> int:
    """Write rows to a file or URL that appears only when it is complete; return their number.

    Raises:
        RunError: a row of a table has a key that the first rows do not have, or the disk is full.
    """
    suffix = _suffix(output)
    with write_file_to(output) as temporary:
        if suffix == _PARQUET:
            return _write_parquet(rows, temporary, output)
        # lone surrogates of the input become JSON escapes
        with temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            if suffix in _SEPARATORS:
                return _write_delimited(rows, stream, _SEPARATORS[suffix], output)
            return write_json_lines(rows, stream)


def write_json_lines(rows: Rows, stream: IO[str]) -> int:
    """Write rows as JSON lines; return their number."""
    count = 0
    for row in rows:
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")
        count += 1
    return count


def is_json_lines(path: PathOrUrl) -> bool:
    """Return whether a file has the name of JSON lines."""
    return _suffix(path, compressed=True) in _JSON_LINES


def read_prediction_rows(
    path: PathOrUrl, text_columns: Sequence[str], value_columns: Sequence[str]
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the keys and values of each prediction in a file, and "file:line".

    Args:
        path: JSON lines, or a table.
        text_columns: columns of a table to read as text; the first of all columns is required.
        value_columns: columns of a table to read as JSON.

    Raises:
        InputError: the file has another format, or a line is invalid.
    """
    columns = (*text_columns, *value_columns)
    if str(path) == STDIN or not is_table(path) or is_json_lines(path) or not columns:
        yield from json_lines(read_lines(path))
        return
    for row in read_rows(path, columns[:1], is_optional=columns[1:].__contains__):
        values = {str(name): value for name, value in row.cells.items() if value is not None}
        for name in value_columns:
            if isinstance(text := values.get(name), str):
                if text:
                    values[name] = _parse(text, name, row.where)
                else:  # an empty cell
                    del values[name]
        yield values, row.where


def _parse(text: str, name: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the cell {name!r} is not JSON: {error}", where=where) from error


def _suffix(path: PathOrUrl, *, compressed: bool = False) -> str:
    name = Path(str(path).lower())
    return Path(name.stem).suffix if compressed and name.suffix in COMPRESSED else name.suffix


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, tuple, dict)) else value


def _in_parts(rows: Rows, output: str) -> tuple[list[str], Iterator[list[list[Any]]]]:
    """Return the columns of the first rows, and the cells of all rows, some thousand at a time."""
    remaining = iter(rows)
    first = list(islice(remaining, _ROWS_AT_ONCE))
    names = list(dict.fromkeys(name for row in first for name in row))

    def parts() -> Iterator[list[list[Any]]]:
        part = first
        while part:
            for row in part:
                if more := [name for name in row if name not in names]:
                    what = f"a row has {more[0]!r}, which the first {_ROWS_AT_ONCE:,} rows do not have"
                    raise RunError(what, where=output, remedy="Write JSON lines: end the name in .jsonl")
            yield [[_cell(row.get(name)) for name in names] for row in part]
            part = list(islice(remaining, _ROWS_AT_ONCE))

    return names, parts()


def _write_delimited(rows: Rows, stream: IO[str], separator: str, output: str) -> int:
    # All texts are in quotation marks, so that tabs and line ends in cells are read back by cloze and pandas.
    writer = csv.writer(stream, delimiter=separator, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    names, parts = _in_parts(rows, output)
    writer.writerow(names)
    count = 0
    for part in parts:
        writer.writerows(part)
        count += len(part)
    return count


def _write_parquet(rows: Rows, path: Path, output: str) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names, parts = _in_parts(rows, output)
    count = 0
    with ExitStack() as stack:
        writer = None
        for part in parts:
            columns = list(map(_parquet_cells, zip(*part, strict=True)))
            if writer is None:
                kinds = [pa.array(column).type for column in columns]
                kinds = [pa.string() if pa.types.is_null(kind) else kind for kind in kinds]
                schema = pa.schema(list(zip(names, kinds, strict=True)))
                writer = stack.enter_context(pq.ParquetWriter(path, schema))
            try:
                arrays = [pa.array(cells, kind) for cells, kind in zip(columns, kinds, strict=True)]
            except pa.ArrowException as error:
                what = f"a column holds values of two kinds: {error}"
                raise RunError(
                    what, where=output, remedy="Write JSON lines: end the name in .jsonl"
                ) from error
            writer.write_table(pa.table(arrays, schema=schema))
            count += len(part)
        if writer is None:
            pq.write_table(pa.table({}), path)
    return count


def _parquet_cells(column: Sequence[Any]) -> list[Any]:
    """Return cells of one type: if any is a text, all are."""
    if any(isinstance(cell, str) for cell in column):
        return [None if cell is None else replace_lone_surrogates(str(cell)) for cell in column]
    return list(column)
