"""Decompression of .gz, .bz2, .xz and .zst streams, recognized by their first bytes."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import IO, Any

MAGIC_BYTES = 6
BUFFER_BYTES = 1 << 16
_COMPRESSED_BYTES = 1 << 14
_DECOMPRESSED_BYTES = 1 << 20  # at most at once: a few bytes can expand to very much text


class _ChunkReader(io.RawIOBase):
    """A stream of byte strings, read once."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self._ready = iter(chunks), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if (chunk := next(self._chunks, None)) is None:
                return 0
            self._ready = memoryview(chunk)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def read_chunks(chunks: Iterable[bytes]) -> IO[bytes]:
    """Return a buffered stream of byte strings that is read once."""
    return io.BufferedReader(_ChunkReader(chunks), BUFFER_BYTES)


def _concatenated(compressed: IO[bytes], new_decompressor: Callable[[], Any]) -> Iterator[bytes]:
    """Yield the content of concatenated compressed streams.

    Differs: Python's own readers of .bz2 and .xz ignore what follows the end of a stream, also a damaged stream.
    """
    decompressor = None
    while block := compressed.read(_COMPRESSED_BYTES):
        while block or (decompressor and not decompressor.needs_input):
            if decompressor is None and not (block := block.lstrip(b"\0")):  # padding, which .xz may have
                break
            decompressor = decompressor or new_decompressor()
            yield decompressor.decompress(block, _DECOMPRESSED_BYTES)
            block = decompressor.unused_data
            if decompressor.eof:
                decompressor = None
    if decompressor is not None:
        raise EOFError("it ends before the end of the compressed text")


_STREAMS: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    # read once, since stdin has no beginning to return to
    ".gz": lambda compressed: read_chunks(
        iter(partial(gzip.GzipFile(fileobj=compressed).read1, BUFFER_BYTES), b"")
    ),
    ".bz2": lambda compressed: read_chunks(_concatenated(compressed, bz2.BZ2Decompressor)),
    ".xz": lambda compressed: read_chunks(_concatenated(compressed, lzma.LZMADecompressor)),
    ".zst": lambda compressed: io.BufferedReader(
        import_module("pyarrow").input_stream(compressed, compression="zstd"), BUFFER_BYTES
    ),
}
COMPRESSED = tuple(_STREAMS)
"""Extensions of compressed files."""
_ZSTD_SKIPPABLE = (bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))  # pzstd begins with one
_MAGIC = {
    ".gz": (b"\x1f\x8b\x08",),
    ".bz2": tuple(b"BZh%d" % level + block for level in range(1, 10) for block in (b"1A", b"\x17r")),
    ".xz": (b"\xfd7zXZ\0",),
    ".zst": (b"\x28\xb5\x2f\xfd", *_ZSTD_SKIPPABLE),
}


def detect_compression(head: bytes) -> str | None:
    """Return the extension of the compression that a file's first bytes show."""
    return next((suffix for suffix, magic in _MAGIC.items() if head.startswith(magic)), None)


def decompress(compressed: IO[bytes], compression: str) -> IO[bytes]:
    """Return the content of a compressed stream; reading raises OSError, EOFError or a library's error if damaged."""
    return _STREAMS[compression](compressed)
