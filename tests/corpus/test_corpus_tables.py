"""Rows of Parquet, Arrow and the hub to documents; what is wrong with them is in test_bad_text."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cloze.corpus import tables
from cloze.corpus.documents import Document
from cloze.corpus.tables import read_arrow, read_hub, read_parquet, row_group_bytes
from cloze.errors import InputError
from cloze.progress import SILENT
from helpers import CountingBar

ROWS = ["One.\nTwo.", None, "  ", "König 👑"]
TEXTS = {1: ("One.", "Two."), 4: ("König 👑",)}


def expected(file: Path, repeats: int = 1) -> list[Document]:
    return [
        Document(lines, f"{file}:row {4 * repeat + row}", "paragraphs")
        for repeat in range(repeats)
        for row, lines in TEXTS.items()
    ]


def from_parquet(file: Path, text_field: str = "text", **piece: int | None) -> list[Document]:
    bar, size = CountingBar(), file.stat().st_size
    place = {"begin": 0, "end": None} | piece
    documents = list(read_parquet(str(file), text_field, bar, size_bytes=size, **place))
    assert bar.done == pytest.approx(size)
    return documents


def from_arrow(file: Path, text_field: str = "text") -> list[Document]:
    bar = CountingBar()
    documents = list(read_arrow(str(file), text_field, bar))
    assert bar.done == file.stat().st_size
    return documents


def test_a_row_over_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_DOCUMENT_BYTES", 3_000_000)
    long = "ä" * 1_500_000
    rows = pa.table({"text": ["One.", long, f"{long}."]})
    pq.write_table(rows.slice(0, 2), tmp_path / "a.parquet")
    assert [len(d.lines[0]) for d in from_parquet(tmp_path / "a.parquet")] == [4, 1_500_000]
    pq.write_table(rows, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    for read, file in ((from_parquet, "a.parquet"), (from_arrow, "a.arrow")):
        with pytest.raises(InputError, match=rf"{file}:row 3: a document of over 3 MB\. Split it"):
            read(tmp_path / file)


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_columns_of_text_of_any_type(tmp_path, kind):
    values = [row if row is None or not pa.types.is_binary(kind) else row.encode() for row in ROWS]
    rows = pa.table({"id": range(4), "text": pa.array(values, kind)})
    pq.write_table(rows, tmp_path / "a.parquet")
    assert from_parquet(tmp_path / "a.parquet") == expected(tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    assert from_arrow(tmp_path / "a.arrow") == expected(tmp_path / "a.arrow")


def test_a_column_of_nulls_holds_no_document(tmp_path):
    pq.write_table(pa.table({"text": pa.nulls(3)}), tmp_path / "a.parquet")
    assert from_parquet(tmp_path / "a.parquet") == []


@pytest.mark.parametrize("name", ["story.body", "story.more.body"])
def test_a_field_of_a_struct(tmp_path, name):
    value = [{"body": row, "more": {"body": row}} for row in ROWS[:3]] + [None, {"body": "x", "more": None}]
    rows = pa.table({"story": value, "n": range(5)})
    pq.write_table(rows, tmp_path / "a.parquet")
    documents = from_parquet(tmp_path / "a.parquet", name)
    assert [document.lines for document in documents] == [("One.", "Two."), ("x",)][: 2 - name.count("more")]


def test_a_name_with_a_dot_in_it(tmp_path):
    pq.write_table(pa.table({"story.body": ROWS}), tmp_path / "a.parquet")
    assert from_parquet(tmp_path / "a.parquet", "story.body") == expected(tmp_path / "a.parquet")


def test_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_ROWS", 3)
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ROWS * 5}), file, row_group_size=8)
    whole = expected(file, 5)
    assert from_parquet(file) == whole
    assert len(row_group_bytes(str(file))) == 3
    assert sum(row_group_bytes(str(file))) < file.stat().st_size
    assert from_parquet(file, begin=1, end=2) == whole[4:8]
    assert from_parquet(file, begin=2) == whole[8:]


@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_both_forms_of_arrow(tmp_path, monkeypatch, new):
    monkeypatch.setattr(tables, "_ROWS", 3)
    rows = pa.table({"text": ROWS * 5})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, new(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=7)
    assert from_arrow(tmp_path / "a.arrow") == expected(tmp_path / "a.arrow", 5)


def test_no_more_than_a_few_rows_are_in_memory(tmp_path):
    file = tmp_path / "a.parquet"
    rows = pa.table({"text": ["word " * 20_000] * 500})  # 50 MB in one row group
    pq.write_table(rows, file, compression="zstd", use_dictionary=False, write_batch_size=16)
    del rows
    before, peak = pa.total_allocated_bytes(), 0
    with SILENT.bar("reading", total=None) as bar:
        for _ in read_parquet(str(file), "text", bar, begin=0, end=None, size_bytes=1):
            peak = max(peak, pa.total_allocated_bytes())
    assert peak - before < 20_000_000


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for the library, which remembers how it was called."""
    module = ModuleType("datasets")
    module.__spec__ = ModuleSpec("datasets", None)
    module.calls = []
    module.rows = [{"text": row} for row in ROWS]

    def load_dataset(*args: object, **kwargs: object) -> object:
        module.calls.append((args, kwargs))
        if args[0] == "no/such":
            raise FileNotFoundError("Dataset 'no/such' doesn't exist on the Hub")
        return iter(module.rows)

    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("hf:imdb", ("imdb", None, "train")),
        ("hf:wikimedia/wikipedia:20231101.en", ("wikimedia/wikipedia", "20231101.en", "train")),
        ("hf:imdb::test", ("imdb", None, "test")),
        ("hf:a/b:c:test[:10%]", ("a/b", "c", "test[:10%]")),
    ],
)
def test_the_hub(hub, name, called):
    assert list(read_hub(name, "text")) == expected(Path(name))
    path, config, split = called
    assert hub.calls == [((path, config), {"split": split, "streaming": True})]


def test_what_the_hub_does_not_have(hub):
    with pytest.raises(InputError, match=r"hf:no/such: datasets cannot read it: Dataset 'no/such' doesn't"):
        list(read_hub("hf:no/such", "text"))
    with pytest.raises(InputError, match=r"hf:imdb:row 1: no field 'body'\. .*there: text"):
        list(read_hub("hf:imdb", "body"))
