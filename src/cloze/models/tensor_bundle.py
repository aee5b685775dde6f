"""Read TensorFlow checkpoints without TensorFlow: PREFIX.index locates tensors in PREFIX.data-00000-of-00001.

The index is a sorted string table, the format of LevelDB: data blocks, an index block with their places, and a footer
with the place of the index block. A block consists of entries, whose keys omit the prefix that they share with the
previous key, followed by a compression byte and a checksum. The empty key has a header, each other key a tensor, in
protocol buffers.

Source: google/leveldb doc/table_format.md; tensorflow/core/lib/io/table.h, which has the same format;
tensorflow/core/protobuf/tensor_bundle.proto; tensorflow/core/util/tensor_bundle/tensor_bundle.h.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import torch
from torch import Tensor

from cloze import file_io
from cloze.errors import InputError
from cloze.optional_dependencies import require

_FOOTER_BYTES = 48
_MAGIC = 0xDB4775248B80FB57
_TRAILER_BYTES = 5  # of a block: compression, checksum
_PLAIN, _SNAPPY = 0, 1
_MAX_BLOCK_BYTES = 1 << 24  # TensorFlow's have 256 KB; a forged length must not exhaust memory
_MAX_KEY_BYTES = 1 << 10  # many long keys must not take long
_DTYPES = {
    1: torch.float32,
    2: torch.float64,
    3: torch.int32,
    4: torch.uint8,
    5: torch.int16,
    6: torch.int8,
    9: torch.int64,
    10: torch.bool,
    14: torch.bfloat16,
    19: torch.float16,
}
"""By their numbers in tensorflow/core/framework/types.proto."""
_VARINT, _BYTES = 0, 2  # wire types of protocol buffers
_SIZES = {1: 8, 5: 4}  # of the other wire types, in bytes
_MAX_INDEX_BYTES = 1 << 24  # BERT-large's, with its optimizer, has 40 KB
_MAX_DIMENSIONS, _MAX_DIMENSION = 8, 1 << 31
_REMEDY = "The file is damaged or not a TensorFlow checkpoint: copy it again"


class Entry(NamedTuple):
    """The entry of a tensor in the index: its place in bytes, and the masked CRC-32C of these."""

    dtype: int  # also of types that cloze does not read
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int
    is_sliced: bool  # as partitioned variables are

    @classmethod
    def parse(cls, message: bytes) -> "Entry":
        """Read a BundleEntryProto."""
        fields = dict(_fields(message))
        dtype, shard, offset, size, crc = (index(fields.get(number, 0)) for number in (1, 3, 4, 5, 6))
        # a TensorShapeProto, which holds a message for each dimension
        dimensions = [dict(_fields(value)) for number, value in _fields(fields.get(2, b"")) if number == 2]
        shape = tuple(index(dimension.get(1, 0)) for dimension in dimensions)
        if len(shape) > _MAX_DIMENSIONS or any(length >= _MAX_DIMENSION for length in shape):
            raise ValueError(f"a tensor of shape {shape}")
        return cls(dtype, shape, shard, offset, size, crc, is_sliced=7 in fields)


@dataclass(frozen=True)
class TensorBundle(Mapping[str, Tensor]):
    """The tensors of a checkpoint by name, each read on access."""

    prefix: Path
    num_shards: int
    entries: dict[str, Entry]

    def __getitem__(self, name: str) -> Tensor:
        entry = self.entries[name]
        file = Path(f"{self.prefix}.data-{entry.shard:05d}-of-{self.num_shards:05d}")
        dtype = _DTYPES.get(entry.dtype)
        if dtype is None or entry.is_sliced:
            kind = "a partitioned variable" if entry.is_sliced else f"of TensorFlow's data type {entry.dtype}"
            raise InputError(f"{name} is {kind}, which cloze does not read", where=file)
        if entry.size != (expected := math.prod(entry.shape) * dtype.itemsize):
            what = f"{name}: {entry.size:,} bytes, its shape {list(entry.shape)} takes {expected:,}"
            raise InputError(what, where=f"{self.prefix}.index", remedy=_REMEDY)
        if file.exists() and not file.is_file():
            raise InputError("not a regular file", where=file)
        try:
            with file.open("rb") as stream:
                length = stream.seek(0, 2)
                if entry.offset + entry.size > length:
                    what = f"{name} ends at byte {entry.offset + entry.size:,}, the file has {length:,}"
                    raise InputError(what, where=file, remedy="The file is cut off: copy it again")
                stream.seek(entry.offset)
                data = stream.read(entry.size)
        except FileNotFoundError:
            raise InputError("no such file", where=file, remedy="Copy it next to its index") from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where=file) from error
        if masked_crc32c(data) != entry.crc:
            raise InputError(f"the checksum of {name} is wrong", where=file, remedy=_REMEDY)
        if not data:
            return torch.empty(entry.shape, dtype=dtype)
        return torch.frombuffer(bytearray(data), dtype=dtype).reshape(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def read_bundle(prefix: Path) -> TensorBundle:
    """Read the index of a checkpoint, PREFIX.index."""
    file = Path(f"{prefix}.index")
    try:
        table = file_io.read_file(file, max_bytes=_MAX_INDEX_BYTES)
    except FileNotFoundError:
        remedy = "Give the prefix, as in uncased_L-12_H-768_A-12/bert_model.ckpt, or the directory"
        raise InputError("no such file", where=file, remedy=remedy) from None
    require(["google_crc32c"], extra="tensorflow", where=file)
    num_shards, entries = 0, {}
    try:
        for key, value in read_table(table):
            if not key:  # a BundleHeaderProto; its second field is set if numbers are big-endian
                header = dict(_fields(value))
                num_shards = 0 if header.get(2) else index(header.get(1, 0))
            elif not key.startswith(b"\0"):  # the slice of a partitioned variable has an entry of its own
                entries[key.decode()] = Entry.parse(value)
        if not num_shards:
            raise ValueError("no header that cloze reads")
    except (ValueError, LookupError, TypeError, OSError) as error:
        raise InputError("not an index of a checkpoint", where=file, remedy=_REMEDY) from error
    return TensorBundle(prefix, num_shards, entries)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Read the numbers and values of the fields of a protocol buffer.

    Source: https://protobuf.dev/programming-guides/encoding.
    """
    position = 0
    while position < len(message):
        (tag,), position = _varints(message, position, 1)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            (value,), position = _varints(message, position, 1)
            yield number, value
            continue
        if wire_type == _BYTES:
            (size,), position = _varints(message, position, 1)
        else:
            size = _SIZES[wire_type]
        content = _cut(message, position, size)
        position += size
        yield number, content if wire_type == _BYTES else int.from_bytes(content, "little")


