"""Files of all kinds to documents, and one line of help for what cannot be read."""

import bz2
import gzip
import io
import lzma
import os
import sys
from pathlib import Path

import pytest
import zstandard

from cloze.corpus import documents as parts_of_documents
from cloze.corpus import readers, streams
from cloze.corpus.documents import Document, in_parts
from cloze.corpus.formats import judge_text
from cloze.corpus.readers import read_documents
from cloze.corpus.sources import ReadingConfig, plan_stretches, total_bytes
from cloze.errors import InputError

TEXT = "One sentence. Another one.\n\tA second paragraph. Two.  \n\n \n\nA new document.\n"
DOCUMENTS = [["One sentence. Another one.", "A second paragraph. Two."], ["A new document."]]
PACK = {
    "txt": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


class CountingBar:
    def __init__(self) -> None:
        self.done = 0.0

    def advance(self, amount: float) -> None:
        self.done += amount

    def show(self, **fields: object) -> None:
        pass


def read(*files: Path, bar: CountingBar | None = None, **reading: object) -> list[list[str]]:
    stretches = plan_stretches(files, ReadingConfig(**reading))
    bar = bar or CountingBar()
    return [list(document.lines) for stretch in stretches for document in read_documents(stretch, bar)]


@pytest.mark.parametrize("suffix", PACK)
def test_plain_and_compressed_text(tmp_path, suffix):
    file = tmp_path / f"text.{suffix}"
    file.write_bytes(PACK[suffix](TEXT.encode()))
    assert read(file) == DOCUMENTS


@pytest.mark.parametrize("suffix", PACK)
def test_the_bar_ends_at_the_size_of_the_files(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(streams, "_BYTES_BETWEEN_NEWS", 1000)
    files = [tmp_path / f"{i}.{suffix}" for i in range(2)]
    for i, file in enumerate(files):
        file.write_bytes(PACK[suffix](b"".join(f"{i} line {n * n}\n".encode() for n in range(2000))))
    bar = CountingBar()
    assert sum(map(len, read(*files, bar=bar))) == 4000
    assert bar.done == total_bytes(plan_stretches(files, ReadingConfig()))


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zst"])
def test_compressed_files_laid_end_to_end_are_one(tmp_path, suffix):
    file = tmp_path / f"text.{suffix}"
    file.write_bytes(PACK[suffix](b"one\n") + PACK[suffix](b"two\n"))
    assert read(file) == [["one", "two"]]


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zst"])
@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_compressed_files_cut_short_are_errors(tmp_path, suffix, kept):
    file = tmp_path / f"text.{suffix}"
    packed = PACK[suffix](os.urandom(50_000).hex().encode())
    file.write_bytes(packed[: int(len(packed) * kept)])
    with pytest.raises(InputError, match=f"text.{suffix}: cannot be read: .*cut short"):
        read(file)


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zst"])
def test_files_that_are_not_what_their_name_says(tmp_path, suffix):
    file = tmp_path / f"text.{suffix}"
    file.write_bytes(b"just text\n" * 100)
    with pytest.raises(InputError, match="cannot be read: "):
        read(file)


def test_zst_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "text.zst").write_bytes(zstandard.compress(b"text"))
    with pytest.raises(InputError, match=r"cloze-bert\[zstd\]"):
        read(tmp_path / "text.zst")


def test_stdin(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert total_bytes(plan_stretches(["-"], ReadingConfig())) is None
    assert read(Path("-")) == DOCUMENTS


def test_line_ends_of_windows_a_byte_order_mark_and_no_last_line_end(tmp_path):
    file = tmp_path / "windows.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\n\r\ntwo")
    assert read(file) == [["one"], ["two"]]


def test_the_end_of_a_file_ends_a_document(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(name)
    assert read(tmp_path / "a", tmp_path / "b") == [["a"], ["b"]]


def files_of(inputs: list[object]) -> list[Path]:
    stretches = plan_stretches([str(each) for each in inputs], ReadingConfig())
    return [Path(span.file) for stretch in stretches for span in stretch.spans]


def test_folders_and_globs_are_read_by_name(tmp_path):
    for name in ("b.txt", "a.txt", "sub/c.txt", ".hidden", ".git/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    names = [str(file.relative_to(tmp_path)) for file in files_of([tmp_path])]
    assert names == ["a.txt", "b.txt", "sub/c.txt"]
    assert [file.name for file in files_of([f"{tmp_path}/*.txt"])] == ["a.txt", "b.txt"]
    assert [file.name for file in files_of([f"{tmp_path}/**/*.txt"])] == ["a.txt", "b.txt", "c.txt"]
    assert [file.name for file in files_of([tmp_path / "b.txt", tmp_path / "a.txt"])] == ["b.txt", "a.txt"]


def test_nothing_to_read(tmp_path):
    for given, message in (
        ([], "no input was given"),
        ([tmp_path], "no file in this folder"),
        ([tmp_path / "x"], "x: no such file"),
        ([f"{tmp_path}/*.txt"], "no such file"),
    ):
        with pytest.raises(InputError, match=message):
            plan_stretches(given, ReadingConfig())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"good\nb\xe9d\n", r"text:2: not UTF-8 at byte 2 of the line\. Convert the file"),
        (b"good\n\x7fELF\0\0", "text:2: a NUL byte"),
        ("good\n".encode("utf-16"), "text: text in UTF-16"),
        (b"good\n" + b"x" * 11_000_000, "text:2: a line of over 10 MB"),
        (b"\0" * 11_000_000, "text:1: a NUL byte"),
    ],
    ids=["latin1", "binary", "utf-16", "long line", "zeros"],
)
def test_what_cannot_be_text(tmp_path, content, message):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "text")


