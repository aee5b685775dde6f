"""Formats of text: how the documents of a corpus are read from lines."""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from itertools import pairwise

from cloze.data.reading.documents import (
    MAX_DOCUMENT_BYTES,
    Document,
    FileRange,
    Kind,
    document_from_text,
    get_text_field,
)
from cloze.data.reading.files import MAX_LINE_BYTES, LineReader
from cloze.data.reading.text_layout import split_paragraphs
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
    """How files of a format are recognized, split and read as text of a corpus."""

    parse_lines: LineParser | None = None
    read_file: FileReader | None = None
    """Reads files that are not lines of text, instead of `parse_lines`."""
    magic: tuple[bytes, ...] = ()
    """First bytes of files that are not text. They override the format that the user names."""
    pattern: re.Pattern[bytes] | None = None
    """Matches the beginning of a text file of this format."""
    split: RangeSplitter | None = None
    """Cuts a large file into ranges that can be read independently; None if that is not possible."""
    max_line_bytes: int = MAX_LINE_BYTES


def blocks_of_lines(
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


def line_documents(lines: LineReader, file_range: FileRange, text_field: str) -> Iterator[Document]:
    """Yield each line as a document."""
    for line in _lines_of_range(lines, file_range):
        if line:
            yield Document((line,), lines.where, "paragraphs")


def json_documents(lines: LineReader, file_range: FileRange, text_field: str) -> Iterator[Document]:
    """Yield the text of the object in each line."""
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


def file_document(lines: LineReader, file_range: FileRange, text_field: str) -> Iterator[Document]:
    """Yield the whole file."""
    content: list[str] = []
    where = ""
    for line in lines:
        where = where or (lines.where if line else "")
        content.append(line)
        if lines.next_offset > MAX_DOCUMENT_BYTES:
            raise _too_long(lines, "Use `format=lines` or paragraphs if it holds many documents")
    if paragraphs := split_paragraphs(content):
        yield Document(paragraphs, where, "paragraphs")


def wikiextractor_documents(lines: LineReader, file_range: FileRange, text_field: str) -> Iterator[Document]:
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


def split_bytes(file: str, size: int, range_bytes: int) -> list[tuple[int, int | None, int]]:
    """Cut a file that is not compressed into ranges of equal size."""
    count = size // range_bytes
    edges = [size * index // count for index in range(count + 1)]
    return [(begin, end, end - begin) for begin, end in pairwise(edges)]
