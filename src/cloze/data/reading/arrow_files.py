"""Arrow files of arrays; and Parquet, Arrow and Hugging Face data sets as documents, one document per row.

Files are read with pyarrow alone, a batch of rows at a time. A row with a null text has no document.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cloze.data.reading.columns import find_class_names, find_columns, name_classes
from cloze.data.reading.directories import dataset_files
from cloze.data.reading.documents import (
    MAX_DOCUMENT_BYTES,
    Document,
    FileRange,
    document_from_text,
    missing_field,
)
from cloze.data.reading.files import MAX_LINE_BYTES, check_file
from cloze.data.reading.source import RawRow, Source
from cloze.errors import InputError, is_out_of_memory
from cloze.progress import Bar
from cloze.remote_files import is_url, open_url

_BATCH_ROWS = 64  # a row may be a book
_TABLE_ROWS = 1024  # of a table, in memory at once as Arrow has them
_PYTHON_ROWS = 16  # in memory at once as Python objects, each of at most MAX_LINE_BYTES
_TABLE_BATCH_BYTES = 1 << 26
_BUFFER_BYTES = 1 << 20
_ARROW_FILE = b"ARROW1"
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def write_record_batch(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns as an Arrow file of one record batch."""
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def map_record_batch(path: Path, names: Sequence[str], *, remedy: str) -> Any:
    """Map an Arrow file of one record batch into memory, validate it, and return the batch of some of its columns."""
    try:
        batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        batch.validate(full=True)
        return batch.select(list(names))
    except (pa.ArrowException, OSError, KeyError) as error:
        if is_out_of_memory(error):
            raise
        raise InputError(f"not a file of {', '.join(names)} ({error})", where=path, remedy=remedy) from error


@contextmanager
def open_arrow_source(file: str) -> Iterator[pa.NativeFile]:
    """Open a local or remote file for pyarrow. Errors on opening or reading become an `InputError`."""
    try:
        if is_url(file):
            with open_url(file) as stream, pa.PythonFile(stream, mode="r") as source:
                yield source
        else:
            with pa.OSFile(os.fsencode(file)) as source:
                yield source
    except (pa.ArrowException, EOFError, OSError, UnicodeDecodeError) as error:
        if is_out_of_memory(error):
            raise
        what = f"cannot be read: {str(error).partition(chr(10))[0].rstrip('. ')}"
        remedy = "The file is damaged, cut short or of another format: copy it again"
        raise InputError(what, where=file, remedy=remedy) from error


