"""Text faults over all readers: encodings, line ends, marks, compression, damage and long lines.

Every reader reads the same from all spellings of a text, and refuses a fault in one line with its place.
"""

import bz2
import gzip
import json
import lzma
import os
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cloze
from cloze.config import read_toml
from cloze.data.build.input_shards import ReadingConfig, plan_input_shards, read_documents
from cloze.data.reading.files import read_lines
from cloze.data.reading.formats import read_rows
from cloze.data.reading.text_layout import HEAD_BYTES
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.inference.embedding_files import read_texts
from cloze.tasks.config import load_finetuned_task, save_finetuned
from helpers import compress_zstd, task_of
from tiny_models import SPECIAL, tiny_config

pytestmark = pytest.mark.protected

LINES = ["Ein König kam. Er ging.", "Une fille, dit-il.", "", "Ένα, δύο. Τρία.", "さようなら。"]
ANSWER = {"text": "König", "answer_start": 4}
QUESTION = {"id": "1", "question": "Wer?", "answers": [ANSWER]}
SQUAD = {"data": [{"paragraphs": [{"context": "Ein König", "qas": [QUESTION]}]}]}


def documents(text_format):
    def read(file, encoding=None):
        shards = plan_input_shards([file], ReadingConfig(text_format=text_format, encoding=encoding))
        return [(document.lines, document.where) for shard in shards for document in read_documents(shard)]

    return read


def cells(*columns):
    def read(file, encoding=None):
        task = task_of("classification", encoding=encoding)
        if len(columns) == 2 and encoding:
            return [([example.text, example.gold], example.where) for example in task.examples(file)]
        return [([row.text(column) for column in columns], row.where) for row in read_rows(file, columns)]

    return read


def examples(task, show):
    return lambda file, encoding=None: [*map(show, task_of(task, encoding=encoding).examples(file))]


READERS = {
    "lines.txt": (LINES, lambda file, encoding=None: list(read_lines(file, encoding))),
    "texts.txt": (LINES, lambda file, encoding=None: list(read_texts(file, encoding=encoding))),
    **{f"{kind}.txt": (LINES, documents(kind)) for kind in ("auto", "sentences", "paragraphs", "lines", "files")},
    "documents.jsonl": ([json.dumps({"text": line}) for line in LINES], documents("auto")),
    "documents.csv": (["text,row", '"Ein König kam, er ging.",1', "b,2"], documents("auto")),
    "wiki_00": (['<doc id="1" title="A">', "A", "", LINES[0], "</doc>"], documents("auto")),
    "a.tsv": (["text\tlabel", "né\tpos", "b\tneg"], cells("text", "label")),
    "a.csv": (["text,label", '"né, ""so""",pos', "b,neg"], cells("text", "label")),
    "a.jsonl": (['{"text": "né", "label": "a"}', "", '{"text": "b", "label": "c"}'], cells("text", "label")),
    "a.conll": (["Zoë B-PER", "kam O", "", "Bo B-PER"], examples("tagging", lambda text: text.sentences)),
    "squad.json": (
        json.dumps(SQUAD, indent=1, ensure_ascii=False).split("\n"),
        examples("squad_v1", lambda question: (question.question, question.paragraph.text, question.answers)),
    ),
}  # fmt: skip
"""The lines of a file by its name, and the function that reads it."""
PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": compress_zstd}
of_all_readers = pytest.mark.parametrize("name", READERS)


def good(name):
    return "".join(f"{line}\n" for line in READERS[name][0])


def read_as(name, content, folder, suffix="", encoding=None):
    file = folder / f"{name}{suffix}"
    file.write_bytes(content)
    result = READERS[name][1](file, **({"encoding": encoding} if encoding else {}))
    return json.loads(json.dumps(result, default=repr).replace(f"{file}", f"{folder / name}"))


def refused(name, content, folder, suffix="", encoding=None):
    with pytest.raises(InputError) as raised:
        read_as(name, content, folder, suffix, encoding)
    assert raised.value.exit_code == 2
    assert str(raised.value).startswith(f"{folder / name}{suffix}")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400 + 2 * len(str(folder))
    return raised.value


@of_all_readers
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_marks_do_not_change_what_is_read(tmp_path, name, end, mark):
    expected = read_as(name, good(name).encode(), tmp_path)
    assert expected
    for last in ("", end):
        assert read_as(name, (mark + end.join(READERS[name][0]) + last).encode(), tmp_path) == expected


