"""Read sorted string tables, the format of LevelDB, in which TensorFlow writes the index of a checkpoint.

A table is data blocks, an index block with their places, and a footer with the place of the index block. A block is
entries, whose keys omit the prefix that they share with the previous key, then a byte for its compression and its
checksum.

Source: google/leveldb doc/table_format.md; tensorflow/core/lib/io/table.h, which has the same format.
"""

from collections.abc import Iterator

import pyarrow as pa

_FOOTER_BYTES = 48
_MAGIC = 0xDB4775248B80FB57
_TRAILER_BYTES = 5  # of a block: compression, checksum
_PLAIN, _SNAPPY = 0, 1
_MAX_BLOCK_BYTES = 1 << 24  # TensorFlow's have 256 KB; a forged length must not exhaust memory
_MAX_KEY_BYTES = 1 << 10  # many long keys must not take long


class MalformedError(ValueError):
    """The bytes are damaged, truncated or in another format."""


def read_table(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys of a table, in order, with their values; a MalformedError if it is damaged or not a table."""
    footer = table[-_FOOTER_BYTES:]
    if len(footer) < _FOOTER_BYTES or int.from_bytes(footer[-8:], "little") != _MAGIC:
        raise MalformedError("it does not end as a TensorFlow checkpoint index does")
    _, position = _handle(footer, 0)  # of the meta index, which TensorFlow leaves empty
    index, _ = _handle(footer, position)
    last, end = None, 0
    for _, value in _entries(_block(table, index)):
        handle, _ = _handle(value, 0)
        if handle[0] < end:
            raise MalformedError("its blocks overlap")
        end = sum(handle)
        for key, entry in _entries(_block(table, handle)):
            if last is not None and key <= last:
                raise MalformedError("its keys are not in order")
            yield key, entry
            last = key


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C as LevelDB and TensorFlow store it: masked, since data may contain checksums."""
    import google_crc32c  # of the extra `tensorflow`

    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a number of seven bits per byte, the lowest first; return it and the next position.

    Raises:
        MalformedError: the data ends within it, or it has more than 64 bits.
    """
    number = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise MalformedError("it ends within a number")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise MalformedError("a number has more than 64 bits")


def _handle(data: bytes, position: int) -> tuple[tuple[int, int], int]:
    """Read the place of a block: offset and size in bytes."""
    offset, position = varint(data, position)
    size, position = varint(data, position)
    return (offset, size), position


def _block(table: bytes, handle: tuple[int, int]) -> bytes:
    """Return the contents of a block, checked and decompressed."""
    offset, size = handle
    if offset + size + _TRAILER_BYTES > len(table) - _FOOTER_BYTES:
        raise MalformedError("a block lies outside of it")
    end = offset + size
    stored = int.from_bytes(table[end + 1 : end + _TRAILER_BYTES], "little")
    if masked_crc32c(table[offset : end + 1]) != stored:
        raise MalformedError("the checksum of a block is wrong")
    contents, compression = table[offset:end], table[end]
    if compression == _PLAIN:
        return contents
    if compression != _SNAPPY:
        raise MalformedError(f"a block has the unknown compression {compression}")
    decompressed_size, _ = varint(contents, 0)  # raw Snappy starts with it
    if decompressed_size > _MAX_BLOCK_BYTES:
        raise MalformedError(
            f"a block takes {decompressed_size:,} bytes of memory, at most {_MAX_BLOCK_BYTES:,}"
        )
    try:
        return pa.decompress(contents, decompressed_size, codec="snappy", asbytes=True)  # type: ignore[no-any-return]
    except (pa.ArrowException, OSError) as error:
        raise MalformedError("a block cannot be decompressed") from error


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a block; its restart points, for searching, are not needed."""
    num_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * num_restarts
    if end < 0:
        raise MalformedError("a block is too short for its restart points")
    key, position = b"", 0
    while position < end:
        shared, position = varint(block, position)
        unshared, position = varint(block, position)
        size, position = varint(block, position)
        value_at = position + unshared
        if shared > len(key) or value_at + size > end:
            raise MalformedError("an entry reaches beyond its block")
        if shared + unshared > _MAX_KEY_BYTES:
            raise MalformedError(f"a key has {shared + unshared:,} bytes, at most {_MAX_KEY_BYTES:,}")
        key = key[:shared] + block[position:value_at]
        yield key, block[value_at : value_at + size]
        position = value_at + size
