"""The text formats: a table of how each is recognized and read.

To add a format, add an entry to `FORMATS`: a function from lines to documents, and the extensions or first bytes of
its files. Command line, detection and documentation of formats follow the table.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

from cloze.data.reading.columns import Column
from cloze.data.reading.documents import (
    MAX_DOCUMENT_BYTES,
    Document,
    FileRange,
    Kind,
    document_from_text,
    get_text_field,
)
from cloze.data.reading.files import (
    BYTE_ORDER_MARK,
    MAX_LINE_BYTES,
    LineReader,
    extension_of,
    is_compressed,
    open_text,
)
from cloze.data.reading.tables import TableConfig, parse_rows
from cloze.data.reading.text_layout import HEAD_BYTES, guess_text_layout, split_paragraphs
from cloze.errors import InputError
from cloze.progress import Bar
from cloze.text_encoding import LONE_SURROGATE

FileReader = Callable[[FileRange, str, Bar], Iterator[Document]]
"""Yields the documents of a file, given the range to read, the name of the text field, and a progress bar."""
LineParser = Callable[[LineReader, FileRange, str], Iterator[Document]]
"""Yields the documents in lines, given the range to read and the name of the text field."""
RangeSplitter = Callable[[str, int, int], list[tuple[int, int | None, int]]]
"""Cuts a file of a size into ranges of about a size: begin, end and bytes of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFormat:
    """How files of one format are recognized, split and read."""

    description: str
    parse_lines: LineParser | None = None
    read_file: FileReader | None = None
    """Reads files that are not lines of text, instead of `parse_lines`."""
    extensions: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()
    """First bytes of files that are not text. They override the format that the user names."""
    pattern: re.Pattern[bytes] | None = None
    """Matches the beginning of a text file of this format."""
    split: RangeSplitter | None = None
    """Cuts a large file into ranges that can be read independently; None if that is not possible."""
    max_line_bytes: int = MAX_LINE_BYTES


def _between_blank_lines(
    lines: LineReader, file_range: FileRange, text_field: str, *, kind: Kind
) -> Iterator[Document]:
    """Yield the text between blank lines.

    A range begins at the first blank line that begins in it, and ends at the first one that begins after it.
    """
    document: list[str] = []
    where, start = "", lines.next_offset
    inside = start == 0
    for line in lines:
        if line:
            if not inside:
                continue
            if not document:
                where, start = lines.where, lines.offset
            document.append(line)
            if lines.next_offset - start > MAX_DOCUMENT_BYTES:
                raise _too_long(lines, "Put blank lines between documents, or use `format=lines`")
        else:
            if document:
                yield Document(tuple(document), where, kind)
                document = []
            if file_range.end is not None and lines.offset >= file_range.end:
                return
            inside = True
    if document:
        yield Document(tuple(document), where, kind)


def _lines(lines: LineReader, file_range: FileRange, text_field: str) -> Iterator[Document]:
    for line in _lines_of_range(lines, file_range):
        if line:
            yield Document((line,), lines.where, "paragraphs")


def _json_lines(lines: LineReader, file_range: FileRange, text_field: str) -> Iterator[Document]:
    for line in _lines_of_range(lines, file_range):
        if not line:
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            remedy = "JSON lines have a whole object each; if this is other text, use `format`"
            raise lines.error(f"not JSON ({error})", remedy=remedy) from None
        try:
            text = get_text_field(row, text_field)
        except InputError as error:
            raise lines.error(error.what, remedy=error.remedy) from None
        if "\\u" in line and (half := LONE_SURROGATE.search(text)):
            what = f"half a character (\\u{ord(half[0]):x}) in {text_field!r}"
            raise lines.error(what, remedy="Write \\ufffd in its place")
        document = document_from_text(text, lines.where)
        if document is not None:
            yield document


def _file(lines: LineReader, file_range: FileRange, text_field: str) -> Iterator[Document]:
    content: list[str] = []
    where = ""
    for line in lines:
        where = where or (lines.where if line else "")
        content.append(line)
        if lines.next_offset > MAX_DOCUMENT_BYTES:
            raise _too_long(lines, "Use `format=lines` or paragraphs if it holds many documents")
    if paragraphs := split_paragraphs(content):
        yield Document(paragraphs, where, "paragraphs")


def _wikiextractor(lines: LineReader, file_range: FileRange, text_field: str) -> Iterator[Document]:
    """Yield the text between <doc …> and </doc>. The title is its first line."""
    document: list[str] = []
    where, start = "", 0
    for line in lines:
        if line.startswith("<doc "):
            if where:
                break
            where, start = lines.where, lines.offset
        elif line == "</doc>" and where:
            if document:
                yield Document(tuple(document), where, "paragraphs")
            document, where = [], ""
        elif line:
            if not where:
                remedy = "Give the output of WikiExtractor unchanged; if this is other text, use `format`"
                raise lines.error("text outside <doc …> and </doc>", remedy=remedy)
            document.append(unescape(line))
            if lines.next_offset - start > MAX_DOCUMENT_BYTES:
                raise _too_long(lines, "Close it with </doc>")
    if where:
        remedy = "The file is damaged or cut short: copy it again"
        raise InputError("this <doc …> is not closed by </doc>", where=where, remedy=remedy)


def _too_long(lines: LineReader, remedy: str) -> InputError:
    return lines.error(f"a document of over {MAX_DOCUMENT_BYTES // 10**6} MB", remedy=remedy)