@of_all_readers
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_text_in_an_encoding_is_that_of_utf8(tmp_path, name, encoding):
    text = good(name)
    if not encoding.startswith("utf"):
        text = text.encode("cp1252", "ignore").decode("cp1252")
    expected = read_as(name, text.encode(), tmp_path)
    assert read_as(name, text.encode(encoding), tmp_path, encoding=encoding) == expected


@of_all_readers
@pytest.mark.parametrize("suffix", PACK)
def test_compressed_files_are_read_and_damaged_ones_refused(tmp_path, name, suffix):
    content = good(name).encode()
    packed, pad = PACK[suffix](content), os.urandom(300)
    expected = read_as(name, content, tmp_path)
    assert read_as(name, packed, tmp_path, suffix) == expected
    split = content.index(b"\n") + 1
    in_two_parts = PACK[suffix](content[:split]) + PACK[suffix](content[split:])
    assert read_as(name, in_two_parts, tmp_path, suffix) == expected
    other = PACK[".xz" if suffix == ".gz" else ".gz"](content)
    flipped = bytearray(PACK[suffix](content + b"\n" * 60))
    flipped[len(flipped) // 2] ^= 0xFF
    shortened = packed[:3], packed[: len(packed) // 2], packed[:-1]
    for damaged in (*shortened, packed + pad, bytes(flipped), content, other):
        if suffix != ".zst" or damaged != bytes(flipped):  # without a checksum
            assert "cannot be read" in refused(name, damaged, tmp_path, suffix).what


BEGINNINGS = [
    (b"%PDF-1.7\n%\xe2\xe3", "a PDF", "pdftotext"),
    (b"\x89PNG\r\n\x1a\n\0\0", "an image, not text", "Give a file"),
    (b"PK\3\4\x14\0", "a ZIP archive", "Unpack it"),
    (b"<mediawiki xmlns=''>\n<page>", "a wiki dump", "WikiExtractor"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of git-lfs", "git lfs pull"),
    (b"\n<!DOCTYPE html>\n<p>Text.", "HTML, not text", "html2text"),
    (b"<HTML lang='en'>\n<p>Text.", "HTML, not text", "html2text"),
    (b"\xef\xbb\xbf<?xml version='1.0'?>\n<!DOCTYPE html PUBLIC '-//W3C'>", "HTML, not text", "html2text"),
]


@of_all_readers
@pytest.mark.parametrize(("content", "what", "remedy"), BEGINNINGS)
def test_other_kinds_of_files_are_refused(tmp_path, name, content, what, remedy):
    for written, suffix in ((content, ""), (gzip.compress(content), ".gz")):
        error = refused(name, written, tmp_path, suffix)
        assert error.what.startswith(what)
        assert remedy in error.remedy


BAD_LINES = {
    b"a\0b": "a NUL byte", bytes(3000): "a NUL byte", b"caf\xe9 a": "not UTF-8 at byte 4 of the line",
    b"a \xc3": "not UTF-8 at byte 3 of the line", b"\xed\xa0\xbd": "not UTF-8 at byte 1 of the line",
    b"ab \x7fELF\x02\xff\xfe": "not UTF-8 at byte 9 of the line",
}  # fmt: skip


@of_all_readers
@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: repr(line[:9]))
def test_a_line_that_is_no_text_is_named(tmp_path, name, line):
    content = good(name).encode()
    for before in (0, content.index(b"\n") + 1, len(content)):
        error = refused(name, content[:before] + line + b"\n" + content[before:], tmp_path)
        assert BAD_LINES[line] in error.what
        assert str(error.where).endswith(f":{content[:before].count(10) + 1}")
    assert ("Give UTF-8" if b"\0" in line else "or fix this line") in error.remedy


@of_all_readers
def test_a_line_over_the_limit_is_named(tmp_path, name):
    limit = {"documents.jsonl": 32, "squad.json": 500}.get(name, 10)
    if limit == 500:
        pytest.skip("a file that is parsed as a whole: test_files.py")
    content = good(name).encode() + b"a" * (limit * 1_000_000 + 2_000_000)
    error = refused(name, content, tmp_path)
    assert f"a line of over {limit} MB" in error.what
    assert str(error.where).endswith(f":{len(READERS[name][0]) + 1}")


def follow(remedy, file):
    """Run the command of a remedy, with OLD and NEW as it says."""
    (command,) = re.findall(r"(?:iconv|tr) .*?OLD > NEW", remedy)
    file.rename(file.with_name("OLD"))
    subprocess.run(command, shell=True, check=True, cwd=file.parent)
    file.with_name("NEW").rename(file)


@pytest.mark.skipif(shutil.which("iconv") is None or os.name == "nt", reason="needs iconv")
@of_all_readers
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16le", "utf-16be", "utf-32", "latin-1", "windows-1252"])
def test_the_remedy_for_another_encoding_works(tmp_path, name, encoding):
    is_single_byte = encoding in ("latin-1", "windows-1252")
    text = good(name).encode("latin-1", "ignore").decode("latin-1")
    if encoding == "windows-1252":
        text = re.sub("[äöüéë]", "€", text, count=1)
        text = text.replace('"K€nig"', '"König"').replace("Ein K€nig", "Ein König")
    if is_single_byte and text.isascii():
        pytest.skip("the same in both encodings")
    expected = read_as(name, text.encode(), tmp_path)
    error = refused(name, text.encode(encoding), tmp_path)
    what = "not UTF-8 at byte" if is_single_byte else f"text in {encoding[:6].upper()}, not in UTF-8"
    assert what in error.what
    follow(error.remedy, tmp_path / name)
    assert read_as(name, (tmp_path / name).read_bytes(), tmp_path) == expected


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.conll"])
def test_the_remedy_for_cr_with_an_lf_at_the_end_works(tmp_path, name):
    expected = read_as(name, good(name).encode(), tmp_path)
    error = refused(name, ("\r".join(READERS[name][0]) + "\n").encode(), tmp_path)
    assert re.match("a carriage return in (the name|a cell|a line)", error.what)
    follow(error.remedy, tmp_path / name)
    assert read_as(name, (tmp_path / name).read_bytes(), tmp_path) == expected


def test_the_remedy_for_cr_before_lf_works(tmp_path):
    error = refused("lines.txt", b"One.\r" * 90_000 + b"Two.\n", tmp_path)
    assert "lines end in CR at first, and later in LF" in error.what
    follow(error.remedy, tmp_path / "lines.txt")
    assert len(list(read_lines(tmp_path / "lines.txt"))) == 90_001


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        (b"\xe9", None, r"a\.txt:1: not UTF-8.* Say `encoding=cp1252` if .* \(iconv -f windows-1252"),
        ("a\n".encode("utf-16"), None, r"a\.txt: text in UTF-16.* iconv .*, or say `encoding=utf-16`"),
        (b"ab\x81", "cp1252", r"a\.txt: not cp1252 at byte 3\. Say another `encoding`"),
        ("ab\u65e5\u672c\u8a9e".encode("utf-16-be"), None, r"text in UTF-16.* or say `encoding=utf-16be`"),
        (b"ab\n", "utf-16", r"a\.txt: not utf-16(?: at byte 1)?\. Say another `encoding`"),
        ("a\n".encode("utf-16-le") + b"b", "utf-16-le", r"a\.txt: not utf-16-le at byte 5"),
        ("abc\n".encode("utf-16-le"), "latin-1", r"a\.txt: text in UTF-16"),
        (b"a", "rot13", r"encoding: no encoding 'rot13'\. Write it as in utf-8, latin-1"),
        (b"a", "a\0b", "encoding: no encoding"),
    ],
)
def test_text_that_is_not_in_the_encoding_is_refused(tmp_path, content, encoding, message):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_texts(tmp_path / "a.txt", encoding=encoding))


