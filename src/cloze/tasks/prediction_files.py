"""Files of predictions: JSON lines, CSV, TSV and Parquet, as the ending of their name says; JSON lines without one.

In a table a list or an object is JSON in one cell.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from cloze.data.compression import COMPRESSED
from cloze.data.files import STDIN, read_lines
from cloze.data.json_rows import json_lines
from cloze.data.memory import MemoryRows, Source
from cloze.data.table_files import is_table
from cloze.data.tables import read_rows
from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from cloze.remote_files import PathOrUrl, check_output_file, write_file_to
from cloze.tables import format_count
from cloze.tokenization.unicode import replace_lone_surrogates

_JSON_LINES = (".jsonl", ".ndjson")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET = ".parquet"
_ENDINGS = (".csv", ".tsv", *_JSON_LINES, _PARQUET)
_ROWS_AT_ONCE = 4096

IDENTITY = ("id", "text", "pair", "prompt", "question")
"""Columns of predictions that say which example they are for."""
_TEXTS = {"label", "answer", *IDENTITY}

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


def write_rows(rows: Rows, output: str, *, progress: Progress = SILENT) -> int:
    """Write rows to a file or URL that appears only when it is complete; return their number, and note it.

    The columns of a table are the keys of all rows, which are kept in a temporary file until the last one is known.

    Raises:
        RunError: the disk is full.
    """
    suffix = _suffix(output)
    with write_file_to(output) as temporary:
        if suffix == _PARQUET:
            count = _write_parquet(rows, temporary)
        elif suffix in _SEPARATORS:
            count = _write_delimited(rows, temporary, _SEPARATORS[suffix])
        else:
            with temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
                count = write_json_lines(rows, stream)
    progress.note(f"wrote {output}: {format_count(count, 'row')}")
    return count


def write_json_lines(rows: Rows, stream: IO[str]) -> int:
    """Write rows as JSON lines; return their number."""
    count = 0
    for row in rows:
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")
        count += 1
    return count


def is_json_lines(path: Source) -> bool:
    """Return whether a file has the name of JSON lines."""
    return _suffix(path, compressed=True) in _JSON_LINES


def read_prediction_rows(path: Source, keys: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the keys and values of each prediction in a file, and "file:line".

    Args:
        path: JSON lines, or a table, whose cells are JSON but for texts and labels.
        keys: those of the answer, the required one first. A table's columns of these and of `IDENTITY` are read.

    Raises:
        InputError: the file has another format, or a line is invalid.
    """
    columns = tuple(dict.fromkeys((*keys, *IDENTITY, "row")))
    if isinstance(path, MemoryRows):
        yield from path
        return
    if str(path) == STDIN or not is_table(path) or is_json_lines(path) or not keys:
        yield from json_lines(read_lines(path))
        return
    for row in read_rows(path, columns[:1], is_also_read=columns[1:].__contains__):
        values = {str(name): value for name, value in row.cells.items() if value is not None}
        for name in (key for key in keys if key not in _TEXTS):
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


def _suffix(path: Source, *, compressed: bool = False) -> str:
    name = Path(str(path).lower())
    return Path(name.stem).suffix if compressed and name.suffix in COMPRESSED else name.suffix


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, tuple, dict)) else value


def _write_delimited(rows: Rows, path: Path, separator: str) -> int:
    # All texts are in quotation marks, so that tabs and line ends in cells are read back by cloze and pandas.
    # Lone surrogates of the input become JSON escapes.
    with (
        _as_table(rows, path.parent) as table,
        path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream,
    ):
        writer = csv.writer(stream, delimiter=separator, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(table.columns)
        writer.writerows(table.rows())
        return table.num_rows


def _write_parquet(rows: Rows, path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _as_table(rows, path.parent) as table:
        schema = pa.schema([(name, _arrow_type(kinds)) for name, kinds in table.columns.items()])
        with pq.ParquetWriter(path, schema) as writer:
            remaining = table.rows()
            while part := list(islice(remaining, _ROWS_AT_ONCE)):
                columns = [
                    pa.array(map(_as_text, cells) if pa.types.is_string(kind) else cells, kind)
                    for cells, kind in zip(zip(*part, strict=True), schema.types, strict=True)
                ]
                writer.write_table(pa.table(columns, schema=schema))
        return table.num_rows


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows whose columns are known, in a temporary file."""

    file: IO[str]
    columns: dict[str, set[type]]
    """The types of the cells of each column."""
    num_rows: int

    def rows(self) -> Iterator[list[Any]]:
        """Yield the cells of each row."""
        self.file.seek(0)
        for line in self.file:
            cells = json.loads(line)
            yield [cells.get(name) for name in self.columns]


@contextmanager
def _as_table(rows: Rows, directory: Path) -> Iterator[_Table]:
    """Read all rows, into a temporary file in a directory: any of them may have one more column."""
    columns: dict[str, set[type]] = {}
    num_rows = 0
    with TemporaryFile("w+", encoding="utf-8", dir=directory) as file:
        for row in rows:
            cells = {name: _cell(value) for name, value in row.items()}
            for name, cell in cells.items():
                columns.setdefault(name, set()).add(type(cell))
            file.write(json.dumps(cells) + "\n")
            num_rows += 1
        yield _Table(file, columns, num_rows)


def _arrow_type(kinds: Set[type]) -> Any:
    """Return the type of a column: numbers, truth values, or text if it mixes kinds of cells."""
    import pyarrow as pa

    kinds = kinds - {type(None)}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {int, float} else pa.string()


def _as_text(cell: Any) -> str | None:
    return None if cell is None else replace_lone_surrogates(str(cell))
