"""Inputs to stretches: what is planned depends on the files alone, and together the stretches are all of the text."""

import gzip
import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloze.corpus import sources
from cloze.corpus.documents import Document
from cloze.corpus.inputs import versions_of
from cloze.corpus.readers import read_documents
from cloze.corpus.sources import ReadingConfig, Stretch, describe_formats, plan_stretches, total_bytes
from cloze.errors import InputError
from cloze.progress import SILENT


def read(stretches: list[Stretch]) -> list[Document]:
    with SILENT.bar("reading", total=None) as bar:
        return [document for stretch in stretches for document in read_documents(stretch, bar)]


def texts(stretches: list[Stretch]) -> list[tuple[str, ...]]:
    return [document.lines for document in read(stretches)]


@pytest.fixture
def small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_STRETCH_BYTES", 1000)


def test_small_files_are_gathered_in_their_order(tmp_path, small_stretches):
    for number in range(10):
        (tmp_path / f"{number}.txt").write_text("word " * 60)
    stretches = plan_stretches([tmp_path], ReadingConfig())
    assert [len(stretch.spans) for stretch in stretches] == [3, 3, 3, 1]
    assert [stretch.size_bytes for stretch in stretches] == [900, 900, 900, 300]
    assert total_bytes(stretches) == 3000


def test_a_compressed_file_counts_for_the_text_in_it(tmp_path, small_stretches):
    for number in range(2):
        (tmp_path / f"{number}").write_bytes(gzip.compress(b"x" * 100, 0))
    (tmp_path / "2").write_bytes(gzip.compress(b"x" * 5000, 0))
    stretches = plan_stretches([tmp_path], ReadingConfig())
    assert [len(stretch.spans) for stretch in stretches] == [2, 1]  # a compressed file cannot be cut


def test_a_plan_depends_on_the_files_alone_and_json_can_hold_it(tmp_path, small_stretches):
    (tmp_path / "a.txt").write_text("A king.\n\n" * 900)
    (tmp_path / "b.jsonl").write_text('{"text": "A king."}\n' * 300)
    one, two = (plan_stretches([str(tmp_path)], ReadingConfig()) for _ in range(2))
    assert one == two
    assert len(one) > 10
    assert json.loads(json.dumps(one[3].as_dict()))["spans"][0] == {
        "file": str(tmp_path / "a.txt"),
        "text_format": "sentences",
        "begin": one[2].spans[0].end,
        "end": one[4].spans[0].begin,
        "size_bytes": one[3].size_bytes,
    }


@given(
    st.lists(st.sampled_from(["", "", " ", "a", "ä b", "word " * 9]), max_size=60),
    st.integers(1, 60),
    st.sampled_from(["sentences", "paragraphs", "lines"]),
    st.booleans(),
)
def test_pieces_of_a_file_hold_the_documents_of_the_whole(tmp_path_factory, lines, size, text_format, ended):
    file = tmp_path_factory.mktemp("text") / "text"
    file.write_text("\n".join(lines) + "\n" * ended)
    reading = ReadingConfig(text_format=text_format)
    whole = texts(plan_stretches([file], reading))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sources, "_STRETCH_BYTES", size)
        stretches = plan_stretches([file], reading)
    assert texts(stretches) == whole
    assert total_bytes(stretches) == file.stat().st_size


def test_pieces_say_where_a_document_begins(tmp_path, small_stretches):
    file = tmp_path / "a.txt"
    file.write_text("".join(f"Document {number}.\n\n" for number in range(300)))
    content = file.read_bytes()
    documents = read(plan_stretches([file], ReadingConfig()))
    assert documents[7].where == f"{file}:15"
    place = int(documents[-1].where.removeprefix(f"{file}:byte "))
    assert content[place:].startswith(b"Document 299.")


def test_what_is_wrong_in_a_piece_is_named_by_its_line(tmp_path, small_stretches):
    (tmp_path / "a.jsonl").write_text('{"text": "A king."}\n' * 300 + '{"text": 1}\n')
    with pytest.raises(InputError, match=r"a.jsonl:301: 'text' is a number"):
        read(plan_stretches([tmp_path / "a.jsonl"], ReadingConfig()))


def test_a_document_longer_than_a_piece_is_read_once(tmp_path, small_stretches):
    (tmp_path / "a.txt").write_text("a\n\n" + "word\n" * 2000 + "\nb\n")
    lines = texts(plan_stretches([tmp_path / "a.txt"], ReadingConfig()))
    assert [len(document) for document in lines] == [1, 2000, 1]


