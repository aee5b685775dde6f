"""TensorFlow's checkpoints without TensorFlow: PREFIX.index says what lies where in PREFIX.data-00000-of-00001.

The index is a sorted table: the empty key stands for a header, every other for a tensor, in protocol buffers.

Source: tensorflow/core/protobuf/tensor_bundle.proto; tensorflow/core/util/tensor_bundle/tensor_bundle.h.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cloze import artifacts
from cloze.errors import InputError
from cloze.model.sorted_table import MalformedError, masked_crc32c, read_table, varint

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
"""By the numbers of tensorflow/core/framework/types.proto."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers
_MOST_INDEX_BYTES = 1 << 24  # BERT-large's, with its optimizer, has 40 KB
_MOST_DIMENSIONS, _LARGEST_DIMENSION = 8, 1 << 31
_REMEDY = "The file is damaged or no TensorFlow checkpoint: copy it anew"


@dataclass(frozen=True, slots=True)
class Entry:
    """What the index knows of a tensor."""

    dtype: int
    """A number of types.proto, also of one that we do not read."""
    shape: tuple[int, ...]
    shard: int
    offset: int
    """Bytes into the shard."""
    size: int
    """Bytes."""
    crc: int
    """Masked CRC-32C of the bytes."""
    is_sliced: bool
    """Whether it lies in slices elsewhere, as partitioned variables do."""


@dataclass(frozen=True)
class TensorBundle:
    """The index of a checkpoint; `tensor` reads what it tells of."""

    prefix: Path
    num_shards: int
    entries: dict[str, Entry]

    def tensor(self, name: str) -> Tensor:
        """Read a tensor and check it.

        Raises:
            InputError: the file is missing, cut off or damaged, or the tensor is none that a BERT is made of.
            KeyError: there is no such tensor.
        """
        entry = self.entries[name]
        file = Path(f"{self.prefix}.data-{entry.shard:05d}-of-{self.num_shards:05d}")
        dtype = _DTYPES.get(entry.dtype)
        if dtype is None or entry.is_sliced:
            kind = "in slices" if entry.is_sliced else f"of TensorFlow's data type {entry.dtype}"
            raise InputError(f"{name} is a tensor {kind}, which cloze does not read", where=file)
        expected = math.prod(entry.shape) * dtype.itemsize
        if entry.size != expected:
            what = f"{name}: {entry.size:,} bytes, its shape {list(entry.shape)} asks for {expected:,}"
            raise InputError(what, where=_index_of(self.prefix), remedy=_REMEDY)
        if file.exists() and not file.is_file():
            raise InputError("is no file", where=file)
        try:
            with file.open("rb") as stream:
                length = stream.seek(0, 2)
                if entry.offset + entry.size > length:
                    what = f"{name} ends at byte {entry.offset + entry.size:,}, the file has {length:,}"
                    raise InputError(what, where=file, remedy="The file is cut off: copy it anew")
                stream.seek(entry.offset)
                data = stream.read(entry.size)
        except FileNotFoundError:
            raise InputError("no such file", where=file, remedy="Copy it to its index") from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where=file) from error
        if masked_crc32c(data) != entry.crc:
            raise InputError(f"the checksum of {name} is wrong", where=file, remedy=_REMEDY)
        if not data:
            return torch.empty(entry.shape, dtype=dtype)
        return torch.frombuffer(bytearray(data), dtype=dtype).reshape(entry.shape)


def read_bundle(prefix: Path) -> TensorBundle:
    """Read the index of a checkpoint, PREFIX.index.

    Raises:
        InputError: there is none, or it is damaged.
    """
    file = _index_of(prefix)
    try:
        table = artifacts.read_file(file, most_bytes=_MOST_INDEX_BYTES)
    except FileNotFoundError:
        remedy = "Give the prefix, as in uncased_L-12_H-768_A-12/bert_model.ckpt, or the directory"
        raise InputError("no such file", where=file, remedy=remedy) from None
    try:
        num_shards, entries = None, {}
        for key, value in read_table(table):
            if not key:
                num_shards = _num_shards(value)
            else:
                entries[key.decode()] = _entry(value)
        if num_shards is None:
            raise MalformedError("it has no header")
        if outside := [name for name, entry in entries.items() if entry.shard >= num_shards]:
            raise MalformedError(f"{outside[0]} is said to lie in a file beyond the last, {num_shards}")
    except (MalformedError, UnicodeDecodeError) as error:
        raise InputError(f"no index of a checkpoint: {error}", where=file, remedy=_REMEDY) from error
    return TensorBundle(prefix, num_shards, entries)


def _index_of(prefix: Path) -> Path:
    return Path(f"{prefix}.index")


def _num_shards(header: bytes) -> int:
    """Read a BundleHeaderProto."""
    fields = dict(_fields(header))
    if _number(fields.get(2, 0)) != 0:
        raise MalformedError("its numbers are big-endian, which cloze does not read")
    num_shards = _number(fields.get(1, 0))
    if not 0 < num_shards < 100_000:
        raise MalformedError(f"{num_shards} data files")
    return num_shards


def _entry(entry: bytes) -> Entry:
    """Read a BundleEntryProto."""
    fields = dict(_fields(entry))
    return Entry(
        dtype=_number(fields.get(1, 0)),
        shape=_shape(_message(fields.get(2, b""))),
        shard=_number(fields.get(3, 0)),
        offset=_number(fields.get(4, 0)),
        size=_number(fields.get(5, 0)),
        crc=_number(fields.get(6, 0)),
        is_sliced=7 in fields,
    )


def _shape(shape: bytes) -> tuple[int, ...]:
    """Read a TensorShapeProto."""
    dimensions = [_message(value) for number, value in _fields(shape) if number == 2]
    sizes = tuple(_number(dict(_fields(dimension)).get(1, 0)) for dimension in dimensions)
    if len(sizes) > _MOST_DIMENSIONS or any(size >= _LARGEST_DIMENSION for size in sizes):
        raise MalformedError("a tensor has a shape that no tensor has")
    return sizes


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Read the fields of a protocol buffer: their numbers and what they hold.

    Source: https://protobuf.dev/programming-guides/encoding.
    """
    position = 0
    while position < len(message):
        tag, position = varint(message, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = varint(message, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            size, position = varint(message, position)
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
        else:
            raise MalformedError(f"a field has the unknown wire type {wire_type}")
        content = message[position : position + size]
        if len(content) < size:
            raise MalformedError("a field reaches beyond its message")
        position += size
        yield number, content if wire_type == _BYTES else int.from_bytes(content, "little")


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise MalformedError("a field that should be a number is text")
    return value


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise MalformedError("a field that should be a message is a number")
    return value
