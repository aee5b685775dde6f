"""Inputs become files and input shards, which together have all documents once."""

import gzip
import io
import json
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cloze
from cloze.data.build.cleaning import CleaningConfig
from cloze.data.build.input_shards import (
    BuildRun,
    InputShard,
    ReadingConfig,
    check_documents,
    describe_input_formats,
    find_files,
    plan_input_shards,
    read_documents,
    total_bytes,
)
from cloze.data.reading.documents import Document, split_into_parts


def read(input_shards: list[InputShard]) -> list[Document]:
    return [document for input_shard in input_shards for document in read_documents(input_shard)]


def texts(input_shards: list[InputShard]) -> list[tuple[str, ...]]:
    return [document.lines for document in read(input_shards)]


SMALL = ReadingConfig(shard_bytes=1000)


def test_small_files_are_grouped_in_order(tmp_path):
    for number in range(10):
        (tmp_path / f"{number}.txt").write_text("word " * 60)
    input_shards = plan_input_shards([tmp_path], SMALL)
    assert [len(input_shard.ranges) for input_shard in input_shards] == [3, 3, 3, 1]
    assert [input_shard.size_bytes for input_shard in input_shards] == [900, 900, 900, 300]
    assert total_bytes(input_shards) == 3000


def test_a_compressed_file_counts_as_its_text(tmp_path):
    for number in range(2):
        (tmp_path / f"{number}").write_bytes(gzip.compress(b"x" * 100, 0))
    (tmp_path / "2").write_bytes(gzip.compress(b"x" * 5000, 0))
    input_shards = plan_input_shards([tmp_path], SMALL)
    sizes = [len(input_shard.ranges) for input_shard in input_shards]
    assert sizes == [2, 1]  # a compressed file cannot be cut


@given(
    st.lists(st.sampled_from(["", "", " ", "a", "ä b", "word " * 9]), max_size=60),
    st.integers(1, 60),
    st.sampled_from(["sentences", "paragraphs", "lines"]),
    st.booleans(),
)
def test_ranges_of_a_file_have_all_documents_once(tmp_path_factory, lines, size, text_format, ended):
    file = tmp_path_factory.mktemp("text") / "text"
    file.write_text("\n".join(lines) + "\n" * ended)
    whole = texts(plan_input_shards([file], ReadingConfig(text_format=text_format)))
    input_shards = plan_input_shards([file], ReadingConfig(text_format=text_format, shard_bytes=size))
    assert texts(input_shards) == whole
    assert total_bytes(input_shards) == file.stat().st_size


