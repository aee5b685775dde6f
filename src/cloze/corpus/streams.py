"""Files to lines of text: plain or compressed, with a limit to what a line may hold."""

import bz2
import hashlib
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from cloze.errors import InputError
from cloze.extras import require
from cloze.progress import Bar
from cloze.stores import is_url, open_url, size_of, version_of

STDIN = "-"
MAX_LINE_BYTES = 10_000_000
_BYTES_BETWEEN_NEWS = 1 << 20  # of text, from one advance of the bar to the next
_BUFFER_BYTES = 1 << 16
_DIGEST_BYTES = 1 << 20
_COMPRESSED_BYTES = 1 << 14
_DECOMPRESSED_BYTES = 1 << 20  # at once, at most: a few bytes can stand for very much text
_ZSTD_BYTES = 1 << 9
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _GzipDecompressor:
    """As those of bz2 and lzma are."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)
        self._waiting = b""
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, compressed: bytes, max_length: int) -> bytes:
        text = self._stream.decompress(self._waiting + compressed, max_length)
        self._waiting = self._stream.unconsumed_tail
        self.needs_input = not self._waiting and len(text) < max_length
        return text


class _ZstdDecompressor:
    """As those of bz2 and lzma are, but that it is given little at once instead of asked for little."""

    def __init__(self) -> None:
        import zstandard

        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._error = zstandard.ZstdError
        self._waiting = b""

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def needs_input(self) -> bool:
        return not self._waiting

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data + self._waiting

    def decompress(self, compressed: bytes, max_length: int) -> bytes:
        waiting = self._waiting + compressed
        self._waiting = waiting[_ZSTD_BYTES:]
        try:
            return bytes(self._frame.decompress(waiting[:_ZSTD_BYTES]))
        except self._error as error:
            raise EOFError(str(error)) from error


_DECOMPRESSORS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        ".gz": _GzipDecompressor,
        ".bz2": bz2.BZ2Decompressor,
        ".xz": lzma.LZMADecompressor,
        ".zst": _ZstdDecompressor,
    }
)
_ZSTD_SKIPPED = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
"""A frame that is passed over; pzstd writes one before each of text."""
_MAGIC = MappingProxyType(
    {
        ".gz": (b"\x1f\x8b\x08",),
        ".bz2": tuple(b"BZh%d" % level + block for level in range(1, 10) for block in (b"1A", b"\x17r")),
        ".xz": (b"\xfd7zXZ\0",),
        ".zst": (b"\x28\xb5\x2f\xfd", *_ZSTD_SKIPPED),
    }
)
_MAGIC_BYTES = 6
COMPRESSED = tuple(_DECOMPRESSORS)
"""What the names of compressed files end with."""


def file_bytes(file: str) -> int:
    """Return the size of a file, on disk or on a store."""
    return size_of(file) if is_url(file) else os.stat(file).st_size


def file_version(file: str) -> int | str | None:
    """Return what changes when a file is written anew; None where nobody knows."""
    if is_url(file):
        return version_of(file)
    try:
        return os.stat(file).st_mtime_ns
    except OSError:  # stdin, or no file at all
        return None


def file_sha256(file: str) -> str:
    """Return the SHA-256 of a file, on disk or on a store, as hexadecimal digits."""
    digest = hashlib.sha256()
    with open_file(file) as stream:
        while block := stream.read(_DIGEST_BYTES):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def open_file(file: str) -> Iterator[IO[bytes]]:
    """Open a file as it is, on disk or on a store."""
    if is_url(file):
        with open_url(file) as stream:
            yield stream
    else:
        with io.BufferedReader(io.FileIO(file), _BUFFER_BYTES) as stream:
            yield stream


def is_compressed(file: str) -> bool:
    """Say whether a file is compressed, by its first bytes."""
    with open_file(file) as stream:
        return _compression(stream.read(_MAGIC_BYTES)) is not None


def _compression(head: bytes) -> str | None:
    return next((suffix for suffix, magic in _MAGIC.items() if head.startswith(magic)), None)


@contextmanager
def open_bytes(file: str) -> Iterator[tuple[IO[bytes], IO[bytes] | None]]:
    """Open a file or stdin, and take off what it is compressed with.

    Its first bytes tell with what. Where its name says otherwise it is damaged.

    Yields:
        What is in it, and the file on disk, whose position tells the progress (None for stdin).

    Raises:
        InputError: it cannot be read, is damaged or cut short, and be it that this is found on reading.
    """
    try:
        if file == STDIN:
            head = sys.stdin.buffer.read(_MAGIC_BYTES)
            yield _decompressed(put_back(head, sys.stdin.buffer), head, file), None
            return
        with open_file(file) as raw:
            head = raw.read(_MAGIC_BYTES)
            raw.seek(0)
            yield _decompressed(raw, head, file), raw
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        reason = getattr(error, "strerror", None)  # the system's, as in "Permission denied"
        remedy = None if reason else "The file is damaged or cut short: copy it anew"
        raise InputError(f"cannot be read: {reason or error}", where=file, remedy=remedy) from error


def put_back(head: bytes, stream: IO[bytes]) -> IO[bytes]:
    """Return a stream that begins with `head`, which was read from it."""
    return io.BufferedReader(_Rejoined(head, stream), _BUFFER_BYTES)


def _decompressed(stream: IO[bytes], head: bytes, file: str) -> IO[bytes]:
    kind = _compression(head)
    named = Path(file.lower()).suffix
    if named in _MAGIC and named != kind and head:
        raise EOFError(f"it is no {named} file")
    if kind is None:
        return stream
    if kind == ".zst":
        require(["zstandard"], extra="zstd", where=file)
    return io.BufferedReader(_Decompressed(stream, _DECOMPRESSORS[kind]), _BUFFER_BYTES)


class _Rejoined(io.RawIOBase):
    """A stream after bytes that were read from it."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._head:
            content = self._stream.read(len(buffer))
        else:
            content, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        buffer[: len(content)] = content
        return len(content)