def test_a_parquet_is_cut_between_row_groups(tmp_path, small_stretches):
    rows = [f"Document {number} of a hundred." for number in range(100)]
    pq.write_table(pa.table({"text": rows}), tmp_path / "a.parquet", row_group_size=20, compression="none")
    stretches = plan_stretches([tmp_path], ReadingConfig())
    assert [(span.begin, span.end) for stretch in stretches for span in stretch.spans] == [
        (0, 2),
        (2, 4),
        (4, 5),
    ]
    documents = read(stretches)
    assert [document.lines for document in documents] == [(row,) for row in rows]
    assert documents[50].where == f"{tmp_path / 'a.parquet'}:row 51"


def test_formats_are_mixed_and_told(tmp_path):
    (tmp_path / "a.txt").write_text("He came.\nHe left.\n\nThe end.\n")
    (tmp_path / "b.txt").write_text("He came. He saw. He left.\nHe did. Did he?\n\nThe end. Or not.\n")
    (tmp_path / "c.jsonl").write_text('{"text": "A king."}\n')
    (tmp_path / "d").write_text('<doc id="1">\nA\n</doc>\n')
    pq.write_table(pa.table({"text": ["A queen."]}), tmp_path / "e.parquet")
    (tmp_path / "f.txt").write_text("She came.\n")
    stretches = plan_stretches([tmp_path], ReadingConfig())
    assert describe_formats(stretches) == [
        f"{tmp_path}/a.txt and 1 more: a sentence a line, a blank line between documents",
        f"{tmp_path}/b.txt: a paragraph a line, a blank line between documents",
        f"{tmp_path}/c.jsonl: JSON lines",
        f"{tmp_path}/d: documents as WikiExtractor writes them",
        f"{tmp_path}/e.parquet: Parquet",
    ]
    assert [document.lines[0] for document in read(stretches)] == [
        *("He came.", "The end.", "He came. He saw. He left.", "The end. Or not."),
        *("A king.", "A", "A queen.", "She came."),
    ]


def test_a_format_that_is_given_holds_for_text_but_not_for_tables(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "A king."}\n\n{"text": "A queen."}\n')
    pq.write_table(pa.table({"text": ["A prince."]}), tmp_path / "b.parquet")
    stretches = plan_stretches([tmp_path], ReadingConfig(text_format="lines"))
    assert texts(stretches) == [('{"text": "A king."}',), ('{"text": "A queen."}',), ("A prince.",)]


def test_names_in_capitals_say_the_same(tmp_path):
    (tmp_path / "A.CSV").write_text("text,label\na film,1\n")
    with pytest.raises(InputError, match="a table of columns, not running text"):
        list(plan_stretches([tmp_path / "A.CSV"], ReadingConfig()))


def test_inputs_know_when_they_were_written_anew(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    assert versions_of(["hf:some/text"]) == {"hf:some/text": "hf:some/text"}
    before = versions_of([str(tmp_path)])
    assert versions_of([str(file)]) == before
    os.utime(file, ns=(1, 1))
    assert versions_of([str(tmp_path)]) != before
    assert versions_of(["-"]) != versions_of(["-"])


def test_a_limit_takes_the_first_documents(tmp_path, small_stretches):
    for name in "abc":
        (tmp_path / name).write_text("".join(f"{name}{number}\n\n" for number in range(400)))
    everything = texts(plan_stretches([tmp_path], ReadingConfig()))
    for limit in (1, 399, 401, 1200, 5000):
        stretches = plan_stretches([tmp_path], ReadingConfig(limit=limit))
        assert len(stretches) == 1
        assert texts(stretches) == everything[:limit]


def test_a_limit_does_not_read_on(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "A king."}\nnot JSON\n')
    assert texts(plan_stretches([tmp_path], ReadingConfig(limit=1))) == [("A king.",)]


def test_stdin_is_told_apart_when_it_is_read(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "A king."}\n')))
    stretches = plan_stretches(["-"], ReadingConfig())
    assert total_bytes(stretches) is None
    assert describe_formats(stretches) == ["-: told apart when it is read"]
    assert texts(stretches) == [("A king.",)]


def test_inputs_may_be_paths_and_named_twice(tmp_path):
    file = Path(tmp_path / "a.txt")
    file.write_text("A king.\n")
    assert texts(plan_stretches([file, str(file)], ReadingConfig())) == [("A king.",), ("A king.",)]
