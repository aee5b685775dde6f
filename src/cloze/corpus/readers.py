"""Files to documents.

Inputs are files, folders, globs and - for stdin, plain or compressed. A blank line ends a document, and so does the
end of a file. What a line is, the format says: a format is a function from a document's lines to its sentences.
"""

import bz2
import glob
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Literal

from cloze.errors import InputError
from cloze.progress import SILENT, Bar, Progress
from cloze.text.sentences import split_sentences

TextFormat = Literal["auto", "sentences", "paragraphs"]
Document = list[str]
"""The lines of a document, without white space around them."""

MAX_LINE_BYTES = 10_000_000
MAX_DOCUMENT_BYTES = 32_000_000
_PART_CHARACTERS = 4_000_000
_BYTES_BETWEEN_NEWS = 1 << 20  # of text, from one advance of the bar to the next
_ZSTD_BYTES = 1 << 12  # decompressed at once: few, since a few can stand for very much text
_LINES_LOOKED_AT = 200
_SENTENCES_A_LINE = 1.4
"""Where lines hold more sentences than this on average, they are paragraphs."""


def find_files(inputs: Sequence[str | Path]) -> list[Path]:
    """Turn files, folders and globs into a list of files; those of a folder or glob in the order of their names.

    Raises:
        InputError: nothing is there.
    """
    if not inputs:
        raise InputError("no input was given", remedy="Name files, folders, globs, or - for stdin")
    files: list[Path] = []
    for given in inputs:
        path = Path(given)
        if str(given) == "-" or path.is_file():
            files.append(path)
            continue
        candidates = path.rglob("*") if path.is_dir() else map(Path, glob.glob(str(given), recursive=True))
        found = sorted(p for p in candidates if p.is_file() and not _is_hidden(p, below=path))
        if not found:
            raise InputError("no file in this folder" if path.is_dir() else "no such file", where=given)
        files.extend(found)
    return files


def _is_hidden(file: Path, *, below: Path) -> bool:
    inner = file.relative_to(below) if below.is_dir() else Path(file.name)
    return any(part.startswith(".") for part in inner.parts)


def total_bytes(files: Sequence[Path]) -> int | None:
    """Return the size of all files on disk; None where stdin is among them."""
    return None if Path("-") in files else sum(file.stat().st_size for file in files)


def read_documents(files: Sequence[Path], bar: Bar) -> Iterator[Document]:
    """Yield the documents of files one after the other; `bar` advances by the bytes read from disk.

    Raises:
        InputError: a file is binary, not UTF-8 or cut short, or a line or document is over the limit.
    """
    for file in files:
        document: Document = []
        size = 0
        for number, raw in enumerate(_raw_lines(file, bar), 1):
            line = _decode(raw, file, number)
            if line:
                document.append(line)
                size += len(raw)
                if size > MAX_DOCUMENT_BYTES:
                    what = f"a document of over {MAX_DOCUMENT_BYTES // 10**6} MB"
                    raise InputError(
                        what, where=f"{file}:{number}", remedy="Put blank lines between documents"
                    )
            elif document:
                yield document
                document, size = [], 0
        if document:
            yield document


def in_parts(documents: Iterator[Document]) -> Iterator[list[Document]]:
    """Gather documents into parts of a few megabytes, the work of one worker at a time."""
    part: list[Document] = []
    size = 0
    for document in documents:
        part.append(document)
        size += sum(map(len, document))
        if size >= _PART_CHARACTERS:
            yield part
            part, size = [], 0
    if part:
        yield part


def _decode(raw: bytes, file: Path, number: int) -> str:
    where = f"{file}:{number}"
    if b"\0" in raw:
        remedy = "Give UTF-8 text, plain or as .gz, .bz2, .xz or .zst"
        raise InputError("a NUL byte: this is no text file, or one in UTF-16", where=where, remedy=remedy)
    if len(raw) > MAX_LINE_BYTES:
        what = f"a line of over {MAX_LINE_BYTES // 10**6} MB"
        raise InputError(what, where=where, remedy="Put a line break after each paragraph")
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
    except UnicodeDecodeError as error:
        what = f"not UTF-8 at byte {error.start + 1} of the line"
        raise InputError(what, where=where, remedy="Convert it: iconv -f latin1 -t utf8") from error


