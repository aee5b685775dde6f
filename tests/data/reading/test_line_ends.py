"""Line ends, byte order marks and encodings: all readers agree, and each printed remedy works."""

import gzip
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloze.config import read_toml
from cloze.data.build.input_shards import ReadingConfig, plan_input_shards, read_documents
from cloze.data.reading.files import read_lines
from cloze.data.reading.formats import read_rows
from cloze.errors import InputError
from cloze.file_io import read_json
from helpers import task_of

LINES = ["Ein König kam. Er ging.", "Une fille, dit-il.", "", "Ένα, δύο. Τρία.", "さようなら。"]
SQUAD = {"data": [{"paragraphs": [{"context": "Ein König", "qas": [{"id": "1", "question": "Wer?"}]}]}]}


def documents(text_format: str) -> Callable[[Path], Any]:
    def read(file: Path) -> list[tuple[tuple[str, ...], str]]:
        shards = plan_input_shards([file], ReadingConfig(text_format=text_format))
        return [(document.lines, document.where) for shard in shards for document in read_documents(shard)]

    return read


def cells(*columns: str) -> Callable[[Path], Any]:
    return lambda file: [
        ([row.text(column) for column in columns], row.where) for row in read_rows(file, columns)
    ]


READERS: dict[str, tuple[list[str], Callable[[Path], Any]]] = {
    "lines.txt": (LINES, lambda file: list(read_lines(file))),
    **{f"{kind}.txt": (LINES, documents(kind)) for kind in ("auto", "sentences", "paragraphs", "lines", "files")},
    "documents.jsonl": ([json.dumps({"text": line}) for line in LINES], documents("auto")),
    "wiki_00": (['<doc id="1" title="A">', "A", "", LINES[0], "</doc>"], documents("auto")),
    "a.tsv": (["text\tlabel", "né\tpos", "b\tneg"], cells("text", "label")),
    "a.csv": (["text,label", '"né, ""so""",pos', "b,neg"], cells("text", "label")),
    "a.jsonl": (['{"text": "né"}', "", '{"text": "b"}'], cells("text")),
    "a.conll": (["Zoë B-PER", "kam O", "", "Bo B-PER"], lambda file: list(task_of("tagging").examples(file))),
    "squad.json": (
        json.dumps(SQUAD, indent=1, ensure_ascii=False).split("\n"),
        lambda file: [
            (question.question, question.paragraph.text)
            for question in task_of("squad_v1").examples(file, labeled=False)
        ],
    ),
}  # fmt: skip


def read_as(name: str, content: bytes, folder: Path) -> Any:
    file = folder / name
    file.write_bytes(content)
    return READERS[name][1](file)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_marks_do_not_change_what_is_read(tmp_path, name, end, mark):
    lines = READERS[name][0]
    expected = read_as(name, ("\n".join(lines) + "\n").encode(), tmp_path)
    assert expected
    for last in ("", end):
        content = (mark + end.join(lines) + last).encode()
        assert read_as(name, content, tmp_path) == expected


