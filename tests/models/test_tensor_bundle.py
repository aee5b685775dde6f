"""TensorFlow's checkpoints, read without TensorFlow: real ones, and such as no program would write."""

import random
import struct

import numpy as np
import pyarrow as pa
import pytest
import torch

from cloze.errors import InputError
from cloze.models.tensor_bundle import masked_crc32c, read_bundle, read_table

pytestmark = pytest.mark.protected

FLOAT, INT64, STRING = 1, 9, 7
MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)


def varint(number):
    parts = []
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def entry(tensor=b"", *, dtype=FLOAT, shape=(), shard=0, offset=0, size=None, crc=None, more=b""):
    dimensions = b"".join(field(2, field(1, dimension)) for dimension in shape)
    crc = masked_crc32c(tensor) if crc is None else crc
    return (
        field(1, dtype)
        + field(2, dimensions)
        + field(3, shard)
        + field(4, offset)
        + field(5, len(tensor) if size is None else size)
        + varint(6 << 3 | 5)
        + struct.pack("<I", crc)
        + more
    )


def block_of(entries, *, restarts=1):
    body = b"".join(
        b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in entries.items()
    )
    return body + struct.pack(f"<{restarts + 1}I", *range(restarts), restarts)


def stored(block, compression=0, *, crc=None):
    crc = masked_crc32c(block + bytes([compression])) if crc is None else crc
    return block + bytes([compression]) + struct.pack("<I", crc)


def table_of(*blocks, compression=0, handles=None):
    """Lay out data blocks, the index block and the footer."""
    table, places = b"", []
    for block in blocks:
        places.append(varint(len(table)) + varint(len(block)))
        table += stored(block, compression)
    index = block_of({bytes([number + 1]): place for number, place in enumerate(handles or places)})
    handle = varint(len(table)) + varint(len(index))
    table += stored(index)
    return table + (b"\0\0" + handle).ljust(40, b"\0") + MAGIC


HEADER = field(1, 1)


@pytest.fixture
def write(tmp_path):
    """Write an index, and perhaps data, and return the prefix."""

    def write(index, data=None):
        (tmp_path / "model.index").write_bytes(index)
        if data is not None:
            (tmp_path / "model.data-00000-of-00001").write_bytes(data)
        return tmp_path / "model"

    return write


def index_of(header=HEADER, **entries):
    return table_of(block_of({b"": header} | {name.encode(): value for name, value in entries.items()}))


def test_bundle_with_several_tensors(write):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    step = np.int64(7).tobytes()
    data = array.tobytes() + step
    index = index_of(
        a=entry(array.tobytes(), shape=(2, 3)), b=entry(step, dtype=INT64, offset=24), c=entry(shape=(0, 3))
    )
    bundle = read_bundle(write(index, data))
    assert torch.equal(bundle["a"], torch.from_numpy(array))
    assert bundle["b"].item() == 7
    assert bundle["c"].shape == (0, 3)


def test_keys_with_shared_prefix():
    body = b"\0\3\1abc1" + b"\2\1\1d2"  # abc, then ab + d
    block = body + struct.pack("<2I", 0, 1)
    assert list(read_table(table_of(block))) == [(b"abc", b"1"), (b"abd", b"2")]


def test_snappy_block():
    plain = block_of({b"key": b"value" * 20})
    compressed = pa.compress(plain, codec="snappy", asbytes=True)
    table = table_of(compressed, compression=1)
    assert list(read_table(table)) == [(b"key", b"value" * 20)]


def test_real_bundles(shared):
    variables = shared / "data/tf_bundle_samples/saved_model_half_plus_two_cpu/00000123/variables/variables"
    bundle = read_bundle(variables)
    assert {name: bundle[name].item() for name in "abc"} == {"a": 0.5, "b": 2.0, "c": 3.0}
    samples = list((shared / "data").rglob("*.index"))
    assert len(samples) >= 5
    assert all(read_bundle(sample.with_suffix("")).entries for sample in samples)


@pytest.mark.parametrize("step", ["step0", "step20"])
def test_tensors_equal_googles_checkpoint(shared, step):
    golden = shared / "golden" / "google-nano"
    bundle = read_bundle(golden / step / "bert_model.ckpt")
    with np.load(golden / f"weights_{step}.npz") as arrays:
        assert len(arrays.files) > 50
        for name in arrays.files:
            assert np.array_equal(bundle[name].numpy(), arrays[name])


def after_header(block, **layout):
    return table_of(block_of({b"": HEADER}), block, **layout)


def after_snappy(block):
    """After the header, in Snappy, too."""
    return table_of(pa.compress(block_of({b"": HEADER}), codec="snappy", asbytes=True), block, compression=1)


