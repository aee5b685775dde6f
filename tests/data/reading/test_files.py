"""Bytes and lines of files: compression, ranges, limits and progress."""

import bz2
import gzip
import io
import lzma
import sys
import tracemalloc
from functools import partial

import pyarrow as pa
import pytest

from cloze.data.reading.files import MAX_LINE_BYTES, LineReader, is_compressed, open_decompressed
from cloze.data.reading.formats import read_rows
from cloze.errors import InputError
from helpers import CountingBar, compress_zstd, task_of

PACK = {
    ".txt": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": compress_zstd,
}
COMPRESSED = [suffix for suffix in PACK if suffix != ".txt"]


def content_of(file):
    with open_decompressed(str(file)) as (stream, _):
        return stream.read()


def lines_of(file, begin=0):
    with open_decompressed(str(file)) as (stream, on_disk):
        lines = LineReader(file.name, stream, on_disk, CountingBar(), begin=begin)
        return [(lines.where, line) for line in lines]


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("named", [True, False])
def test_compression_is_detected(tmp_path, suffix, named):
    file = tmp_path / ("text" + suffix * named)
    file.write_bytes(b"")
    assert lines_of(file) == []
    file.write_bytes(PACK[suffix](b"one\ntwo\n"))
    assert content_of(file) == b"one\ntwo\n"
    assert is_compressed(str(file)) == (suffix != ".txt")


def test_text_that_begins_like_bz2_is_text(tmp_path):
    (tmp_path / "text").write_bytes(b"BZh is what it begins with.\n")
    assert content_of(tmp_path / "text") == b"BZh is what it begins with.\n"
    (tmp_path / "packed").write_bytes(bz2.compress(b""))
    assert is_compressed(str(tmp_path / "packed"))


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_zero_padding_is_ignored(tmp_path, suffix):
    file = tmp_path / f"text{suffix}"
    file.write_bytes(PACK[suffix](b"one\n") + bytes(10_000) + PACK[suffix](b"two\n") + bytes(512))
    assert content_of(file) == b"one\ntwo\n"


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.protected
@pytest.mark.slow
def test_a_decompression_bomb_does_not_fill_memory(tmp_path, suffix):
    file = tmp_path / f"text{suffix}"
    packer = {
        ".gz": partial(gzip.open, mode="wb"),
        ".bz2": partial(bz2.open, mode="wb"),
        ".xz": partial(lzma.open, mode="wb", preset=0),
        ".zst": partial(pa.CompressedOutputStream, compression="zstd"),
    }[suffix]
    with packer(file) as stream:
        for _ in range(100):
            stream.write(bytes(1_000_000))
    tracemalloc.start()
    with open_decompressed(str(file)) as (stream, _):
        while stream.read(1 << 20):
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60_000_000


@pytest.mark.parametrize("name", ["rows.json", "squad.json"])
@pytest.mark.parametrize("end", [b" ", b'{"text": "a"},\n'], ids=["one line", "many lines"])
@pytest.mark.slow
def test_a_list_that_does_not_fit_into_memory_is_refused(tmp_path, name, end):
    file = tmp_path / f"{name}.zst"
    with pa.CompressedOutputStream(file, compression="zstd") as stream:
        stream.write(b'{"data": [' if name == "squad.json" else b"[")
        for _ in range(501):
            stream.write(b" " * 1_000_000 + end)
    with pytest.raises(InputError, match=r"json.zst(:1)?: .*over 500 MB"):
        list(task_of("squad_v1").examples(file) if name == "squad.json" else read_rows(file, ["text"]))


@pytest.mark.parametrize("first", [0x50, 0x5F])
def test_zst_as_pzstd_writes_it(tmp_path, first):
    skipped = bytes([first]) + b"\x2a\x4d\x18" + (2000).to_bytes(4, "little") + b"\x07" * 2000
    frames = [skipped + compress_zstd(text) for text in (b"one\n", b"two\n")]
    (tmp_path / "text.zst").write_bytes(b"".join([*frames, skipped]))
    assert content_of(tmp_path / "text.zst") == b"one\ntwo\n"
    (tmp_path / "text.zst").write_bytes(frames[0] + skipped[:-1])
    with pytest.raises(InputError, match="cut short"):
        content_of(tmp_path / "text.zst")


@pytest.mark.parametrize("suffix", PACK)
def test_stdin_may_be_compressed(monkeypatch, suffix):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PACK[suffix](b"one\ntwo\n"))))
    with open_decompressed("-") as (stream, on_disk):
        assert stream.read() == b"one\ntwo\n"
        assert on_disk is None


@pytest.mark.parametrize("suffix", PACK)
def test_progress_follows_the_file_on_disk(tmp_path, suffix):
    file = tmp_path / f"text{suffix}"
    file.write_bytes(PACK[suffix](b"".join(f"line {n * n}\n".encode() for n in range(5000))))
    bar = CountingBar()
    with open_decompressed(str(file)) as (stream, on_disk):
        lines = LineReader(str(file), stream, on_disk, bar, progress_bytes=1000)
        assert sum(1 for _ in lines) == 5000
        lines.update_progress()
    assert bar.done == file.stat().st_size


def test_an_error_far_into_a_file_names_its_line(tmp_path):
    file = tmp_path / "text"
    file.write_bytes(b"word\n" * 1000 + b"caf\xe9\n")
    for begin in (0, 2500, 2501, 2504):
        with (
            open_decompressed(str(file)) as (stream, on_disk),
            pytest.raises(InputError, match="text:1001: not UTF-8 at byte 4"),
        ):
            list(LineReader(str(file), stream, on_disk, CountingBar(), begin=begin))


def test_a_json_file_may_be_one_long_line(tmp_path):
    line = "[" + '"a",' * (MAX_LINE_BYTES // 4) + '"a"]'
    for name in ("rows.json", "rows.csv", "rows.jsonl"):
        (tmp_path / name).write_text(line, encoding="ascii")
    (tmp_path / "rows.json.gz").write_bytes(gzip.compress(line.encode(), 1))
    for name in ("rows.json", "rows.json.gz"):
        with pytest.raises(InputError, match=r"rows\.json(\.gz)?:1: not a JSON object"):
            list(read_rows(tmp_path / name, ["text"]))
    for name in ("rows.csv", "rows.jsonl"):
        with pytest.raises(InputError, match=r"rows\.\w+:1: a line of over 10 MB"):
            list(read_rows(tmp_path / name, ["text"]))


def test_a_row_of_json_on_stdin_is_named(monkeypatch):
    content = b'["Ada", {"entities": []}]\n\n["Bo"]\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(InputError, match=r"^stdin:3: not a JSON object"):
        list(task_of("tagging").examples("-"))