def _raw_lines(file: Path, bar: Bar) -> Iterator[bytes]:
    """Yield lines as bytes, with a cut where a line is over the limit: the rest of it is not read."""
    try:
        with _open(file) as (stream, on_disk):
            told = read = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                yield line
                read += len(line)
                if on_disk is not None and read > _BYTES_BETWEEN_NEWS:
                    bar.advance(on_disk.tell() - told)
                    told, read = on_disk.tell(), 0
            if on_disk is not None:
                bar.advance(on_disk.tell() - told)
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        reason = getattr(error, "strerror", None)  # the system's, as in "Permission denied"
        remedy = None if reason else "The file is damaged or cut short: copy it anew"
        raise InputError(f"cannot be read: {reason or error}", where=file, remedy=remedy) from error


@contextmanager
def _open(file: Path) -> Iterator[tuple[IO[bytes], IO[bytes] | None]]:
    """Open a file for reading; yield what is in it, and the file on disk whose position tells the progress."""
    if str(file) == "-":
        yield sys.stdin.buffer, None
        return
    with file.open("rb") as raw:
        if file.suffix == ".gz":
            yield io.BufferedReader(gzip.GzipFile(fileobj=raw)), raw
        elif file.suffix == ".bz2":
            yield io.BufferedReader(bz2.BZ2File(raw)), raw
        elif file.suffix == ".xz":
            yield io.BufferedReader(lzma.LZMAFile(raw)), raw  # noqa: SIM115 (`raw` is the file)
        elif file.suffix == ".zst":
            yield io.BufferedReader(_ZstdReader(raw, file)), raw
        else:
            yield raw, raw


class _ZstdReader(io.RawIOBase):
    """What is in a .zst file. The package's own reader takes a file that was cut short for one that ends there."""

    def __init__(self, raw: IO[bytes], file: Path) -> None:
        try:
            import zstandard
        except ImportError:
            remedy = "Install it: pip install 'cloze-bert[zstd]'"
            raise InputError("needs the package zstandard", where=file, remedy=remedy) from None
        self._new_frame = zstandard.ZstdDecompressor().decompressobj
        self._error = zstandard.ZstdError
        self._raw = raw
        self._frame: Any = None
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            compressed = self._raw.read(_ZSTD_BYTES)
            if not compressed:
                if self._frame is not None:
                    raise EOFError("it ends before the end of the compressed text")
                return 0
            self._ready = self._decompress(compressed)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self, compressed: bytes) -> bytes:
        text = b""
        while compressed:
            self._frame = self._frame or self._new_frame()
            try:
                text += self._frame.decompress(compressed)
            except self._error as error:
                raise OSError(str(error)) from error
            compressed = b""
            if self._frame.eof:
                compressed, self._frame = self._frame.unused_data, None
        return text


def _lines_are_sentences(lines: Document, language: str) -> list[str]:
    return lines


def _lines_are_paragraphs(lines: Document, language: str) -> list[str]:
    return [sentence for line in lines for sentence in split_sentences(line, language=language)]


FORMATS: Mapping[str, Callable[[Document, str], list[str]]] = MappingProxyType(
    {"sentences": _lines_are_sentences, "paragraphs": _lines_are_paragraphs}
)
"""By name, how the lines of a document become sentences of a language."""


def choose_format(
    documents: Iterator[Document], text_format: TextFormat, language: str, progress: Progress = SILENT
) -> tuple[str, Iterator[Document]]:
    """Return a format's name, `auto` resolved by looking at the first documents, and all the documents again."""
    if text_format != "auto":
        return text_format, documents
    head: list[Document] = []
    for document in documents:
        head.append(document)
        if sum(map(len, head)) >= _LINES_LOOKED_AT:
            break
    lines = list(chain.from_iterable(head))[:_LINES_LOOKED_AT]
    sentences = _lines_are_paragraphs(lines, language)
    chosen = "paragraphs" if len(sentences) > _SENTENCES_A_LINE * len(lines) else "sentences"
    if lines:
        progress.note(f"text has a {chosen[:-1]} a line ({len(sentences)} sentences in {len(lines)} lines)")
    return chosen, chain(head, documents)