def test_documents_of_ranges_know_their_byte(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("".join(f"Document {number}.\n\n" for number in range(300)))
    content = file.read_bytes()
    documents = read(plan_input_shards([file], SMALL))
    assert documents[7].where == f"{file}:15"
    place = int(documents[-1].where.removeprefix(f"{file}:byte "))
    assert content[place:].startswith(b"Document 299.")


def test_parquet_is_split_between_row_groups(tmp_path):
    rows = [f"Document {number} of a hundred." for number in range(100)]
    pq.write_table(pa.table({"text": rows}), tmp_path / "a.parquet", row_group_size=20, compression="none")
    input_shards = plan_input_shards([tmp_path], SMALL)
    ranges = [(span.begin, span.end) for input_shard in input_shards for span in input_shard.ranges]
    assert ranges == [(0, 2), (2, 4), (4, 5)]
    documents = read(input_shards)
    assert [document.lines for document in documents] == [(row,) for row in rows]
    assert documents[50].where == f"{tmp_path / 'a.parquet'}:row 51"


def test_mixed_formats_are_described(tmp_path):
    (tmp_path / "a.txt").write_text("He came.\nHe left.\n\nThe end.\n")
    (tmp_path / "b.txt").write_text("He came. He saw. He left.\nHe did. Did he?\n\nThe end. Or not.\n")
    (tmp_path / "c.jsonl").write_text('{"text": "A king."}\n')
    (tmp_path / "d").write_text('<doc id="1">\nA\n</doc>\n')
    pq.write_table(pa.table({"text": ["A queen."]}), tmp_path / "e.parquet")
    (tmp_path / "f.txt").write_text("She came.\n")
    input_shards = plan_input_shards([tmp_path], ReadingConfig())
    assert describe_input_formats(input_shards) == [
        f"{tmp_path}/a.txt and 1 more: a sentence per line, a blank line between documents",
        f"{tmp_path}/b.txt: a paragraph per line, a blank line between documents",
        f"{tmp_path}/c.jsonl: JSON lines",
        f"{tmp_path}/d: documents as WikiExtractor writes them",
        f"{tmp_path}/e.parquet: Parquet",
    ]
    assert [document.lines[0] for document in read(input_shards)] == [
        *("He came.", "The end.", "He came. He saw. He left.", "The end. Or not."),
        *("A king.", "A", "A queen.", "She came."),
    ]


def test_a_named_format_applies_to_text_only(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "A king."}\n\n{"text": "A queen."}\n')
    pq.write_table(pa.table({"text": ["A prince."]}), tmp_path / "b.parquet")
    input_shards = plan_input_shards([tmp_path], ReadingConfig(text_format="lines"))
    assert texts(input_shards) == [('{"text": "A king."}',), ('{"text": "A queen."}',), ("A prince.",)]


def test_a_limit_takes_the_first_documents(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text("".join(f"{name}{number}\n\n" for number in range(400)))
    everything = texts(plan_input_shards([tmp_path], SMALL))
    (tmp_path / "d.jsonl").write_text("not JSON\n")  # it is not reached
    for limit in (1, 399, 401, 1200):
        input_shards = plan_input_shards([tmp_path], ReadingConfig(limit=limit, shard_bytes=1000))
        assert len(input_shards) == 1
        assert texts(input_shards) == everything[:limit]


def test_the_format_of_stdin_is_detected_on_reading(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "A king."}\n')))
    input_shards = plan_input_shards(["-"], ReadingConfig())
    assert total_bytes(input_shards) is None
    assert describe_input_formats(input_shards) == ["-: detected when it is read"]
    assert texts(input_shards) == [("A king.",)]


ROW = '{"text": "A king had three\\u0007 daughters.\\nThey were fair."}\n'


@pytest.mark.parametrize("workers", [1, 2])
def test_counts_and_the_first_error_do_not_depend_on_the_workers(tmp_path, workers):
    (tmp_path / "a.jsonl").write_text(ROW * 500 + '{"text": "Short."}\n')
    input_shards = plan_input_shards([tmp_path], SMALL)
    assert len(input_shards) > 20
    found = check_documents(input_shards, CleaningConfig(), BuildRun(workers=workers))
    assert (found.documents, found.lines, found.characters) == (500, 1000, 500 * 42)
    assert (found.cleaning.control.documents, found.cleaning.short_documents.documents) == (500, 1)
    (tmp_path / "a.jsonl").write_text("".join((ROW * 90, "not JSON\n") * 5))
    (tmp_path / "b.jsonl").write_text("nor this\n")
    with pytest.raises(cloze.InputError, match=r"a.jsonl:91: not JSON"):
        check_documents(plan_input_shards([tmp_path], SMALL), CleaningConfig(), BuildRun(workers=workers))


@pytest.mark.parametrize(("content", "documents"), [(ROW * 9, 9), ("\n\n", 0)])
def test_stdin_is_checked_by_the_main_process_and_may_be_empty(monkeypatch, capsys, content, documents):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    run = BuildRun(workers=2, progress=cloze.Progress())
    found = check_documents(plan_input_shards(["-"], SMALL), CleaningConfig(), run)
    assert found.documents == documents
    assert "reading: 0 bytes" in capsys.readouterr().err


def test_parts_have_whole_documents():
    texts = [("four", "four"), ("four",), ("a line of many characters",), ("x",), ("y",)]
    documents = [Document(lines, "file:1", "sentences") for lines in texts]
    parts = list(split_into_parts(iter(documents), 10))
    assert parts == [documents[:2], documents[2:3], documents[3:]]


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def names_of(given: Path | str, below: Path) -> list[str]:
    return [str(Path(file).relative_to(below)) for file in find_files(str(given))]


TREE = (
    *("b.txt", "a.txt", "a[1].txt", "AB/wiki_01", "AA/wiki_00"),
    *("sub/c.txt", "sub/.e.txt", ".hidden", ".git/d.txt"),
)


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("", ["AA/wiki_00", "AB/wiki_01", "a.txt", "a[1].txt", "b.txt", "sub/c.txt"]),
        ("*.txt", ["a.txt", "a[1].txt", "b.txt"]),
        ("A?", ["AA/wiki_00", "AB/wiki_01"]),
        ("**/*.txt", ["a.txt", "a[1].txt", "b.txt", "sub/c.txt"]),
        ("a*.txt", ["a.txt", "a[1].txt"]),
        ("sub*", ["sub/c.txt"]),
        (".hid*", [".hidden"]),
        (".git", [".git/d.txt"]),
    ],
)
def test_files_of_folders_and_globs_are_sorted_without_hidden_ones(tmp_path, name, files, is_remote):
    make(tmp_path, *TREE)
    root = str(tmp_path)
    if is_remote:
        root = "memory:///globs"
        for file in TREE:
            fsspec.filesystem("memory").pipe_file(f"/globs/{file}", b"text")
    found = find_files(f"{root}/{name}".rstrip("/"))
    assert [file.removeprefix(f"{root}/").removeprefix("memory://globs/") for file in found] == files
    if not is_remote:
        assert names_of(tmp_path / "a[1].txt", tmp_path) == ["a[1].txt"]


