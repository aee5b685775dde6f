"""Files to bytes and lines: on disk, remote or stdin, plain or compressed.

Every text that cloze reads is opened by `open_text`, so that all readers agree on encodings and line ends.
"""

import codecs
import hashlib
import io
import lzma
import os
import stat
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeAlias

from cloze.arguments import check_text, iterate_texts
from cloze.data.reading.compression import (
    BUFFER_BYTES,
    COMPRESSED,
    MAGIC_BYTES,
    decompress,
    detect_compression,
    read_chunks,
)
from cloze.data.reading.text_layout import HEAD_BYTES
from cloze.errors import InputError
from cloze.file_io import name_file
from cloze.progress import Bar
from cloze.remote_files import PathOrUrl, is_directory, is_file, is_url, open_url, remote_size, remote_version
from cloze.text_encoding import (
    CONVERT_FILE,
    SAY_ENCODING,
    UTF_8,
    check_encoding,
    ends_lines_in_cr,
    refuse_non_text,
)

STDIN = "-"
JSON_LINES = (".jsonl", ".ndjson")
MAX_LINE_BYTES = 10_000_000
MAX_WHOLE_BYTES = 500_000_000
"""Of a file that is parsed as a whole, such as one JSON list: that takes several times as much memory."""
_PROGRESS_BYTES = 1 << 20  # of text between two updates of the progress bar
_BLOCK_BYTES = 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Line: TypeAlias = tuple[str, str]
"""The text of a line, and "file:line"."""


def file_size(file: str) -> int:
    """Return the size in bytes of a local or remote file."""
    return remote_size(file) if is_url(file) else os.stat(file).st_size


def file_version(file: str) -> int | str | None:
    """Return a value that changes when a file is rewritten; None for stdin and missing files."""
    if is_url(file):
        return remote_version(file)
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return None


def file_sha256(file: str) -> str:
    """Return the SHA-256 of a local or remote file as hexadecimal digits."""
    with open_file(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def open_file(file: str) -> Iterator["io.BufferedReader[Any]"]:
    """Open a local or remote file without decompressing it."""
    if is_url(file):
        with open_url(file) as stream:
            yield stream
    else:
        with name_file(file), io.BufferedReader(io.FileIO(file), BUFFER_BYTES) as stream:
            yield stream


def check_file(path: PathOrUrl) -> None:
    """Refuse a path that is neither a file nor stdin."""
    if str(path) != STDIN and not is_file(path):
        if is_directory(path):
            raise InputError("is a directory", where=path, remedy="Name a file in it")
        if os.path.exists(path):
            check_regular(str(path))
        raise InputError("no such file", where=path)


def check_regular(path: str) -> str:
    """Return a local path; refuse a pipe or device, which can be read only once."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise InputError("is not a regular file", where=path, remedy=f"Read a pipe as stdin: - < {path}")
    return path


def is_compressed(file: str) -> bool:
    """Return whether the first bytes of a file are those of a compressed one."""
    with open_file(file) as stream:
        return detect_compression(stream.read(MAGIC_BYTES)) is not None


@contextmanager
def open_text(file: str, encoding: str | None = None) -> Iterator[tuple[IO[bytes], IO[bytes] | None, bytes]]:
    """Open a file or stdin as `open_decompressed` does, and yield its first `HEAD_BYTES`, too.

    The content is in UTF-8. If the beginning has CR but no LF, CR ends a line; the content then has LF instead.
    """
    with open_decompressed(file) as (decompressed, on_disk):
        stream = decompressed  # which closes the file where nothing refers to it any more
        if encoding is not None and encoding != UTF_8:
            stream = read_chunks(_convert_to_utf_8(stream, check_encoding(encoding), file))
        head = stream.read(HEAD_BYTES)
        refuse_non_text(head, where=file, encoding=encoding)
        if stream.seekable():
            stream.seek(0)
        else:
            stream = prepend(head, stream)
        if ends_lines_in_cr(head):
            head, stream = head.replace(b"\r", b"\n"), read_chunks(_with_line_feeds(stream, file))
        yield stream, on_disk, head


@contextmanager
def open_decompressed(file: str) -> Iterator[tuple[IO[bytes], IO[bytes] | None]]:
    """Open a file or stdin and decompress it, as its first bytes say. A name that says otherwise is an error.

    Yields the content, and the file on disk, whose position shows the progress (None for stdin). Errors on opening or
    reading become an `InputError`.
    """
    try:
        if file == STDIN:
            head = sys.stdin.buffer.read(MAGIC_BYTES)
            yield _decompressed(prepend(head, sys.stdin.buffer), head, file), None
            return
        with open_file(file) as raw:
            head = raw.read(MAGIC_BYTES)
            raw.seek(0)
            yield _decompressed(raw, head, file), raw
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        reason = getattr(error, "strerror", None)  # the system's, as in "Permission denied"
        remedy = None if reason else "The file is damaged or cut short: copy it again"
        raise InputError(f"cannot be read: {reason or error}", where=file, remedy=remedy) from error


def _decompressed(stream: IO[bytes], head: bytes, file: str) -> IO[bytes]:
    compression = detect_compression(head)
    extension = Path(file.lower()).suffix
    if extension in COMPRESSED and extension != compression and head:
        raise EOFError(f"it is not a {extension} file")
    if compression is None:
        return stream
    return decompress(stream, compression)


def prepend(head: bytes, stream: IO[bytes]) -> IO[bytes]:
    """Return a stream that begins with `head`, which was read from it."""
    return read_chunks(chain((head,), iter(partial(stream.read, BUFFER_BYTES), b"")))


def _convert_to_utf_8(stream: IO[bytes], encoding: str, file: str) -> Iterator[bytes]:
    """Yield the content of a stream in another encoding in UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)()
    offset = 0  # of the bytes that are not decoded yet
    content = b"not the end"
    while content:
        content = stream.read(BUFFER_BYTES)
        try:
            text = decoder.decode(content, final=not content)
        except UnicodeError as error:
            start = error.start if isinstance(error, UnicodeDecodeError) else None
            place = "" if start is None else f" at byte {offset + start + 1:,}"
            what, remedy = f"not {encoding}{place}", "Say another `encoding`"
            raise InputError(what, where=file, remedy=remedy) from error
        offset += len(content) - len(decoder.getstate()[0])
        yield text.encode("utf-8", "surrogatepass")