def _lines_of_range(lines: LineReader, file_range: FileRange) -> Iterator[str]:
    end = math.inf if file_range.end is None else file_range.end
    if lines.next_offset < end:
        for line in lines:
            yield line
            if lines.next_offset >= end:
                return


def _read_table(file_range: FileRange, text_field: str, bar: Bar) -> Iterator[Document]:
    column = Column(text_field, flag="`text_field=NAME`, or `format=lines` if its lines are text")
    config = TableConfig(columns=(column,), encoding=file_range.encoding)
    for text, where in parse_rows(file_range.file, config, lambda row: (row.text(text_field), row.where)):
        if (document := document_from_text(text, where)) is not None:
            yield document
    bar.advance(file_range.size_bytes)


def _split_bytes(file: str, size: int, range_bytes: int) -> list[tuple[int, int | None, int]]:
    if is_compressed(file):
        return [(0, None, size)]
    count = size // range_bytes
    edges = [size * index // count for index in range(count + 1)]
    return [(begin, end, end - begin) for begin, end in pairwise(edges)]


def _from_arrow_files(name: str) -> Any:
    """Return a function of `arrow_files`, which imports pyarrow when it is called."""

    def call(*arguments: Any) -> Any:
        from cloze.data.reading import arrow_files

        return getattr(arrow_files, name)(*arguments)

    return call


FORMATS: dict[str, TextFormat] = {
    "sentences": TextFormat(
        description="a sentence per line, a blank line between documents",
        parse_lines=partial(_between_blank_lines, kind="sentences"),
        split=_split_bytes,
    ),
    "paragraphs": TextFormat(
        description="a paragraph per line, a blank line between documents",
        parse_lines=partial(_between_blank_lines, kind="paragraphs"),
        split=_split_bytes,
    ),
    "lines": TextFormat(description="a document per line", parse_lines=_lines, split=_split_bytes),
    "files": TextFormat(description="a document per file", parse_lines=_file),
    "jsonl": TextFormat(
        description="JSON lines",
        parse_lines=_json_lines,
        extensions=(".jsonl", ".ndjson", ".json"),
        pattern=re.compile(rb'\s*\{\s*"'),
        split=_split_bytes,
        max_line_bytes=MAX_DOCUMENT_BYTES,
    ),
    "table": TextFormat(
        description="a column of a table, TSV or CSV", read_file=_read_table, extensions=(".tsv", ".csv")
    ),
    "wikiextractor": TextFormat(
        description="documents as WikiExtractor writes them",
        parse_lines=_wikiextractor,
        pattern=re.compile(rb"<doc "),
    ),
    "parquet": TextFormat(
        description="Parquet",
        read_file=_from_arrow_files("read_parquet"),
        extensions=(".parquet",),
        magic=(b"PAR1",),
        split=_from_arrow_files("split_row_groups"),
    ),
    "arrow": TextFormat(
        description="Arrow",
        read_file=_from_arrow_files("read_arrow"),
        extensions=(".arrow",),
        magic=(b"ARROW1", b"\xff\xff\xff\xff"),
    ),
    "hub": TextFormat(
        description="a data set of the Hugging Face hub", read_file=_from_arrow_files("read_hub")
    ),
}
"""The formats by name. Running text that matches none is judged by its layout: the first four."""


def format_names() -> tuple[str, ...]:
    """Return the formats that the user can name. "auto" detects the format; "hub" follows from the input's name."""
    return ("auto", *(name for name in FORMATS if name != "hub"))


_JSON_ARRAY = re.compile(rb'\s*\[\s*\{\s*"')


def detect_format(file: str, head: bytes, named: str = "auto") -> str | None:
    """Return the format of a file by its name and first bytes, or the `named` one for text; None for running text."""
    for name, text_format in FORMATS.items():
        if head.startswith(text_format.magic):
            return name
    if named != "auto":
        return named
    suffix, extension = Path(file.lower()).suffix, extension_of(file)
    for name, text_format in FORMATS.items():
        if text_format.read_file and (suffix if text_format.magic else extension) in text_format.extensions:
            return name
    head = head.removeprefix(BYTE_ORDER_MARK)
    if _JSON_ARRAY.match(head) or (extension in FORMATS["jsonl"].extensions and head.lstrip()[:1] == b"["):
        what = "a JSON array, which cannot be read in parts"
        raise InputError(what, where=file, remedy="Convert it to JSON lines: jq -c '.[]'")
    for name, text_format in FORMATS.items():
        if extension in text_format.extensions or (text_format.pattern and text_format.pattern.match(head)):
            return name
    return None


def read_range(file_range: FileRange, text_field: str, bar: Bar) -> Iterator[Document]:
    """Yield the documents of a file or a range of it; `bar` advances by the bytes read from disk."""
    name = file_range.text_format
    if name != "auto" and (read_file := FORMATS[name].read_file):
        yield from read_file(file_range, text_field, bar)
        return
    with open_text(file_range.file, file_range.encoding) as (stream, on_disk, head):
        if name == "auto":
            size = len(head) if len(head) < HEAD_BYTES else math.inf
            name = detect_format(file_range.file, head) or guess_text_layout(head, size)
        text_format = FORMATS[name]
        if not text_format.parse_lines:
            what = f"{text_format.description} cannot be read from stdin"
            raise InputError(what, where=file_range.file, remedy="Name the file")
        lines = LineReader(
            file_range.file,
            stream,
            on_disk,
            bar,
            begin=file_range.begin,
            max_line_bytes=text_format.max_line_bytes,
        )
        yield from text_format.parse_lines(lines, file_range, text_field)
        lines.update_progress()