FOUR = np.float32(4).tobytes()
BAD = {
    "empty": b"",
    "text": b"a text of more than forty-eight characters, no table",
    "footer alone": b"\0" * 40 + MAGIC,
    "index block outside": (b"\0\0" + varint(1 << 40) + varint(9)).ljust(40, b"\0") + MAGIC,
    "checksum": table_of(block_of({b"": HEADER})).replace(HEADER, b"\x08\x02", 1),
    "unknown compression": table_of(block_of({b"": HEADER}), compression=7),
    "invalid snappy": after_snappy(b"\x0a\xff\xff\xff"),
    "snappy bomb": after_snappy(varint(1 << 40) + b"\0"),
    "restart points": after_header(struct.pack("<I", 1 << 31)),
    "entry too long": after_header(b"\0\x01\x7fk" + struct.pack("<2I", 0, 1)),
    "prefix of nothing": after_header(b"\x05\x01\x01kv" + struct.pack("<2I", 0, 1)),
    "endless number": after_header(b"\xff" * 12 + struct.pack("<2I", 0, 1)),
    "long key": after_header(block_of({b"k" * 2000: b""})),
    "keys out of order": after_header(block_of({b"b": entry(), b"a": entry()})),
    "one block many times": after_header(
        block_of({}), handles=[varint(0) + varint(13), varint(0) + varint(13)]
    ),
    "no header": table_of(block_of({b"name": entry()})),
    "big-endian": index_of(header=HEADER + field(2, 1)),
    "no data files": index_of(header=field(1, 0)),
    "name that is no text": table_of(block_of({b"": HEADER, b"\xff": entry()})),
    "text for a number": index_of(w=field(1, b"x")),
    "number for a message": index_of(w=field(2, 4)),
    "field too long": index_of(w=varint(2 << 3 | 2) + b"\x7f"),
    "unknown wire type": index_of(w=b"\x0b"),
    "many dimensions": index_of(w=entry(FOUR, shape=(1,) * 70)),
    "negative dimension": index_of(w=entry(shape=(0, 2**64 - 1))),
}


@pytest.mark.parametrize("index", BAD.values(), ids=BAD)
def test_bad_index_is_refused(write, index):
    with pytest.raises(InputError, match=r"model\.index: not an index of a checkpoint"):
        read_bundle(write(index))


BAD_TENSORS = {
    "shape of other size": (entry(FOUR, shape=(3,)), "takes 12"),
    "checksum": (entry(FOUR, crc=5), "checksum of w"),
    "cut off": (entry(FOUR, offset=2), "ends at byte 6"),
    "far away": (entry(FOUR, offset=1 << 62), "ends at byte"),
    "text": (entry(FOUR, dtype=STRING), "data type 7"),
    "slices": (entry(FOUR, more=field(7, b"")), "is a partitioned variable"),
    "shard beyond the last": (entry(FOUR, shard=1), "data-00001-of-00001: no such file"),
    "memory": (entry(shape=(1 << 30, 1 << 30), size=1 << 62), "ends at byte"),
}


@pytest.mark.parametrize(("tensor", "what"), BAD_TENSORS.values(), ids=BAD_TENSORS)
def test_bad_tensor_is_named(write, tensor, what):
    bundle = read_bundle(write(index_of(w=tensor), FOUR))
    with pytest.raises(InputError, match=what):
        bundle["w"]


def test_missing_file_is_named(write, tmp_path):
    with pytest.raises(InputError, match=r"none\.index: no such file"):
        read_bundle(tmp_path / "none")
    bundle = read_bundle(write(index_of(w=entry(FOUR))))
    with pytest.raises(InputError, match="data-00000-of-00001: no such file"):
        bundle["w"]


def test_randomly_damaged_index_is_read_or_refused(shared, write):
    whole = (shared / "golden/google-nano/step0/bert_model.ckpt.index").read_bytes()
    intact = read_bundle(write(whole)).entries
    draw = random.Random(0)
    for _ in range(500):
        damaged = bytearray(whole)
        match draw.randrange(3):
            case 0:
                damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
            case 1:
                del damaged[draw.randrange(len(damaged)) :]
            case 2:
                start = draw.randrange(len(damaged))
                damaged[start : start + draw.randrange(64)] = draw.randbytes(draw.randrange(64))
        try:
            assert read_bundle(write(bytes(damaged))).entries == intact  # a byte that means nothing
        except InputError:
            continue


def test_missing_package_is_named(write, monkeypatch):
    monkeypatch.setattr("cloze.optional_dependencies.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"model\.index: needs the package google_crc32c\. Run .*\[tensor"):
        read_bundle(write(index_of()))
