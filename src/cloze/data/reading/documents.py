"""Documents, and the formats of text: how they are read from lines."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from cloze.data.reading.files import MAX_LINE_BYTES, LineReader
from cloze.data.reading.text_layout import split_paragraphs
from cloze.errors import InputError
from cloze.progress import Bar
from cloze.text_encoding import LONE_SURROGATE

Kind: TypeAlias = Literal["sentences", "paragraphs"]
MAX_DOCUMENT_BYTES = 32_000_000
PART_CHARACTERS = 4_000_000
_MAX_NAMES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Document:
    """Consecutive text."""

    lines: tuple[str, ...]
    """Not empty, without white space around them; the wrapped lines of a paragraph have line breaks between them."""
    where: str
    """Where it begins, as "file:line"."""
    kind: Kind
    """Whether a line is a sentence or a paragraph."""

    def split_lines(self, split: Callable[[str], list[str]]) -> list[list[str]]:
        """Return the sentences of each line; `split` is applied to paragraphs."""
        return [[line] if self.kind == "sentences" else split(line) for line in self.lines]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """A file, or a range of a large one."""

    file: str
    text_format: str
    """A name in `FORMATS`; or "auto" for stdin, which can be read only once."""
    begin: int = 0
    """In bytes, or row groups of a Parquet file. A document belongs to the range that it begins in."""
    end: int | None = None
    size_bytes: int = 0
    """On disk."""
    encoding: str | None = None
    """That of a text file; None: UTF-8."""


def split_into_parts(
    documents: Iterable[Document], part_characters: int = PART_CHARACTERS
) -> Iterator[list[Document]]:
    """Group documents into parts of a few megabytes, the unit of work of a process."""
    part: list[Document] = []
    size = 0
    for document in documents:
        part.append(document)
        size += sum(map(len, document.lines))
        if size >= part_characters:
            yield part
            part, size = [], 0
    if part:
        yield part


def document_from_text(text: str, where: str) -> Document | None:
    """Return the document in a text; None if it is blank."""
    paragraphs = split_paragraphs([line.strip() for line in text.split("\n")])
    return Document(paragraphs, where, "paragraphs") if paragraphs else None


def get_text_field(row: Any, text_field: str) -> str:
    """Return the text of a row, "" if it or the object that holds it is null; InputError without a place otherwise."""
    if not isinstance(row, dict):
        raise InputError(f"not an object but {_json_type(row)}", remedy='Write {"text": "…"}')
    value: Any = row
    for name in [text_field] if text_field in row else text_field.split("."):
        if value is None:
            break
        if not isinstance(value, dict) or name not in value:
            raise missing_field(text_field, list(row))
        value = value[name]
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    remedy = "Choose a field of text: `text_field`"
    raise InputError(f"{text_field!r} is {_json_type(value)}, not a text", remedy=remedy)


def missing_field(text_field: str, names: Sequence[str], where: str | None = None) -> InputError:
    """Return the error that a row has no such field; it lists those that it has."""
    others = ", ".join(names[:_MAX_NAMES_SHOWN]) + (", …" if len(names) > _MAX_NAMES_SHOWN else "")
    remedy = f"Choose another with `text_field`: {others}" if names else None
    return InputError(f"no field {text_field!r}", where=where, remedy=remedy)


def _json_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


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