class _Decompressed(io.RawIOBase):
    """What compressed streams, laid end to end, stand for.

    Python's own readers of .bz2 and .xz overlook what follows the end of a stream; the one of .zst, that it is cut
    short.
    """

    def __init__(self, compressed: IO[bytes], new_decompressor: Callable[[], Any]) -> None:
        self._compressed = compressed
        self._new_decompressor = new_decompressor
        self._decompressor = new_decompressor()
        self._begun = False
        self._left = b""  # after the end of a stream
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            compressed = b""
            if not self._begun or self._decompressor.needs_input:
                compressed = self._left or self._compressed.read(_COMPRESSED_BYTES)
                self._left = b""
                if not compressed:
                    if self._begun:
                        raise EOFError("it ends before the end of the compressed text")
                    return 0
            self._ready = memoryview(self._decompress(compressed))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self, compressed: bytes) -> bytes:
        if not self._begun:
            compressed = compressed.lstrip(b"\0")  # padding, which .gz and .xz may have
            if not compressed:
                return b""
            self._decompressor, self._begun = self._new_decompressor(), True
        text: bytes = self._decompressor.decompress(compressed, _DECOMPRESSED_BYTES)
        if self._decompressor.eof:
            self._left, self._begun = self._decompressor.unused_data, False
        return text


class Lines:
    """The lines of a text file one after the other, decoded, without white space around them.

    Args:
        file: its name.
        stream: what is in it.
        on_disk: the file whose position tells the progress.
        bar: advances by the bytes read from disk.
        begin: byte to begin at; a line that is cut there is left out. Only 0 where the file is compressed.
        max_line_bytes: a longer line is an error, and not read whole.

    Raises:
        InputError: a line is too long, not UTF-8 or no text.
    """

    def __init__(
        self,
        file: str,
        stream: IO[bytes],
        on_disk: IO[bytes] | None,
        bar: Bar,
        *,
        begin: int = 0,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self.number = 0
        """Of the line that was read last, counted from `begin`."""
        self.offset = self.next_offset = begin
        """Where that line begins and the next one, in bytes of the text."""
        self._file = file
        self._begin = begin
        self._stream = stream
        self._on_disk = on_disk
        self._bar = bar
        self._told = begin
        self._max_line_bytes = max_line_bytes
        if begin:
            self._skip_the_line_that_is_cut()

    @property
    def where(self) -> str:
        """Where the line stands that was read last: "file:line", and where the first line is not known, the byte."""
        return f"{self._file}:{self.number}" if not self._begin else f"{self._file}:byte {self.offset}"

    def __iter__(self) -> Iterator[str]:
        readline, limit = self._stream.readline, self._max_line_bytes + 1
        news = self.next_offset + _BYTES_BETWEEN_NEWS
        while raw := readline(limit):
            self.number += 1
            self.offset = self.next_offset
            self.next_offset += len(raw)
            if len(raw) == limit or b"\0" in raw:
                self._refuse(raw)
            if self.offset == 0:
                raw = raw.removeprefix(_BYTE_ORDER_MARK)
            try:
                yield raw.decode().strip()
            except UnicodeDecodeError as error:
                raise self.error(
                    f"not UTF-8 at byte {error.start + 1} of the line",
                    remedy="Convert the file (iconv -f latin1 -t utf8), or mend this line if the others are UTF-8",
                ) from error
            if self.next_offset > news:
                self.tell()
                news = self.next_offset + _BYTES_BETWEEN_NEWS

    def tell(self) -> None:
        """Advance the bar to where the file on disk is read."""
        if self._on_disk is not None:
            position = self._on_disk.tell()
            self._bar.advance(position - self._told)
            self._told = position

    def error(self, what: str, *, remedy: str | None) -> InputError:
        """Return the error that the line which was read last is wrong."""
        return InputError(what, where=f"{self._file}:{self._lines_before() + self.number}", remedy=remedy)

    def _refuse(self, raw: bytes) -> None:
        if b"\0" in raw:
            remedy = "Give UTF-8 text, plain or as .gz, .bz2, .xz or .zst"
            raise self.error("a NUL byte: this is no text file, or one in UTF-16", remedy=remedy)
        remedy = "Put line breaks between its paragraphs, or split it"
        raise self.error(f"a line of over {self._max_line_bytes // 10**6} MB", remedy=remedy)

    def _skip_the_line_that_is_cut(self) -> None:
        self._stream.seek(self._begin - 1)  # a line that begins at `begin` is whole
        while (raw := self._stream.readline(_BUFFER_BYTES)) and not raw.endswith(b"\n"):
            self.next_offset += len(raw)
        self.next_offset += len(raw) - 1

    def _lines_before(self) -> int:
        """Count the lines before the first that was read, which no one needs unless something is wrong."""
        if not self._begin:
            return 0
        with open_file(self._file) as stream:
            left, lines = self._begin - 1, 1
            while chunk := stream.read(min(left, 1 << 20)):
                lines += chunk.count(b"\n")
                left -= len(chunk)
        return lines
