"""Documents of every text format."""

import gzip
import json
import textwrap
from pathlib import Path

import pytest

from cloze.data.build.input_shards import ReadingConfig, plan_input_shards, read_documents, total_bytes
from cloze.data.reading.documents import MAX_DOCUMENT_BYTES, Document
from cloze.errors import InputError
from helpers import CountingBar

TEXT = "One sentence. Another one.\n\tA second paragraph. Two.  \n\n \n\nA new document. It is.\n"
LINES = [("One sentence. Another one.", "A second paragraph. Two."), ("A new document. It is.",)]


def read(file: Path, **reading: object) -> list[Document]:
    input_shards = plan_input_shards([file], ReadingConfig(**reading))
    bar = CountingBar()
    documents = [document for input_shard in input_shards for document in read_documents(input_shard, bar)]
    assert bar.done == total_bytes(input_shards)
    return documents


@pytest.mark.parametrize("kind", ["sentences", "paragraphs"])
def test_documents_between_blank_lines(tmp_path, kind):
    (tmp_path / "a").write_text(TEXT)
    assert read(tmp_path / "a", text_format=kind) == [
        Document(LINES[0], f"{tmp_path}/a:1", kind),
        Document(LINES[1], f"{tmp_path}/a:6", kind),
    ]


def test_a_document_per_line(tmp_path):
    (tmp_path / "a").write_text("One document.\n\n  Another. With two sentences. \n")
    assert read(tmp_path / "a", text_format="lines") == [
        Document(("One document.",), f"{tmp_path}/a:1", "paragraphs"),
        Document(("Another. With two sentences.",), f"{tmp_path}/a:3", "paragraphs"),
    ]


def test_a_document_per_file(tmp_path):
    (tmp_path / "a").write_text("\n\n" + TEXT)
    assert read(tmp_path / "a", text_format="files") == [
        Document((*LINES[0], *LINES[1]), f"{tmp_path}/a:3", "paragraphs")
    ]
    (tmp_path / "b").write_text("\n \n")
    assert read(tmp_path / "b", text_format="files") == []


def test_a_wrapped_file(tmp_path):
    paragraphs = (
        "It was a bright cold day in April, and the clocks were striking thirteen. " * 5,
        "The end.",
    )
    wrapped = tuple(textwrap.fill(paragraph, 66) for paragraph in paragraphs)
    (tmp_path / "a").write_text("\n\n".join(wrapped))
    assert read(tmp_path / "a") == [Document(wrapped, f"{tmp_path}/a:1", "paragraphs")]


def test_json_lines(tmp_path):
    rows = [
        {"text": "One.\nTwo. \n\n\tThree.", "id": 1},
        {"text": "K\u00f6nig \U0001f451 \x00"},
        {"text": " \n"},
        {"text": None},
        {"text": "Last."},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    assert read(tmp_path / "a.jsonl") == [
        Document(("One.", "Two.", "Three."), f"{tmp_path}/a.jsonl:1", "paragraphs"),
        Document(("König 👑 \x00",), f"{tmp_path}/a.jsonl:2", "paragraphs"),
        Document(("Last.",), f"{tmp_path}/a.jsonl:5", "paragraphs"),
    ]


def test_null_text_has_no_document(tmp_path):
    rows = [{"story": None}, {"story": {"body": None}}, {"story": {"body": "A king."}}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert [document.where for document in read(tmp_path / "a.jsonl", text_field="story.body")] == [
        f"{tmp_path}/a.jsonl:3"
    ]


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"body": "A king."}, "body"),
        ({"story": {"body": "A king."}}, "story.body"),
        ({"story.body": "A king.", "story": {"body": "Not he."}}, "story.body"),
    ],
)
def test_the_text_field_is_configurable(tmp_path, row, name):
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    assert [document.lines for document in read(tmp_path / "a.jsonl", text_field=name)] == [("A king.",)]


def test_wikiextractor(tmp_path):
    (tmp_path / "wiki_00").write_text(
        '<doc id="12" url="https://en.wikipedia.org/wiki?curid=12" title="Anarchism">\n'
        "Anarchism\n\nAnarchism is a &lt;movement&gt; &amp; a philosophy.\n\n</doc>\n\n"
        '<doc id="13" url="" title="Nothing">\n\n</doc>\n'
        '<doc id="25" url="" title="Autism">\nAutism\n\nAutism is a disorder.\nIt begins early.\n\n</doc>\n'
    )
    assert read(tmp_path / "wiki_00") == [
        Document(
            ("Anarchism", "Anarchism is a <movement> & a philosophy."), f"{tmp_path}/wiki_00:1", "paragraphs"
        ),
        Document(
            ("Autism", "Autism is a disorder.", "It begins early."), f"{tmp_path}/wiki_00:11", "paragraphs"
        ),
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz"])
def test_a_column_of_a_table_is_text(tmp_path, name, separator):
    content = f'id{separator}review\n1{separator}"A king; and\n\na ""queen""."\n2{separator}\n3{separator}A tower.\n'
    if name == "a.tsv" and separator == "\t":  # not quote-parsed
        content = content.replace("\n\n", " ").replace('"', "")
    content = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    documents = read(tmp_path / name, text_field="review")
    assert [document.where.rpartition(":")[2] for document in documents] in (["2", "6"], ["2", "4"])
    assert " ".join(documents[0].lines).replace('"', "") == "A king; and a queen."
    assert documents[1].lines == ("A tower.",)


@pytest.mark.parametrize("text_format", ["sentences", "files"])
def test_a_line_or_document_at_the_limit_is_read(tmp_path, text_format):
    (tmp_path / "a").write_text("a" * 9_999_999 + "\n")
    assert len(read(tmp_path / "a", text_format=text_format)[0].lines[0]) == 9_999_999
    line, count = "word" * 1999 + "...\n", MAX_DOCUMENT_BYTES // 8000
    (tmp_path / "b").write_text(line * count)
    assert len(read(tmp_path / "b", text_format=text_format)[0].lines) == count
    (tmp_path / "b").write_text(line * (count + 1))
    with pytest.raises(InputError, match=f"b:{count + 1}: a document of over 32 MB"):
        read(tmp_path / "b", text_format=text_format)