def test_a_document_over_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MAX_DOCUMENT_BYTES", 3_000_000)
    (tmp_path / "text").write_bytes(b"word\n" * 600_001)
    with pytest.raises(InputError, match=r"text:600001: a document of over 3 MB\. Put blank lines"):
        read(tmp_path / "text")


def test_a_line_over_the_limit_is_not_read_whole(tmp_path):
    file = tmp_path / "text"
    file.write_bytes(b"x" * 1000)
    with streams.open_bytes(str(file)) as (stream, _):
        lines = streams.Lines(str(file), stream, None, CountingBar(), max_line_bytes=100)
        with pytest.raises(InputError, match="text:1: a line of over"):
            list(lines)
        assert lines.next_offset == 101


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    (tmp_path / "text").write_text("secret")
    (tmp_path / "text").chmod(0)
    with pytest.raises(InputError, match=r"text: cannot be read: Permission denied$"):
        read(tmp_path / "text")


def test_parts_are_whole_documents_wherever_they_end(monkeypatch):
    monkeypatch.setattr(parts_of_documents, "_PART_CHARACTERS", 10)
    texts = [("four", "four"), ("four",), ("a line of many characters",), ("x",), ("y",)]
    documents = [Document(lines, "file:1", "sentences") for lines in texts]
    parts = list(in_parts(iter(documents)))
    assert parts == [documents[:2], documents[2:3], documents[3:]]


SENTENCES = ["He came.", "He saw Mr. Holmes.", "He left, didn't he?"]


@pytest.mark.parametrize(
    ("lines", "expected"), [(SENTENCES, "sentences"), ([" ".join(SENTENCES), "A title"], "paragraphs")]
)
def test_the_format_is_seen_from_the_first_lines(lines, expected):
    assert judge_text(lines * 30, 1000) == expected


def test_a_document_gives_its_sentences():
    line = " ".join(SENTENCES)
    assert Document((line,), "file:1", "sentences").sentences(str.split) == [line]
    assert Document((line, "One."), "file:1", "paragraphs").sentences(str.split) == [*line.split(), "One."]
