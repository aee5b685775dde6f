"""Files of all kinds to documents, and one line of help for what cannot be read."""

import bz2
import gzip
import io
import lzma
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from cloze.corpus import readers
from cloze.corpus.readers import choose_format, find_files, in_parts, read_documents, total_bytes
from cloze.errors import InputError
from cloze.progress import SILENT

TEXT = "One sentence. Another one.\n\tA second paragraph.  \n\n \n\nA new document.\n"
DOCUMENTS = [["One sentence. Another one.", "A second paragraph."], ["A new document."]]
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


def read(*files: Path) -> list[list[str]]:
    return list(read_documents(files, CountingBar()))


@pytest.mark.parametrize("suffix", PACK)
def test_plain_and_compressed_text(tmp_path, suffix):
    file = tmp_path / f"text.{suffix}"
    file.write_bytes(PACK[suffix](TEXT.encode()))
    assert read(file) == DOCUMENTS


@pytest.mark.parametrize("suffix", PACK)
def test_the_bar_ends_at_the_size_of_the_files(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(readers, "_BYTES_BETWEEN_NEWS", 1000)
    files = [tmp_path / f"{i}.{suffix}" for i in range(2)]
    for i, file in enumerate(files):
        file.write_bytes(PACK[suffix](b"".join(f"{i} line {n * n}\n".encode() for n in range(2000))))
    bar = CountingBar()
    assert sum(map(len, read_documents(files, bar))) == 4000
    assert bar.done == total_bytes(files)


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
    (tmp_path / "text.zst").write_bytes(b"")
    with pytest.raises(InputError, match=r"cloze-bert\[zstd\]"):
        read(tmp_path / "text.zst")


def test_stdin(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    files = find_files(["-"])
    assert total_bytes(files) is None
    assert read(*files) == DOCUMENTS


def test_line_ends_of_windows_a_byte_order_mark_and_no_last_line_end(tmp_path):
    file = tmp_path / "windows.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\n\r\ntwo")
    assert read(file) == [["one"], ["two"]]


def test_the_end_of_a_file_ends_a_document(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(name)
    assert read(tmp_path / "a", tmp_path / "b") == [["a"], ["b"]]


def test_folders_and_globs_are_read_by_name(tmp_path):
    for name in ("b.txt", "a.txt", "sub/c.txt", ".hidden", ".git/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    names = [str(file.relative_to(tmp_path)) for file in find_files([tmp_path])]
    assert names == ["a.txt", "b.txt", "sub/c.txt"]
    assert [file.name for file in find_files([f"{tmp_path}/*.txt"])] == ["a.txt", "b.txt"]
    assert [file.name for file in find_files([f"{tmp_path}/**/*.txt"])] == ["a.txt", "b.txt", "c.txt"]
    assert [file.name for file in find_files([tmp_path / "b.txt", tmp_path / "a.txt"])] == ["b.txt", "a.txt"]


def test_nothing_to_read(tmp_path):
    for given, message in (
        ([], "no input was given"),
        ([tmp_path], "no file in this folder"),
        ([tmp_path / "x"], "x: no such file"),
        ([f"{tmp_path}/*.txt"], "no such file"),
    ):
        with pytest.raises(InputError, match=message):
            find_files(given)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"good\nb\xe9d\n", r"text:2: not UTF-8 at byte 2 of the line\. Convert it"),
        (b"good\n\x7fELF\0\0", "text:2: a NUL byte"),
        ("good\n".encode("utf-16"), "text:1: not UTF-8|text:1: a NUL byte"),
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


def test_a_line_over_the_limit_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MAX_LINE_BYTES", 100)
    file = tmp_path / "text"
    file.write_bytes(b"x" * 1000)
    bar = CountingBar()
    lines = readers._raw_lines(file, bar)
    assert len(next(lines)) == 101
    lines.close()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    (tmp_path / "text").write_text("secret")
    (tmp_path / "text").chmod(0)
    with pytest.raises(InputError, match=r"text: cannot be read: Permission denied$"):
        read(tmp_path / "text")


def test_parts_are_whole_documents_wherever_they_end(monkeypatch):
    monkeypatch.setattr(readers, "_PART_CHARACTERS", 10)
    documents = [["four", "four"], ["four"], ["a line of many characters"], ["x"], ["y"]]
    parts = list(in_parts(iter(documents)))
    assert parts == [documents[:2], documents[2:3], documents[3:]]


SENTENCES = ["He came.", "He saw Mr. Holmes.", "He left, didn't he?"]


@pytest.mark.parametrize(
    ("lines", "expected"), [(SENTENCES, "sentences"), ([" ".join(SENTENCES), "A title"], "paragraphs")]
)
def test_the_format_is_seen_from_the_first_lines(lines, expected):
    chosen, documents = choose_format(iter([lines] * 30), "auto", "en")
    assert chosen == expected
    assert list(documents) == [lines] * 30


def test_looking_reads_no_more_than_it_needs():
    def endless() -> Iterator[list[str]]:
        while True:
            yield SENTENCES

    chosen, documents = choose_format(endless(), "auto", "en")
    assert chosen == "sentences"
    assert next(documents) == SENTENCES


def test_a_format_that_was_given_is_not_doubted():
    assert choose_format(iter([[" ".join(SENTENCES)]]), "sentences", "en")[0] == "sentences"


def test_formats_split_lines():
    assert readers.FORMATS["sentences"]([" ".join(SENTENCES)], "en") == [" ".join(SENTENCES)]
    assert readers.FORMATS["paragraphs"]([" ".join(SENTENCES), "One."], "en") == [*SENTENCES, "One."]


def test_an_empty_corpus_has_no_format_to_speak_of():
    chosen, documents = choose_format(iter([]), "auto", "en", SILENT)
    assert chosen in readers.FORMATS
    assert list(documents) == []