def read_table(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys of a table, in order, with their values; other bytes raise an error of Python's or Arrow's."""
    footer = table[-_FOOTER_BYTES:]
    if int.from_bytes(footer[-8:], "little") != _MAGIC:
        raise ValueError("not the end of a table")
    # offset and size of the meta index, which TensorFlow leaves empty, and of the index block
    (_, _, offset, size), _ = _varints(footer, 0, 4)
    last, end = None, 0
    for _, value in _entries(_block(table, offset, size)):
        (offset, size), _ = _varints(value, 0, 2)
        if offset < end:
            raise ValueError("blocks overlap")
        end = offset + size
        for key, entry in _entries(_block(table, offset, size)):
            if last is not None and key <= last:
                raise ValueError("keys are not in order")
            yield key, entry
            last = key


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C as LevelDB and TensorFlow store it: masked, since data may contain checksums."""
    import google_crc32c  # of the extra `tensorflow`

    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _cut(data: bytes, start: int, size: int) -> bytes:
    """Return `size` bytes; a ValueError if there are fewer."""
    if start + size > len(data):
        raise ValueError("the data are cut off")
    return data[start : start + size]


def _varints(data: bytes, position: int, count: int) -> tuple[list[int], int]:
    """Read numbers of seven bits per byte, the lowest first; return them and the next position."""
    numbers = []
    for _ in range(count):
        number = shift = 0
        while (byte := data[position]) >= 0x80:
            number |= (byte & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")
        numbers.append(number | byte << shift)
        position += 1
    return numbers, position


def _block(table: bytes, offset: int, size: int) -> bytes:
    """Return the contents of a block, checked and decompressed."""
    stored = _cut(table, offset, size + _TRAILER_BYTES)
    contents, compression = stored[:size], stored[size]
    if masked_crc32c(stored[: size + 1]) != int.from_bytes(stored[size + 1 :], "little"):
        raise ValueError("a wrong checksum")
    if compression == _PLAIN:
        return contents
    (decompressed_size,), _ = _varints(contents, 0, 1)  # raw Snappy starts with it
    if compression != _SNAPPY or decompressed_size > _MAX_BLOCK_BYTES:
        raise ValueError(f"a block of compression {compression}, {decompressed_size} bytes")
    return pa.decompress(contents, decompressed_size, codec="snappy", asbytes=True)  # type: ignore[no-any-return]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a block; its restart points, for searching, are not needed."""
    num_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * num_restarts
    if end < 0:
        raise ValueError("a block is too short for its restart points")
    entries = block[:end]
    key, position = b"", 0
    while position < len(entries):
        (shared, unshared, size), position = _varints(entries, position, 3)
        if shared > len(key) or shared + unshared > _MAX_KEY_BYTES:
            raise ValueError(f"a key of {shared} and {unshared} bytes")
        key = key[:shared] + _cut(entries, position, unshared)
        yield key, _cut(entries, position + unshared, size)
        position += unshared + size
