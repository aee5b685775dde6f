"""Documents of every text format; corpora that cannot be read are refused in one line.

A case is the files of a directory, the inputs, and words of the message; {tmp} is the directory.
"""

import gzip
import io
import json
import os
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cloze.data.build.input_shards import ReadingConfig, plan_input_shards, read_documents, total_bytes
from cloze.data.reading.documents import MAX_DOCUMENT_BYTES
from cloze.errors import InputError
from helpers import CountingBar

pytestmark = pytest.mark.protected

LINE = "Es war einmal ein König. Der hatte drei Töchter.\n"
TEXT = (LINE * 50).encode()
ROW = json.dumps({"text": LINE}) + "\n"
Files = Mapping[str, bytes | Callable[[Path], object]]


@dataclass(frozen=True)
class Case:
    files: Files
    says: tuple[str, ...]
    inputs: tuple[str, ...] = ("{tmp}",)
    reading: Mapping[str, object] = field(default_factory=dict)


def case(name, content, *says, **reading):
    """One file, read by its name."""
    return Case({name: content}, says, (f"{{tmp}}/{name}",), reading)


def of_json(content, *says, **reading):
    return case("rows.jsonl", (ROW + content).encode(), *says, **reading)


def cut(packed):
    return packed[: len(packed) * 2 // 3]


def parquet(rows):
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="none")
    return sink.getvalue()


def of_parquet(rows, *says, **reading):
    return case("a.parquet", parquet(rows), *says, **reading)


def arrow(rows):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=50)
    return sink.getvalue()


def saved(state=b'{"_data_files": [{"filename": "data-0.arrow"}]}'):
    """A directory as `save_to_disk` writes it, without its data file."""
    return {"state.json": state, "dataset_info.json": b"{}"}


GOOD = pa.table({"text": [LINE] * 200, "title": ["Märchen"] * 200, "year": [1812] * 200})
BYTES = pa.table({"text": pa.array([b"fine", b"caf\xe9"], pa.binary())})
NESTED = pa.table({"story": [{"body": LINE}]})

CASES = {
    # what is there
    "nothing named": Case({}, ("no input was given", "Name files"), ()),
    "no such file": Case({}, ("{tmp}/none: no such file",), ("{tmp}/none",)),
    "an empty folder": Case({}, ("{tmp}: no file in this folder",)),
    "a folder of hidden files": Case({".text": TEXT}, ("{tmp}: no file in this folder",)),
    "a glob that matches nothing": Case({}, ("{tmp}/*.txt: no such file",), ("{tmp}/*.txt",)),
    "one of several is missing": Case({"a": TEXT}, ("{tmp}/b: no such file",), ("{tmp}/a", "{tmp}/b")),
    "a link to nothing": Case(
        {"a": lambda path: path.symlink_to("none")}, ("{tmp}/a: cannot be read: No such file",)
    ),
    "a link to itself": Case(
        {"a": lambda path: path.symlink_to("a")}, ("{tmp}/a: cannot be read: Too many levels",), ("{tmp}/a",)
    ),
    "a pipe": case("pipe", os.mkfifo, "{tmp}/pipe: is not a regular file", "- < {tmp}/pipe"),
    "a pipe in a folder": Case({"a": TEXT, "pipe": os.mkfifo}, ("{tmp}/pipe: is not a regular file",)),
    "a device": Case({}, ("/dev/null: is not a regular file",), ("/dev/null",)),
    "no documents asked for": Case({"a": TEXT}, ("limit: 0 is less than 1",), reading={"limit": 0}),
    # sizes
    "a row of 33 MB": of_json('{"text": "' + "a" * 33_000_000, "{tmp}/rows.jsonl:2: a line of over 32 MB"),
    "a document of 33 MB": case(
        "a", TEXT * 14_000, "a document of over 32 MB", "`format=lines`", text_format="paragraphs"
    ),
    "a file of 33 MB": case("a", TEXT * 14_000, "a document of over 32 MB", text_format="files"),
    # JSON lines
    "JSON too deep": of_json("[" * 100_000 + "\n", "rows.jsonl:2: not JSON"),
    "a number too long": of_json('{"text": ' + "1" * 5000 + "}\n", "rows.jsonl:2: not JSON"),
    # Parquet
    "a Parquet without the column": of_parquet(
        GOOD.drop_columns(["text"]), "{tmp}/a.parquet: no field 'text'", "`text_field`: title."
    ),
    "a Parquet with two such columns": of_parquet(
        GOOD.append_column("text", GOOD["title"]),
        "a.parquet: several columns are called 'text'",
        "another name",
    ),
    "a column of numbers": of_parquet(GOOD, "a.parquet: the column 'year' is int64", text_field="year"),
    "an outer column": of_parquet(NESTED, "the column 'story' is struct", text_field="story"),
    "no such inner column": of_parquet(NESTED, "no field 'story.text'", text_field="story.text"),
    "bytes that are not UTF-8": of_parquet(BYTES, "{tmp}/a.parquet:row 2: a text that is not UTF-8"),
    "a cut Parquet": case("a.parquet", cut(parquet(GOOD)), "{tmp}/a.parquet: cannot be read", "cut short"),
    "a compressed Parquet": case("a.parquet.gz", gzip.compress(parquet(GOOD)), "a.parquet.gz: cannot be"),
    # Arrow
    "an Arrow stream cut after a batch": case("a.arrow", arrow(GOOD)[:-8], "it does not end as an Arrow"),
    "an Arrow stream without the column": case(
        "a.arrow", arrow(GOOD), "a.arrow: no field 'body'", "`text_field`: text, title", text_field="body"
    ),
    # save_to_disk
    "a data file missing": Case(saved(), ("{tmp}/data-0.arrow: cannot be read: No such file",)),
    "a damaged state.json": Case(saved(b"{"), ("{tmp}/state.json: not a JSON file", "again")),
    "a state.json that is a list": Case(saved(b"[]"), ("{tmp}/state.json: not a JSON object",)),
    "a selection of rows": Case(
        saved(b'{"_indices_data_files": [{"filename": "indices.arrow"}]}'),
        ("{tmp}: only a selection", "flatten_indices"),
    ),
    "a split missing": Case(
        {"dataset_dict.json": b'{"splits": ["train"]}'}, ("{tmp}/train: cannot be read: No such file",)
    ),
}