def test_links_are_followed_but_not_in_circles(tmp_path):
    make(tmp_path, "text/a.txt", "elsewhere/b.txt", "elsewhere/c.txt")
    (tmp_path / "text" / "file").symlink_to(tmp_path / "elsewhere" / "b.txt")
    (tmp_path / "text" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "text" / "up").symlink_to(tmp_path)
    (tmp_path / "text" / "self").symlink_to(tmp_path / "text")
    names = names_of(tmp_path / "text", tmp_path)
    assert names[:4] == ["text/a.txt", "text/file", "text/folder/b.txt", "text/folder/c.txt"]
    assert [name for name in names if name.count("text") > 2] == []


def saved(folder: Path, **state: object) -> None:
    make(folder, "data-1.arrow", "data-0.arrow", "cache-5.arrow")
    (folder / "dataset_info.json").write_text("{}")
    if state:
        (folder / "state.json").write_text(json.dumps(state))


def test_folders_of_save_to_disk(tmp_path):
    files = [{"filename": "data-1.arrow"}, {"filename": "data-0.arrow"}]
    saved(tmp_path / "one", _data_files=files, _indices_data_files=None)
    assert names_of(tmp_path / "one", tmp_path) == ["one/data-1.arrow", "one/data-0.arrow"]
    saved(tmp_path / "cache")
    assert names_of(tmp_path / "cache", tmp_path) == ["cache/data-0.arrow", "cache/data-1.arrow"]


def test_splits_are_read_in_order_or_alone(tmp_path):
    for split in ("train", "test"):
        saved(tmp_path / split, _data_files=[{"filename": "data-0.arrow"}])
    make(tmp_path, "README.md")
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert names_of(tmp_path, tmp_path) == ["train/data-0.arrow", "test/data-0.arrow"]
    assert names_of(tmp_path / "test", tmp_path) == ["test/data-0.arrow"]