def _with_line_feeds(stream: IO[bytes], file: str) -> Iterator[bytes]:
    """Yield the content of a stream in which CR ends a line, with LF instead."""
    while content := stream.read(BUFFER_BYTES):
        if b"\n" in content:
            remedy = "Convert it: tr '\\r' '\\n' < OLD > NEW"
            raise InputError("lines end in CR at first, and later in LF", where=file, remedy=remedy)
        yield content.replace(b"\r", b"\n")


def _blocks(stream: IO[bytes], size: int) -> Iterator[bytes]:
    while block := stream.read(min(size, _BLOCK_BYTES)):
        yield block
        size -= len(block)


class LineReader:
    r"""The lines of a UTF-8 stream, decoded. Only \n and \r\n end a line.

    Args:
        on_disk: the file whose position shows the progress.
        begin: byte to begin at; a line cut there is left out. Only 0 if the file is compressed.
        max_line_bytes: a longer line is an error, and not read whole.
        strip: remove white space around each line, not only its LF.
        encoding: `UTF_8` if the user cannot say another one.
    """

    def __init__(
        self,
        file: str,
        stream: IO[bytes],
        on_disk: IO[bytes] | None = None,
        bar: Bar | None = None,
        *,
        begin: int = 0,
        max_line_bytes: int = MAX_LINE_BYTES,
        progress_bytes: int = _PROGRESS_BYTES,
        strip: bool = True,
        encoding: str | None = None,
    ) -> None:
        self.number = 0
        """Of the line read last, counted from `begin`."""
        self.offset = self.next_offset = begin
        """Where that line and the next one begin, in bytes of the text."""
        self._file, self._stream, self._on_disk, self._bar = file, stream, on_disk, bar
        self._begin = self._reported = begin
        self._how_to_decode = CONVERT_FILE if encoding == UTF_8 else SAY_ENCODING
        self._max_line_bytes, self._progress_bytes, self._strip = max_line_bytes, progress_bytes, strip
        if begin:  # skip a line that is cut; one that begins at `begin` is whole
            if stream.seekable():
                stream.seek(begin - 1)
            else:
                deque(_blocks(stream, begin - 1), maxlen=0)
            while (raw := stream.readline(BUFFER_BYTES)) and not raw.endswith(b"\n"):
                self.next_offset += len(raw)
            self.next_offset += len(raw) - 1

    @property
    def where(self) -> str:
        """The place of the line read last: "file:line", or "file:byte N" if the reader began within the file."""
        return f"{self._file}:{self.number}" if not self._begin else f"{self._file}:byte {self.offset}"

    def __iter__(self) -> Iterator[str]:
        readline, limit, strip = self._stream.readline, self._max_line_bytes + 1, self._strip
        next_update = self.next_offset + self._progress_bytes
        while raw := readline(limit):
            self.number += 1
            self.offset = self.next_offset
            self.next_offset += len(raw)
            if b"\0" in raw:
                remedy = "Give UTF-8 text, plain or as .gz, .bz2, .xz or .zst"
                raise self.error("a NUL byte: not a text file, or one in UTF-16", remedy=remedy)
            if len(raw) == limit:
                remedy = "Put line breaks between its paragraphs, or split it"
                raise self.error(f"a line of over {self._max_line_bytes // 10**6} MB", remedy=remedy)
            raw = raw.removeprefix(BYTE_ORDER_MARK)  # also that of a file that was appended to another
            try:
                line = raw.decode()
            except UnicodeDecodeError as error:
                what = f"not UTF-8 at byte {error.start + 1} of the line"
                raise self.error(what, remedy=self._how_to_decode) from error
            yield line.strip() if strip else line.removesuffix("\n")
            if self.next_offset > next_update:
                self.update_progress()
                next_update = self.next_offset + self._progress_bytes

    def update_progress(self) -> None:
        """Advance the bar to the position in the file on disk."""
        if self._on_disk is not None and self._bar is not None:
            position = self._on_disk.tell()
            self._bar.advance(position - self._reported)
            self._reported = position

    def error(self, what: str, *, remedy: str | None) -> InputError:
        """Return an error about the line read last. If the reader began within the file, count lines up to there."""
        number = self.number
        if self._begin:
            with open_text(self._file) as (stream, _, _):
                number += 1 + sum(block.count(b"\n") for block in _blocks(stream, self._begin - 1))
        return InputError(what, where=f"{self._file}:{number}", remedy=remedy)


