"""Decompression of .gz, .bz2, .xz and .zst streams, recognized by their first bytes."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import IO, Any

import pyarrow

MAGIC_BYTES = 6
_COMPRESSED_BYTES = 1 << 14
_DECOMPRESSED_BYTES = 1 << 20  # at most at once: a few bytes can expand to very much text


class _GzipStream(gzip.GzipFile):
    """A gzip stream that is read once."""

    def __init__(self, compressed: IO[bytes]) -> None:
        super().__init__(fileobj=compressed, mode="rb")

    def seekable(self) -> bool:
        return False  # stdin has no beginning to return to


class _ConcatenatedStream(io.RawIOBase):
    """The content of concatenated compressed streams.

    Differs: Python's own readers of .bz2 and .xz ignore what follows the end of a stream.
    """

    def __init__(self, compressed: IO[bytes], new_decompressor: Callable[[], Any]) -> None:
        self._compressed = compressed
        self._new_decompressor = new_decompressor
        self._decompressor: Any = None  # between two streams
        self._leftover = b""  # after the end of a stream
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            compressed = b""
            if self._decompressor is None or self._decompressor.needs_input:
                compressed = self._leftover or self._compressed.read(_COMPRESSED_BYTES)
                self._leftover = b""
                if not compressed and self._decompressor is None:
                    return 0
                if not compressed:
                    raise EOFError("it ends before the end of the compressed text")
            self._ready = memoryview(self._decompress(compressed))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self, compressed: bytes) -> bytes:
        if self._decompressor is None:
            compressed = compressed.lstrip(b"\0")  # padding, which .xz may have
            if not compressed:
                return b""
            self._decompressor = self._new_decompressor()
        text: bytes = self._decompressor.decompress(compressed, _DECOMPRESSED_BYTES)
        if self._decompressor.eof:
            self._leftover, self._decompressor = self._decompressor.unused_data, None
        return text


_STREAMS: Mapping[str, Callable[[IO[bytes]], Any]] = MappingProxyType(
    {
        ".gz": _GzipStream,
        ".bz2": lambda compressed: _ConcatenatedStream(compressed, bz2.BZ2Decompressor),
        ".xz": lambda compressed: _ConcatenatedStream(compressed, lzma.LZMADecompressor),
        ".zst": lambda compressed: pyarrow.CompressedInputStream(pyarrow.PythonFile(compressed), "zstd"),
    }
)
COMPRESSED = tuple(_STREAMS)
"""Extensions of compressed files."""
_ZSTD_SKIPPABLE = tuple(
    bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60)
)  # pzstd begins with one
_MAGIC = MappingProxyType(
    {
        ".gz": (b"\x1f\x8b\x08",),
        ".bz2": tuple(b"BZh%d" % level + block for level in range(1, 10) for block in (b"1A", b"\x17r")),
        ".xz": (b"\xfd7zXZ\0",),
        ".zst": (b"\x28\xb5\x2f\xfd", *_ZSTD_SKIPPABLE),
    }
)


def detect_compression(head: bytes) -> str | None:
    """Return the extension of the compression that a file's first bytes show."""
    return next((suffix for suffix, magic in _MAGIC.items() if head.startswith(magic)), None)


def decompress(compressed: IO[bytes], compression: str, *, buffer_bytes: int) -> IO[bytes]:
    """Return the content of a compressed stream; reading raises OSError, EOFError or a library's error if damaged."""
    return io.BufferedReader(_STREAMS[compression](compressed), buffer_bytes)
