"""Decompression of .gz, .bz2, .xz and .zst streams, recognized by their first bytes."""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import IO, Any

_COMPRESSED_BYTES = 1 << 14
_DECOMPRESSED_BYTES = 1 << 20  # at most at once: a few bytes can expand to very much text
_ZSTD_BYTES = 1 << 9
MAGIC_BYTES = 6


class _GzipDecompressor:
    """zlib's decompressor with the interface of those of bz2 and lzma."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)
        self._pending = b""
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, compressed: bytes, max_length: int) -> bytes:
        text = self._stream.decompress(self._pending + compressed, max_length)
        self._pending = self._stream.unconsumed_tail
        self.needs_input = not self._pending and len(text) < max_length
        return text


class _ZstdDecompressor:
    """The same interface for zstandard, which cannot limit its output: it is fed small blocks instead."""

    def __init__(self) -> None:
        import zstandard

        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._error = zstandard.ZstdError
        self._pending = b""

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def needs_input(self) -> bool:
        return not self._pending

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data + self._pending

    def decompress(self, compressed: bytes, max_length: int) -> bytes:
        pending = self._pending + compressed
        self._pending = pending[_ZSTD_BYTES:]
        try:
            return bytes(self._frame.decompress(pending[:_ZSTD_BYTES]))
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
COMPRESSED = tuple(_DECOMPRESSORS)
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


class DecompressedStream(io.RawIOBase):
    """The content of concatenated compressed streams.

    Differs: Python's own readers of .bz2 and .xz ignore what follows the end of a stream; that of .zst ignores that
        a stream is cut short.
    """

    def __init__(self, compressed: IO[bytes], compression: str) -> None:
        self._compressed = compressed
        self._new_decompressor = _DECOMPRESSORS[compression]
        self._decompressor = self._new_decompressor()
        self._in_stream = False
        self._leftover = b""  # after the end of a stream
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Decompress into a buffer and return how many bytes were written."""
        while not self._ready:
            compressed = b""
            if not self._in_stream or self._decompressor.needs_input:
                compressed = self._leftover or self._compressed.read(_COMPRESSED_BYTES)
                self._leftover = b""
                if not compressed:
                    if self._in_stream:
                        raise EOFError("it ends before the end of the compressed text")
                    return 0
            self._ready = memoryview(self._decompress(compressed))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self, compressed: bytes) -> bytes:
        if not self._in_stream:
            compressed = compressed.lstrip(b"\0")  # padding, which .gz and .xz may have
            if not compressed:
                return b""
            self._decompressor, self._in_stream = self._new_decompressor(), True
        text: bytes = self._decompressor.decompress(compressed, _DECOMPRESSED_BYTES)
        if self._decompressor.eof:
            self._leftover, self._in_stream = self._decompressor.unused_data, False
        return text