def read_all(inputs, reading):
    input_shards = plan_input_shards(inputs, ReadingConfig(**reading))
    return sum(1 for input_shard in input_shards for _ in read_documents(input_shard))


@pytest.fixture(autouse=True)
def no_datasets(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)


@pytest.mark.parametrize("name", CASES)
def test_bad_text_is_refused_in_one_line(name, tmp_path):
    each = CASES[name]
    for file, content in each.files.items():
        if isinstance(content, bytes):
            (tmp_path / file).write_bytes(content)
        else:
            content(tmp_path / file)
    inputs = tuple(given.format(tmp=tmp_path) for given in each.inputs)
    with pytest.raises(InputError) as raised:
        read_all(inputs, each.reading)
    line = str(raised.value)
    assert raised.value.exit_code == 2
    assert "\n" not in line
    assert len(line) < 400 + 2 * len(str(tmp_path))
    for words in each.says:
        assert words.replace("{tmp}", str(tmp_path)) in line


DOCUMENTS = json.loads(Path(__file__).with_name("documents.json").read_text("utf-8"))
"""Rows of a file, settings, its content, and its documents or parts of the error with … between them."""


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("name", "reading", "content", "expected"),
    [row for rows in DOCUMENTS.values() for row in rows],
    ids=[f"{what} {number}" for what, rows in DOCUMENTS.items() for number, _ in enumerate(rows, 1)],
)
def test_documents_are_read_or_refused(tmp_path, name, reading, content, expected, pack):
    if pack is gzip.compress and name.endswith(("parquet", "arrow")):
        pytest.skip("their own compression")
    name += ".gz" * (pack is gzip.compress)
    (tmp_path / name).write_bytes(pack(content.encode()))
    if isinstance(expected, str):
        with pytest.raises(InputError) as raised:
            read_all([str(tmp_path / name)], reading)
        for part in expected.split(" … "):
            assert part in str(raised.value).replace(".gz", "")
        return
    input_shards, bar = plan_input_shards([tmp_path / name], ReadingConfig(**reading)), CountingBar()
    documents = [document for input_shard in input_shards for document in read_documents(input_shard, bar)]
    read = [[d.where.removeprefix(f"{tmp_path}/").replace(".gz", ""), d.kind, *d.lines] for d in documents]
    assert read == expected
    assert bar.done == total_bytes(input_shards)


@pytest.mark.parametrize("text_format", ["sentences", "files"])
def test_a_line_or_document_at_the_limit_is_read(tmp_path, text_format):
    (tmp_path / "a").write_text("a" * 9_999_999 + "\n")
    assert read_all([str(tmp_path / "a")], {"text_format": text_format}) == 1
    line, count = "word" * 1999 + "...\n", MAX_DOCUMENT_BYTES // 8000
    (tmp_path / "b").write_text(line * count)
    assert read_all([str(tmp_path / "b")], {"text_format": text_format}) == 1
    (tmp_path / "b").write_text(line * (count + 1))
    with pytest.raises(InputError, match=f"b:{count + 1}: a document of over 32 MB"):
        read_all([str(tmp_path / "b")], {"text_format": text_format})


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "folder").mkdir(mode=0)
    (tmp_path / "text").write_bytes(TEXT)
    (tmp_path / "text").chmod(0)
    for name in ("text", "folder"):
        with pytest.raises(InputError, match=f"{name}: cannot be read: Permission denied$"):
            read_all((str(tmp_path / name),), {})


@pytest.mark.parametrize(("name", "limit"), [("text.txt", 10), ("rows.jsonl", 32)])
def test_a_line_of_300_mb_is_not_read_whole(tmp_path, name, limit):
    with (tmp_path / name).open("wb") as stream:
        for _ in range(300):
            stream.write(b"a" * 1_000_000)
    tracemalloc.start()
    with pytest.raises(InputError, match=f"{name}:1: a line of over {limit} MB"):
        read_all((str(tmp_path / name),), {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4e6 * limit


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (TEXT + LINE.encode("latin-1"), "-:51: not UTF-8"),
        (parquet(GOOD), "-: Parquet cannot be read from stdin"),
        (
            cut(gzip.compress(TEXT)),
            "-: cannot be read: Compressed file ended before the end-of-stream marker",
        ),
        (b'{"text": "a"}\n{"text": 1}\n', "-:2: 'text' is a number"),
    ],
    ids=["latin-1", "Parquet", "a cut .gz", "JSON lines"],  # what gzip writes holds the time
)
def test_bad_stdin_is_refused(monkeypatch, content, says):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(InputError, match=says):
        read_all(("-",), {})
