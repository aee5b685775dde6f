"""Tables to documents: Parquet, Arrow as `save_to_disk` writes it, and data sets of the hub. A row is a document.

Parquet and Arrow files are read with pyarrow alone, a batch of rows at a time. A row without a text (null) holds no
document.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cloze.corpus.documents import MAX_DOCUMENT_BYTES, Document
from cloze.corpus.rows import field_of, no_field, text_document
from cloze.errors import InputError
from cloze.extras import require
from cloze.progress import Bar
from cloze.stores import is_url, open_url

HUB = "hf:"
"""What the name of a data set of the hub begins with: hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT."""
_ROWS = 64  # at a time; a row may be a book
_BUFFER_BYTES = 1 << 20
_ARROW_FILE = b"ARROW1"
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def row_group_bytes(file: str) -> list[int]:
    """Return the size on disk of each row group of a Parquet file.

    Raises:
        InputError: it is no Parquet file, or damaged.
    """
    with _sound(file), open_for_arrow(file) as source, pq.ParquetFile(source) as parquet:
        groups = [parquet.metadata.row_group(index) for index in range(parquet.num_row_groups)]
        return [sum(g.column(i).total_compressed_size for i in range(g.num_columns)) for g in groups]


def read_parquet(
    file: str, text_field: str, bar: Bar, *, begin: int, end: int | None, size_bytes: int
) -> Iterator[Document]:
    """Yield the documents of the row groups from `begin` on, up to but not including `end`.

    Raises:
        InputError: it is no Parquet file, is damaged, or has no such column.
    """
    with (
        _sound(file),
        open_for_arrow(file) as source,
        pq.ParquetFile(source, buffer_size=_BUFFER_BYTES) as parquet,
    ):
        _check_column(parquet.schema_arrow, text_field, file)
        groups = range(begin, parquet.num_row_groups if end is None else end)
        row = sum(parquet.metadata.row_group(index).num_rows for index in range(begin))
        for group in groups:
            for batch in parquet.iter_batches(_ROWS, [group], columns=[text_field], use_threads=False):
                yield from _documents(batch, text_field, file, row)
                row += batch.num_rows
            bar.advance(size_bytes / len(groups))


def read_arrow(file: str, text_field: str, bar: Bar) -> Iterator[Document]:
    """Yield the documents of an Arrow file, be it in the form of a stream or of a file.

    Raises:
        InputError: it is neither, is damaged or cut short, or has no such column.
    """
    with _sound(file), open_for_arrow(file) as source:
        size, told, row = source.size(), 0, 0
        is_stream = source.read(len(_ARROW_FILE)) != _ARROW_FILE
        source.seek(max(0, size - len(_END_OF_STREAM)))
        if is_stream and source.read() != _END_OF_STREAM:  # a cut between two batches would pass for the end
            raise EOFError("it does not end as an Arrow stream does")
        source.seek(0)
        reader = pa.ipc.open_stream(source) if is_stream else pa.ipc.open_file(source)
        _check_column(reader.schema, text_field, file)
        numbers = range(0 if is_stream else reader.num_record_batches)
        for batch in reader if is_stream else map(reader.get_batch, numbers):
            for start in range(0, batch.num_rows, _ROWS):
                yield from _documents(batch.slice(start, _ROWS), text_field, file, row + start)
            row += batch.num_rows
            bar.advance(source.tell() - told)
            told = source.tell()
        bar.advance(size - told)


def read_hub(name: str, text_field: str) -> Iterator[Document]:
    """Yield the documents of a data set that the library `datasets` streams from the hub.

    Args:
        name: hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT; without SPLIT it is "train".
        text_field: as of JSON lines.

    Raises:
        InputError: the library is not installed, or cannot read it.
    """
    require(["datasets"], extra="hub", where=name)
    import datasets

    path, config, split = [*name.removeprefix(HUB).split(":", 2), "", ""][:3]
    where = name
    try:
        rows = datasets.load_dataset(path, config or None, split=split or "train", streaming=True)
        for number, row in enumerate(rows, 1):
            where = f"{name}:row {number}"
            if (document := _document(field_of(row, text_field), where)) is not None:
                yield document
    except InputError as error:
        raise InputError(error.what, where=where, remedy=error.remedy) from None
    except (OSError, ValueError, RuntimeError) as error:
        remedy = "Write it hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT"
        raise InputError(f"datasets cannot read it: {error}", where=name, remedy=remedy) from error


@contextmanager
def open_for_arrow(file: str) -> Iterator[pa.NativeFile]:
    """Open a file on disk or on a store, as pyarrow reads it."""
    if is_url(file):
        with open_url(file) as stream, pa.PythonFile(stream, mode="r") as source:
            yield source
    else:
        with pa.OSFile(os.fsencode(file)) as source:
            yield source


@contextmanager
def _sound(file: str) -> Iterator[None]:
    """Say of a file that cannot be read what is wrong with it."""
    try:
        yield
    except (pa.ArrowException, EOFError, OSError) as error:
        what = f"cannot be read: {str(error).splitlines()[0].rstrip('. ')}"
        remedy = "The file is damaged, cut short or of another format: copy it anew"
        raise InputError(what, where=file, remedy=remedy) from error


def _check_column(schema: pa.Schema, text_field: str, file: str) -> None:
    kind = _kind_of(schema, text_field)
    column = text_field if text_field in schema.names else text_field.split(".")[0]
    if schema.names.count(column) > 1:
        remedy = "Write it anew with another name for each"
        raise InputError(f"several columns are called {column!r}", where=file, remedy=remedy)
    if kind is None:
        named = [field.name for field in schema if _is_text(field.type)]
        raise no_field(text_field, named or schema.names, file)
    if not _is_text(kind):
        remedy = "Choose a column of text: --text-field"
        raise InputError(f"the column {text_field!r} is {kind}, not a text", where=file, remedy=remedy)


def _kind_of(schema: pa.Schema, text_field: str) -> pa.DataType | None:
    fields: Iterable[pa.Field] = schema
    kind = None
    for name in [text_field] if text_field in schema.names else text_field.split("."):
        kind = next((field.type for field in fields if field.name == name), None)
        if kind is None:
            return None
        fields = kind.fields if pa.types.is_struct(kind) else ()
    return kind


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "null")
    return any(getattr(pa.types, f"is_{test}")(kind) for test in tests)


def _documents(batch: pa.RecordBatch, text_field: str, file: str, rows_before: int) -> Iterator[Document]:
    """Yield a document a row."""
    path = [text_field] if text_field in batch.schema.names else text_field.split(".")
    column = batch.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    for row, text in enumerate(_texts(column, file, rows_before), rows_before + 1):
        if text and (document := _document(text, f"{file}:row {row}")) is not None:
            yield document


def _document(text: str, where: str) -> Document | None:
    if len(text) > MAX_DOCUMENT_BYTES // 4 and len(text.encode("utf-8", "replace")) > MAX_DOCUMENT_BYTES:
        what = f"a document of over {MAX_DOCUMENT_BYTES // 10**6} MB"
        raise InputError(what, where=where, remedy="Split it into several rows")
    return text_document(text, where)


def _texts(column: pa.Array, file: str, rows_before: int) -> list[str | None]:
    """Return the values; those that old writers left as bytes are decoded."""
    try:
        return [value.decode() if isinstance(value, bytes) else value for value in column.to_pylist()]
    except UnicodeDecodeError:
        row = next(row for row, value in enumerate(column, rows_before + 1) if not _is_utf8(value))
        remedy = "Write the table anew with text in UTF-8"
        raise InputError("a text that is not UTF-8", where=f"{file}:row {row}", remedy=remedy) from None


def _is_utf8(value: pa.Scalar) -> bool:
    if not value.is_valid:
        return True
    try:
        value.as_buffer().to_pybytes().decode()
    except UnicodeDecodeError:
        return False
    return True
