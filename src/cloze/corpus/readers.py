"""A stretch to its documents. A file is read from its beginning to its end, or from one boundary to another."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from html import unescape
from itertools import islice

from cloze.corpus.documents import MAX_DOCUMENT_BYTES, Document, Kind
from cloze.corpus.formats import HEAD_BYTES, IN_WORDS, FileFormat, judge_text, paragraphs_of, tell_apart
from cloze.corpus.rows import field_of, text_document
from cloze.corpus.sources import Span, Stretch
from cloze.corpus.streams import MAX_LINE_BYTES, Lines, open_bytes, put_back
from cloze.corpus.tables import read_arrow, read_hub, read_parquet
from cloze.errors import InputError
from cloze.progress import Bar

_SURROGATE = re.compile("[\ud800-\udfff]")


def read_documents(stretch: Stretch, bar: Bar) -> Iterator[Document]:
    """Yield the documents of a stretch in their order; `bar` advances by the bytes read from disk.

    No more than a document and a few buffers are in memory, whatever the size of the files.

    Raises:
        InputError: a file is damaged, not UTF-8 or not of its format, or a line or document is over the limit.
    """
    documents = (document for span in stretch.spans for document in _read(span, stretch.text_field, bar))
    return islice(documents, stretch.limit)


def _read(span: Span, text_field: str, bar: Bar) -> Iterator[Document]:
    if span.text_format == "hub":
        return read_hub(span.file, text_field)
    if span.text_format == "arrow":
        return read_arrow(span.file, text_field, bar)
    if span.text_format == "parquet":
        return read_parquet(
            span.file, text_field, bar, begin=span.begin, end=span.end, size_bytes=span.size_bytes
        )
    return _read_text(span, text_field, bar)


def _read_text(span: Span, text_field: str, bar: Bar) -> Iterator[Document]:
    with open_bytes(span.file) as (stream, on_disk):
        text_format = span.text_format
        if text_format == "auto":
            head = stream.read(HEAD_BYTES)
            text_format = _look_at(head, span.file)
            stream = put_back(head, stream)
        limit = MAX_DOCUMENT_BYTES if text_format == "jsonl" else MAX_LINE_BYTES
        lines = Lines(span.file, stream, on_disk, bar, begin=span.begin, max_line_bytes=limit)
        if text_format == "sentences" or text_format == "paragraphs":
            yield from _between_blank_lines(lines, span.end, text_format)
        elif text_format == "lines":
            yield from _document_a_line(lines, span.end)
        elif text_format == "jsonl":
            yield from _json_lines(lines, span.end, text_field)
        elif text_format == "files":
            yield from _document_a_file(lines)
        else:
            yield from _wikiextractor(lines)
        lines.tell()


def _look_at(head: bytes, file: str) -> FileFormat:
    """Tell apart what comes from stdin."""
    text_format = tell_apart(file, head)
    if text_format in ("parquet", "arrow"):
        what = f"{IN_WORDS[text_format]} cannot be read from stdin"
        raise InputError(what, where=file, remedy="Give the file by its name")
    return text_format or judge_text(head, len(head) if len(head) < HEAD_BYTES else math.inf)


def _between_blank_lines(lines: Lines, end: int | None, kind: Kind) -> Iterator[Document]:
    """Yield what stands between blank lines.

    A span goes from the first blank line that begins in it to the first one that begins after it.
    """
    document: list[str] = []
    where = ""
    start = lines.next_offset
    inside = start == 0
    for line in lines:
        if line:
            if not inside:
                continue
            if not document:
                where, start = lines.where, lines.offset
            document.append(line)
            if lines.next_offset - start > MAX_DOCUMENT_BYTES:
                raise _too_long(lines, "Put blank lines between documents, or say --format lines")
        else:
            if document:
                yield Document(tuple(document), where, kind)
                document = []
            if end is not None and lines.offset >= end:
                return
            inside = True
    if document:
        yield Document(tuple(document), where, kind)


def _document_a_line(lines: Lines, end: int | None) -> Iterator[Document]:
    for line in _lines_until(lines, end):
        if line:
            yield Document((line,), lines.where, "paragraphs")


def _json_lines(lines: Lines, end: int | None, text_field: str) -> Iterator[Document]:
    for line in _lines_until(lines, end):
        if not line:
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            remedy = "JSON lines hold a whole object each, or say --format if this is other text"
            raise lines.error(f"not JSON ({error})", remedy=remedy) from None
        try:
            text = field_of(row, text_field)
        except InputError as error:
            raise lines.error(error.what, remedy=error.remedy) from None
        if "\\u" in line and (half := _SURROGATE.search(text)):
            what = f"half a character (\\u{ord(half[0]):x}) in {text_field!r}"
            raise lines.error(what, remedy="jq -c . puts U+FFFD in the place of such halves")
        document = text_document(text, lines.where)
        if document is not None:
            yield document


def _document_a_file(lines: Lines) -> Iterator[Document]:
    whole: list[str] = []
    where = ""
    for line in lines:
        where = where or (lines.where if line else "")
        whole.append(line)
        if lines.next_offset > MAX_DOCUMENT_BYTES:
            raise _too_long(lines, "Say --format lines or paragraphs if it holds many documents")
    if paragraphs := paragraphs_of(whole):
        yield Document(paragraphs, where, "paragraphs")


def _wikiextractor(lines: Lines) -> Iterator[Document]:
    """Yield what stands between <doc …> and </doc>; the title is its first line."""
    document: list[str] = []
    where, start = "", 0
    for line in lines:
        if line.startswith("<doc "):
            if where:
                raise _never_closed(where)
            where, start = lines.where, lines.offset
        elif line == "</doc>" and where:
            if document:
                yield Document(tuple(document), where, "paragraphs")
            document, where = [], ""
        elif line:
            if not where:
                remedy = "Give what WikiExtractor wrote as it is, or say --format if this is other text"
                raise lines.error("text outside <doc …> and </doc>", remedy=remedy)
            document.append(unescape(line))
            if lines.next_offset - start > MAX_DOCUMENT_BYTES:
                raise _too_long(lines, "Close it with </doc>")
    if where:
        raise _never_closed(where)


def _never_closed(where: str) -> InputError:
    remedy = "The file is damaged or cut short: copy it anew"
    return InputError("this <doc …> is not closed by </doc>", where=where, remedy=remedy)


def _too_long(lines: Lines, remedy: str) -> InputError:
    return lines.error(f"a document of over {MAX_DOCUMENT_BYTES // 10**6} MB", remedy=remedy)


def _lines_until(lines: Lines, end: int | None) -> Iterable[str]:
    """Yield the lines that begin before `end`."""
    if end is None:
        yield from lines
    elif lines.next_offset < end:
        for line in lines:
            yield line
            if lines.next_offset >= end:
                return