@given(lines=st.lists(st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8")), max_size=8))
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_that_were_written(tmp_path_factory, lines, end):
    file = tmp_path_factory.mktemp("lines") / "text"
    file.write_bytes("".join(line + end for line in lines).encode())
    assert [line for line, _ in read_lines(file)] == [line.removeprefix("\ufeff") for line in lines]


@pytest.mark.parametrize("name", ["lines.txt", "sentences.txt", "documents.jsonl", "a.jsonl"])
def test_files_with_marks_may_be_concatenated(tmp_path, name):
    content = ("\n".join(READERS[name][0]) + "\n").encode()
    expected = read_as(name, content * 2, tmp_path)
    mark = "\ufeff".encode()
    assert read_as(name, mark + content + mark + content, tmp_path) == expected


def test_lines_of_a_compressed_file_may_end_in_cr(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"\r".join([b"word"] * 99_999)))
    assert [line for line, _ in read_lines(tmp_path / "a.gz")] == ["word"] * 99_999


def test_a_lone_cr_within_a_file_with_lf_is_part_of_its_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\rtwo\nthree\n")
    assert [line for line, _ in read_lines(tmp_path / "a.txt")] == ["one\rtwo", "three"]


def test_ranges_of_a_file_with_cr_have_all_documents_and_know_their_lines(tmp_path):
    rows = [json.dumps({"text": f"Number {number}."}) for number in range(300)]
    (tmp_path / "a.jsonl").write_text("\r".join([*rows, '{"text": 1}']), newline="")
    shards = plan_input_shards([tmp_path / "a.jsonl"], ReadingConfig(shard_bytes=1000))
    assert len(shards) > 5
    read = (document for shard in shards for document in read_documents(shard))
    assert [next(read).lines for _ in rows] == [(f"Number {number}.",) for number in range(300)]
    with pytest.raises(InputError, match=r"a\.jsonl:301: 'text' is a number"):
        next(read)


def follow(remedy: str, file: Path) -> None:
    """Run the command of a remedy, with OLD and NEW as it says."""
    (command,) = re.findall(r"(?:iconv|tr) .*?OLD > NEW", remedy)
    old = file.rename(file.with_name("OLD"))
    subprocess.run(command, shell=True, check=True, cwd=file.parent)
    (file.parent / "NEW").rename(file)
    old.unlink()


@pytest.mark.skipif(shutil.which("iconv") is None or os.name == "nt", reason="needs iconv")
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16le", "utf-16be", "utf-32", "latin-1", "windows-1252"])
def test_the_remedy_for_another_encoding_works(tmp_path, name, encoding):
    is_single_byte = encoding in ("latin-1", "windows-1252")
    text = "\n".join(READERS[name][0]).encode("latin-1", "ignore").decode("latin-1") + "\n"
    if encoding == "windows-1252":
        text = re.sub("[äöüéë]", "€", text, count=1)
    if is_single_byte and text.isascii():
        pytest.skip("the same in both encodings")
    expected = read_as(name, text.encode(), tmp_path)
    with pytest.raises(InputError) as raised:
        read_as(name, text.encode(encoding), tmp_path)
    assert raised.value.exit_code == 2
    what = "not UTF-8 at byte" if is_single_byte else f"text in {encoding[:6].upper()}, not in UTF-8"
    assert what in raised.value.what
    follow(raised.value.remedy or "", tmp_path / name)
    assert READERS[name][1](tmp_path / name) == expected


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.conll"])
def test_the_remedy_for_cr_with_an_lf_at_the_end_works(tmp_path, name):
    lines = READERS[name][0]
    expected = read_as(name, ("\n".join(lines) + "\n").encode(), tmp_path)
    with pytest.raises(InputError, match=r"a carriage return in (the name|a cell|a line)") as raised:
        read_as(name, ("\r".join(lines) + "\n").encode(), tmp_path)
    (command,) = re.findall(r"tr .*", raised.value.remedy or "")
    subprocess.run(command.replace("OLD", name), shell=True, check=True, cwd=tmp_path)
    (tmp_path / "NEW").rename(tmp_path / name)
    assert READERS[name][1](tmp_path / name) == expected


def test_the_remedy_for_cr_before_lf_works(tmp_path):
    with pytest.raises(InputError, match="lines end in CR at first, and later in LF") as raised:
        read_as("lines.txt", b"One.\r" * 90_000 + b"Two.\n", tmp_path)
    follow(raised.value.remedy or "", tmp_path / "lines.txt")
    assert len(list(read_lines(tmp_path / "lines.txt"))) == 90_001


def test_a_mark_does_not_spoil_settings(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbfsteps = 1\r\n")
    assert read_toml(tmp_path / "a.toml") == {"steps": 1}
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"steps": 1}')
    assert read_json(tmp_path / "a.json") == {"steps": 1}
