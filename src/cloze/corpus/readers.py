"""A stretch to its documents: one function a format."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from types import MappingProxyType

from cloze.corpus.documents import Document
from cloze.corpus.formats import HEAD_BYTES, is_wrapped, judge_text, tell_apart
from cloze.corpus.sources import Span, Stretch
from cloze.corpus.streams import Lines, open_bytes, put_back
from cloze.progress import Bar

MAX_DOCUMENT_BYTES = 32_000_000
_LINES_LOOKED_AT = 2000


def read_documents(stretch: Stretch, bar: Bar) -> Iterator[Document]:
    """Yield the documents of a stretch in their order; `bar` advances by the bytes read from disk.

    No more than a document and a few buffers are in memory, whatever the size of the files.

    Raises:
        InputError: a file is damaged, not UTF-8 or not of its format, or a line or document is over the limit.
    """
    documents = (document for span in stretch.spans for document in _read(span, stretch.text_field, bar))
    return islice(documents, stretch.limit)


def _read(span: Span, text_field: str, bar: Bar) -> Iterator[Document]:
    with open_bytes(span.file) as (stream, on_disk):
        text_format = span.text_format
        if text_format == "auto":
            head = stream.read(HEAD_BYTES)
            stream = put_back(head, stream)
            known = [line.strip() for line in head.decode("utf-8", "replace").split("\n")]
            text_format = tell_apart(span.file, head) or judge_text(known, len(head))
        lines = Lines(span.file, stream, on_disk, bar, begin=span.begin)
        yield from _READERS[text_format](lines, span.end)
        lines.tell()


def _sentences(lines: Lines, end: int | None) -> Iterator[Document]:
    for where, document in _between_blank_lines(lines, end):
        yield Document(document, where, "sentences")


def _paragraphs(lines: Lines, end: int | None) -> Iterator[Document]:
    for where, document in _between_blank_lines(lines, end):
        yield Document(document, where, "paragraphs")


def _between_blank_lines(lines: Lines, end: int | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield where each document begins and its lines, from one blank line to the next.

    A span goes from the first blank line that begins in it to the first one that begins after it.
    """
    document: list[str] = []
    where = ""
    inside = lines.next_offset == 0
    start = lines.next_offset
    for line in lines:
        if line:
            if not inside:
                continue
            if not document:
                where, start = lines.where, lines.offset
            document.append(line)
            if lines.next_offset - start > MAX_DOCUMENT_BYTES:
                raise lines.error(
                    f"a document of over {MAX_DOCUMENT_BYTES // 10**6} MB",
                    remedy="Put blank lines between documents, or say --format lines for a document a line",
                )
        else:
            if document:
                yield where, tuple(document)
                document = []
            if end is not None and lines.offset >= end:
                return
            inside = True
    if document:
        yield where, tuple(document)


def _document_a_line(lines: Lines, end: int | None) -> Iterator[Document]:
    for line in _lines_until(lines, end):
        if line:
            yield Document((line,), lines.where, "paragraphs")


def _document_a_file(lines: Lines, end: int | None) -> Iterator[Document]:
    """Yield the whole file. Its paragraphs are its lines; where those are wrapped, what stands between blank lines."""
    whole: list[str] = []
    where = ""
    for line in lines:
        where = where or (lines.where if line else "")
        whole.append(line)
        if lines.next_offset > MAX_DOCUMENT_BYTES:
            raise lines.error(
                f"a document of over {MAX_DOCUMENT_BYTES // 10**6} MB",
                remedy="Say --format lines for a document a line, or paragraphs if blank lines are between them",
            )
    if is_wrapped(whole[:_LINES_LOOKED_AT]):
        blocks = (" ".join(block) for full, block in groupby(whole, key=bool) if full)
    else:
        blocks = (line for line in whole if line)
    if paragraphs := tuple(blocks):
        yield Document(paragraphs, where, "paragraphs")


def _lines_until(lines: Lines, end: int | None) -> Iterable[str]:
    """Yield the lines that begin before `end`."""
    if end is None:
        yield from lines
    elif lines.next_offset < end:
        for line in lines:
            yield line
            if lines.next_offset >= end:
                return


_READERS: Mapping[str, Callable[[Lines, int | None], Iterator[Document]]] = MappingProxyType(
    {
        "sentences": _sentences,
        "paragraphs": _paragraphs,
        "lines": _document_a_line,
        "files": _document_a_file,
    }
)