def extension_of(path: object) -> str:
    """Return the last part of a file's name in lower case, as in ".json", without that of its compression."""
    path = Path(str(path).lower())
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def read_lines(
    path: PathOrUrl, encoding: str | None = None, *, whole: bool = False, keep_cr: bool = False
) -> Iterator[Line]:
    """Yield the lines of a file, by default in UTF-8, or of stdin if `path` is -, without their ends.

    With `UTF_8` the errors advise to convert the file; otherwise also to say its encoding. A line may be as long as a
    file that is parsed as a `whole`. The CR before a line end is left unless `keep_cr`.
    """
    check_file(path)
    with open_text(str(path), encoding) as (stream, _, _):
        name = "stdin" if str(path) == STDIN else str(path)
        limit = MAX_WHOLE_BYTES if whole else MAX_LINE_BYTES
        lines = LineReader(name, stream, strip=False, max_line_bytes=limit, encoding=encoding)
        for line in lines:
            yield line if keep_cr else line.rstrip("\r"), lines.where


def read_lines_of_stdin(texts: Iterable[str]) -> list[Line]:
    """Return texts with their places, and in place of a text - the lines of stdin."""
    read: list[Line] = []
    texts = list(iterate_texts(texts))
    for number, text in enumerate(texts):
        place = f"texts[{number}]" if len(texts) > 1 else "text"
        lines = list(read_lines(STDIN, UTF_8)) if text == STDIN else [(text, place)]
        if not lines:
            raise InputError("no text", where="stdin", remedy="Send it one or more lines")
        read += lines
    if not read:
        raise InputError("no text was given", remedy="Give a text in quotes, or - to read lines from stdin")
    return read


def read_line_of_stdin(text: object, name: str = "text") -> str:
    """Return a text, or in place of - the only line of stdin."""
    checked = check_text(text, name)
    lines = read_lines_of_stdin([checked]) if checked == STDIN else [(checked, name)]
    if len(lines) > 1:
        raise InputError(f"{len(lines)} lines, expected one text", where="stdin", remedy="Send it one line")
    return lines[0][0]