@contextmanager
def open_parquet(file: str, *, dictionaries: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a local or remote Parquet file, and check its pages where it has checksums.

    Repeated texts of the columns in `dictionaries` are kept once.
    """
    with (
        open_arrow_source(file) as source,
        pq.ParquetFile(
            source,
            buffer_size=_BUFFER_BYTES,
            read_dictionary=list(dictionaries),
            page_checksum_verification=True,
        ) as parquet,
    ):
        yield parquet


def _longest_cell(batch: pa.RecordBatch) -> int:
    """Return the bytes of the longest text of a batch, also within lists of texts."""
    longest = 0
    for column in batch.columns:
        while pa.types.is_dictionary(column.type) or isinstance(column.type, pa.ListType | pa.LargeListType):
            column = column.dictionary if pa.types.is_dictionary(column.type) else column.flatten()
        if _is_string(column.type):
            longest = max(longest, pc.max(pc.binary_length(column)).as_py() or 0)
    return longest


def _python_rows(batch: pa.RecordBatch) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each part of a batch as Python objects.

    Rows with the same dictionary entry share one object: a small file may have one long text in all of its rows, which
    would fill the memory. Columns with too many bytes of entries are decoded part by part.
    """
    shared: dict[str, dict[int, str]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            used = pc.drop_null(pc.unique(column.indices))
            entries = column.dictionary.take(used)
            if _is_string(entries.type) and (
                (pc.sum(pc.binary_length(entries)).as_py() or 0) <= _TABLE_BATCH_BYTES
            ):
                shared[name] = dict(zip(used.to_pylist(), entries.to_pylist(), strict=True))
    for start in range(0, batch.num_rows, _PYTHON_ROWS):
        part = batch.slice(start, _PYTHON_ROWS)
        cells = [
            list(map(shared[name].get, column.indices.to_pylist())) if name in shared else column.to_pylist()
            for name, column in zip(batch.schema.names, part.columns, strict=True)
        ]
        yield [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*cells, strict=True)]


def _is_string(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def split_row_groups(file: str, size: int, range_bytes: int) -> list[tuple[int, int | None, int]]:
    """Return ranges of row groups of about a size: the first one, the one after the last, and the size on disk."""
    with open_parquet(file) as parquet:
        groups = [parquet.metadata.row_group(index) for index in range(parquet.num_row_groups)]
        sizes = [sum(g.column(i).total_compressed_size for i in range(g.num_columns)) for g in groups]
    ranges: list[tuple[int, int | None, int]] = []
    begin = size_bytes = 0
    for index, size in enumerate(sizes, 1):
        size_bytes += size
        if size_bytes >= range_bytes or index == len(sizes):
            ranges.append((begin, index, size_bytes))
            begin, size_bytes = index, 0
    return ranges


def read_parquet(
    file_range: FileRange, text_field: str, bar: Bar, *, batch_rows: int = _BATCH_ROWS
) -> Iterator[Document]:
    """Yield the documents of a range of row groups."""
    file, end = file_range.file, file_range.end
    with open_parquet(file) as parquet:
        _check_column(parquet.schema_arrow, text_field, file)
        groups = range(file_range.begin, parquet.num_row_groups if end is None else end)
        row = sum(parquet.metadata.row_group(index).num_rows for index in range(file_range.begin))
        for group in groups:
            for batch in parquet.iter_batches(batch_rows, [group], columns=[text_field], use_threads=False):
                yield from _documents(batch, text_field, file, row)
                row += batch.num_rows
            bar.advance(file_range.size_bytes / len(groups))


def read_arrow(
    file_range: FileRange, text_field: str, bar: Bar, *, batch_rows: int = _BATCH_ROWS
) -> Iterator[Document]:
    """Yield the documents of an Arrow file, in the stream format or the file format."""
    file = file_range.file
    with open_arrow_source(file) as source:
        size, reported, row = source.size(), 0, 0
        schema, batches = _arrow_batches(source)
        _check_column(schema, text_field, file)
        for batch in batches:
            for start in range(0, batch.num_rows, batch_rows):
                yield from _documents(batch.slice(start, batch_rows), text_field, file, row + start)
            row += batch.num_rows
            bar.advance(source.tell() - reported)
            reported = source.tell()
        bar.advance(size - reported)


def _arrow_batches(source: pa.NativeFile) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and the batches of an Arrow file, in the stream format or the file format."""
    is_stream = source.read(len(_ARROW_FILE)) != _ARROW_FILE
    source.seek(max(0, source.size() - len(_END_OF_STREAM)))
    if is_stream and source.read() != _END_OF_STREAM:  # a cut between two batches would pass for the end
        raise EOFError("it does not end as an Arrow stream does")
    source.seek(0)
    if is_stream:
        stream = pa.ipc.open_stream(source)
        return stream.schema, iter(stream)
    reader = pa.ipc.open_file(source)
    return reader.schema, map(reader.get_batch, range(reader.num_record_batches))


def _read_batches(file: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a Parquet or Arrow file, some rows at a time.

    The bytes of a batch of Parquet are estimated from the mean size of a row.
    """
    if file.lower().endswith(".parquet"):
        with open_parquet(file) as parquet:
            schema = parquet.schema_arrow
            groups = [parquet.metadata.row_group(index) for index in range(parquet.num_row_groups)]
        _check_unique(schema, columns, file)
        row_bytes = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=0)
        batch_rows = max(1, min(_TABLE_ROWS, int(_TABLE_BATCH_BYTES / max(row_bytes, 1))))
        texts = [name for name in columns if _is_string(schema.field(name).type)]
        with open_parquet(file, dictionaries=texts) as parquet:
            yield from map(_check_offsets, parquet.iter_batches(batch_rows, columns=columns))
        return
    with open_arrow_source(file) as source:
        schema, batches = _arrow_batches(source)
        _check_unique(schema, columns, file)
        for batch in batches:
            selected = _check_offsets(batch.select(columns))
            for start in range(0, batch.num_rows, _TABLE_ROWS):
                yield selected.slice(start, _TABLE_ROWS)


def read_arrow_rows(source: Source) -> Iterator[RawRow]:
    """Yield the rows of a Parquet or Arrow file, or of a directory of a data set, without the columns of no use."""
    options, files = source.options, dataset_files(source.data)
    if not files:
        files = [str(source)]
        check_file(files[0])
    if files[0].lower().endswith(".parquet"):
        with open_parquet(files[0]) as parquet:
            schema = parquet.schema_arrow
    else:
        with open_arrow_source(files[0]) as stream:
            schema, _ = _arrow_batches(stream)
    class_names = find_class_names(schema, options.keeps_numbers)
    number, names = 0, dict.fromkeys(schema.names)
    columns = () if options.tool else options.columns
    wanted = [*find_columns(names, columns, f"{source}:1").values()]
    optional = {name for column in columns if not column.is_required and (name := column.find(names))}
    reads_all = options.keeps_others or options.tool is not None  # whose fields have names of their own
    wanted += [
        name
        for name in names
        if (reads_all or name in optional or options.is_also_read(name)) and name not in wanted
    ]
    if not wanted:
        others = ", ".join(map(repr, names))
        raise InputError("no column has a known name", where=f"{source}:1", remedy=f"There are {others}")
    for batch in chain.from_iterable(_read_batches(file, wanted) for file in files):
        if _longest_cell(batch) > MAX_LINE_BYTES:
            what = f"a cell of over {MAX_LINE_BYTES // 10**6} MB in this row or the {batch.num_rows - 1:,} after it"
            raise InputError(what, where=f"{source}:{number + 1}", remedy="Split it into shorter texts")
        try:
            for rows in _python_rows(batch):
                for cells in rows:
                    number += 1
                    where = f"{source}:{number}"
                    try:
                        yield name_classes(cells, class_names, where), where
                    except InputError as error:
                        yield error, where
        except (ValueError, OverflowError) as error:  # a time after the year 9999, or of nanoseconds
            what = f"a cell of this row or of up to {_PYTHON_ROWS - 1} after it cannot be read: {error}"
            raise InputError(what, where=f"{source}:{number + 1}") from error


def _column_path(schema: pa.Schema, text_field: str) -> list[str]:
    return [text_field] if text_field in schema.names else text_field.split(".")


def _check_column(schema: pa.Schema, text_field: str, file: str) -> None:
    path = _column_path(schema, text_field)
    _check_unique(schema, path[:1], file)
    fields: Iterable[pa.Field] = schema
    for name in path:
        kind = next((field.type for field in fields if field.name == name), None)
        if kind is None:
            text_columns = [field.name for field in schema if _is_text(field.type)]
            raise missing_field(text_field, text_columns or schema.names, file)
        fields = kind.fields if pa.types.is_struct(kind) else ()
    if not _is_text(kind):
        remedy = "Choose a column of text: `text_field`"
        raise InputError(f"the column {text_field!r} is {kind}, not a text", where=file, remedy=remedy)


def _check_unique(schema: pa.Schema, columns: Iterable[str], file: str) -> None:
    for name in columns:
        if schema.names.count(name) > 1:
            remedy = "Write it again with another name for each"
            raise InputError(f"several columns are called {name!r}", where=file, remedy=remedy)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "null")
    return any(getattr(pa.types, f"is_{test}")(kind) for test in tests)