def test_longer_text_than_a_buffer(tmp_path):
    lines = [f"{number} großes Café\N{PARTY POPPER}" for number in range(20_000)]
    assert read_as("texts.txt", "\n".join(lines).encode("utf-16"), tmp_path, encoding="utf-16") == lines


@given(lines=st.lists(st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8")), max_size=8))
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_that_were_written(tmp_path_factory, lines, end):
    file = tmp_path_factory.mktemp("lines") / "text"
    file.write_bytes("".join(line + end for line in lines).encode())
    assert [line for line, _ in read_lines(file)] == [line.removeprefix("\ufeff") for line in lines]


@pytest.mark.parametrize("name", ["lines.txt", "texts.txt", "sentences.txt", "documents.jsonl", "a.jsonl"])
def test_files_with_marks_may_be_concatenated(tmp_path, name):
    content, mark = good(name).encode(), "\ufeff".encode()
    assert read_as(name, (mark + content) * 2, tmp_path) == read_as(name, content * 2, tmp_path)


@pytest.mark.parametrize(("pack", "count"), [(bytes, 2), (gzip.compress, 99_999)])
def test_lines_may_end_in_cr_if_none_ends_in_lf(tmp_path, pack, count):
    (tmp_path / "a").write_bytes(pack(b"\r".join([b"word"] * count)))
    assert [line for line, _ in read_lines(tmp_path / "a")] == ["word"] * count
    (tmp_path / "b").write_bytes(pack(b"one\rtwo\nthree\n"))
    assert [line for line, _ in read_lines(tmp_path / "b")] == ["one\rtwo", "three"]
    (tmp_path / "c").write_bytes(pack(b"x" * (HEAD_BYTES - 1) + b"\r\n"))  # between the head and the rest
    assert [len(line) for line, _ in read_lines(tmp_path / "c")] == [HEAD_BYTES - 1]


def test_ranges_of_a_file_with_cr_have_all_documents_and_know_their_lines(tmp_path):
    rows = [json.dumps({"text": f"Number {number}."}) for number in range(300)]
    (tmp_path / "a.jsonl").write_text("\r".join([*rows, '{"text": 1}']), newline="")
    shards = plan_input_shards([tmp_path / "a.jsonl"], ReadingConfig(shard_bytes=1000))
    assert len(shards) > 5
    read = (document for shard in shards for document in read_documents(shard))
    assert [next(read).lines for _ in rows] == [(f"Number {number}.",) for number in range(300)]
    with pytest.raises(InputError, match=r"a\.jsonl:301: 'text' is a number"):
        next(read)


def test_a_mark_does_not_spoil_settings(tmp_path):
    contents = (read_toml, "a.toml", b"steps = 1\r\n"), (read_json, "a.json", b'{"steps": 1}')
    for read, name, content in contents:
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content)
        assert read(tmp_path / name) == {"steps": 1}


def write(path, content, encoding):
    path.write_bytes(content.encode(encoding))
    return path


def test_only_what_takes_an_encoding_advises_it(tmp_path):
    gold = write(tmp_path / "gold.jsonl", json.dumps({"text": "a", "label": "gut"}), "utf-8")
    answers = write(tmp_path / "answers.jsonl", '{"row": 1, "label": "schön"}', "latin-1")
    with pytest.raises(InputError, match=r"answers\.jsonl:1: not UTF-8") as refused:
        cloze.score("classification", answers, gold=gold)
    assert str(refused.value.remedy).startswith("Convert the file")
    for name in ("answers.jsonl", "answers.csv"):
        wide = write(tmp_path / name, "row,label\n1,gut\n", "utf-16")
        with pytest.raises(InputError, match=rf"{name}: text in UTF-16") as refused:
            cloze.score("classification", wide, gold=gold)
        assert str(refused.value.remedy) == "Convert it: iconv -f utf-16 -t utf-8 OLD > NEW"
    write(answers, '{"row": 1, "label": "schön"}', "latin-1")
    with pytest.raises(InputError) as refused:
        cloze.score("classification", gold, gold=answers)
    assert str(refused.value.remedy).startswith("Say `encoding=cp1252`")


def test_an_encoding_is_of_the_files_and_not_of_the_model(tmp_path):
    of_model = task_of("classification", labels=("x", "y"), text_column="note")
    task = of_model.with_settings({"encoding": "latin-1", "column_names": ("label", "text")})
    tokenizer = cloze.WordPieceTokenizer.from_tokens([*SPECIAL, "a"])
    model = task.answer.head(cloze.BertModel(tiny_config(tokenizer.tokens)))
    save_finetuned(tmp_path, model, tokenizer, task, max_seq_length=8)
    assert load_finetuned_task(tmp_path) == of_model


def test_names_of_columns_in_python_and_in_a_run(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("".join(f"é {i},good\nè {i},bad\n" for i in range(9)).encode("latin-1"))
    for names in ("text,label", ["text", "label"]):
        arguments = {"train": path, "model": "cloze-mini", "output": tmp_path / "run"}
        summary = cloze.validate_data("classification", **arguments, column_names=names, encoding="latin-1")
        assert summary["classes"] == {"bad": 8, "good": 8}
    with pytest.raises(InputError, match="column_names"):
        cloze.validate_data("tagging", train=path, model="cloze-mini", output="x", column_names="word,tag")
    assert task_of("tagging", encoding="latin-1").reader.encoding == "latin-1"