def _documents(batch: pa.RecordBatch, text_field: str, file: str, rows_before: int) -> Iterator[Document]:
    first, *rest = _column_path(batch.schema, text_field)
    column = _check_offsets(batch.select([first])).column(0)
    for name in rest:
        column = pc.struct_field(column, name)
    for row, text in enumerate(_texts(column, file, rows_before), rows_before + 1):
        if not text:
            continue
        where = f"{file}:row {row}"
        if len(text) > MAX_DOCUMENT_BYTES // 4 and len(text.encode("utf-8", "replace")) > MAX_DOCUMENT_BYTES:
            what = f"a document of over {MAX_DOCUMENT_BYTES // 10**6} MB"
            raise InputError(what, where=where, remedy="Split it into several rows")
        if (document := document_from_text(text, where)) is not None:
            yield document


def _check_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Raise ArrowInvalid for a column whose offsets lead out of its data; `_texts` finds texts that are not UTF-8."""
    for column in batch.columns:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            if "UTF8" not in str(error):  # offsets are checked first
                raise
    return batch


def _texts(column: pa.Array, file: str, rows_before: int) -> list[str | None]:
    """Return the values of a column; old writers left bytes, which are decoded."""
    try:
        return [value.decode() if isinstance(value, bytes) else value for value in column.to_pylist()]
    except UnicodeDecodeError as error:
        if len(column) > 1:  # find the row
            rows = range(len(column))
            return [text for row in rows for text in _texts(column[row : row + 1], file, rows_before + row)]
        remedy = "Write the table again with text in UTF-8"
        where = f"{file}:row {rows_before + 1}"
        raise InputError("a text that is not UTF-8", where=where, remedy=remedy) from error
