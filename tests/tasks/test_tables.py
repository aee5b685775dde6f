"""Tables as they come, and what is said to those that cannot be read."""

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from cloze.errors import InputError
from cloze.tasks.classification import Classification
from cloze.tasks.tables import read_rows


def _read(
    tmp_path: Path, name: str, content: str | bytes, columns: tuple[str, ...] = ("text", "label")
) -> list:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    rows = read_rows(path, columns)
    return [(tuple(map(row.text, columns)), row.where.rpartition("/")[2]) for row in rows]


def test_a_tsv_is_never_quote_parsed(tmp_path: Path) -> None:
    rows = _read(tmp_path, "a.tsv", '\ufefflabel\ttext\tid\r\nx\t"never closed\t1\r\n\r\ny\ta\u2028b\x0cc\t2')
    assert rows == [(('"never closed', "x"), "a.tsv:2"), (("a\u2028b\x0cc", "y"), "a.tsv:4")]


def test_a_csv_is(tmp_path: Path) -> None:
    rows = _read(tmp_path, "a.csv", 'text,label\n"two\nlines, ""quoted""",x\n\nplain,y\n')
    assert rows == [(('two\nlines, "quoted"', "x"), "a.csv:2"), (("plain", "y"), "a.csv:5")]


def test_json_lines_take_numbers_as_labels(tmp_path: Path) -> None:
    rows = _read(
        tmp_path,
        "a.jsonl",
        '{"text": "é", "label": 1, "more": [null]}\n\n{"label": true, "text": "\\ud800"}\n',
    )
    assert rows == [(("é", "1"), "a.jsonl:1"), (("\ud800", "true"), "a.jsonl:3")]


BAD = {
    "empty": ("a.tsv", "", "a.tsv: holds no rows"),
    "header only": ("a.csv", "text,label\n", "a.csv: holds no rows"),
    "no rows of JSON": ("a.jsonl", "\n\n", "a.jsonl: holds no rows"),
    "another kind of file": (
        "a.docx",
        "text",
        "a.docx: not a table that cloze reads. Its name must end in .tsv",
    ),
    "latin-1": ("a.tsv", b"text\tlabel\n\xe9t\xe9\tx\n", "a.tsv:2: not UTF-8 at byte 1 of the line"),
    "utf-16": ("a.tsv", "text\tlabel\n".encode("utf-16"), "a.tsv:1: a NUL byte"),
    "binary": ("a.csv", b"text,label\nx\0y,z\n", "a.csv:2: a NUL byte"),
    "few cells": ("a.tsv", "text\tlabel\na\tx\nb\n", "a.tsv:3: 1 cells, the first line names 2 columns"),
    "many cells": ("a.csv", "text,label\na,x,y\n", "a.csv:2: 3 cells, the first line names 2 columns"),
    "misspelt column": (
        "a.tsv",
        "texts\tlabel\na\tx\n",
        "a.tsv:2: no column 'text'. Did you mean 'texts'? There are",
    ),
    "other columns": ("a.tsv", "sentence\tlabel\na\tx\n", "no column 'text'. There are 'sentence', 'label'"),
    "nameless column": ("a.tsv", "text\t\na\tx\n", "a.tsv:1: column 2 has no name"),
    "column twice": ("a.csv", "text,text\na,x\n", "a.csv:1: two columns are called 'text'"),
    "unclosed quote": ("a.csv", 'text,label\na,x\n"b,y\nc,z\n', "a.csv:3: a quotation mark is never closed"),
    "quote in the middle": ("a.csv", 'text,label\n"a"b,x\n', "a.csv:2: ',' expected after '\"'"),
    "unclosed quote, and much behind it": (
        "a.csv",
        'text,label\n"b,y\n' + "a long line,z\n" * 20_000,
        "a.csv:2: a quotation mark is never closed",
    ),
    "broken JSON": ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', "a.jsonl:2: not JSON"),
    "JSON array": ("a.jsonl", '["text", "label"]\n', "a.jsonl:1: not a JSON object"),
    "whole JSON": ("a.jsonl", "[\n{}\n]\n", "a.jsonl:1: not JSON"),
    "deep JSON": ("a.jsonl", "[" * 200_000, "a.jsonl:1: not JSON"),
    "key missing": ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', "a.jsonl:2: no column 'label'"),
    "empty object": ("a.jsonl", "{}\n", "a.jsonl:1: no column 'text'. The row is empty"),
    "null": ("a.jsonl", '{"text": null, "label": 1}\n', "a.jsonl:1: 'text' is null, not a text"),
    "not a number": ("a.jsonl", '{"text": NaN, "label": 1}\n', "a.jsonl:1: 'text' is NaN, not a text"),
    "list": ("a.jsonl", '{"text": ["a"], "label": 1}\n', "a.jsonl:1: 'text' is [\"a\"], not a text"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_table_is_told_where_and_why(tmp_path: Path, kind: str) -> None:
    name, content, message = BAD[kind]
    with pytest.raises(InputError) as raised:
        _read(tmp_path, name, content)
    assert message in str(raised.value)


def test_a_cell_may_be_long_and_a_name_in_capitals(tmp_path: Path) -> None:
    long = "a " * 100_000
    assert _read(tmp_path, "A.CSV", f"text,label\n{long},x\n") == [((long, "x"), "A.CSV:2")]


@pytest.mark.parametrize("suffix", ["tsv", "csv"])
def test_an_empty_line_is_a_row_of_one_empty_cell(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_text("text\na\n\nb\n")
    assert [(row.text("text"), row.where[-1]) for row in read_rows(path, ["text"])] == [
        ("a", "2"),
        ("", "3"),
        ("b", "4"),
    ]


def test_a_few_broken_rows_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\n" + "a\tx\n" * 20 + "b\n" * 10)
    assert len(list(read_rows(path, ["text"], skip_broken=True))) == 20
    with path.open("a") as file:
        file.write("b\n")
    with pytest.raises(InputError, match=r"a\.tsv:32: 11 of 31 rows have more or fewer cells"):
        list(read_rows(path, ["text"], skip_broken=True))


def test_other_columns_of_parquet_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = pyarrow.array([1, 10**18 + 1], pyarrow.timestamp("ns"))
    days = pyarrow.array([0, 10**8], pyarrow.date32())
    pyarrow.parquet.write_table(pyarrow.table({"when": times, "text": ["a", "b"], "day": days}), path)
    assert [row.text("text") for row in read_rows(path, ["text"])] == ["a", "b"]
    with pytest.raises(
        InputError, match=r"a\.parquet:1: a cell of this row or the 1 after it cannot be read"
    ):
        list(read_rows(path, ["day"]))
    with pytest.raises(InputError, match=r"a\.parquet:1: no column 'texts'\. Did you mean 'text'"):
        list(read_rows(path, ["texts"]))


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_rows(tmp_path / "none.tsv", ["text"]))
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        list(read_rows(tmp_path / "folder.tsv", ["text"]))


def test_white_space_around_a_label_says_nothing_and_json_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\na\tx\nb\tx \n")
    assert {example.label for example in Classification().examples(tmp_path / "a.tsv")} == {"x"}
    (tmp_path / "a.json").write_text('{"text": "a"}\n')
    with pytest.raises(InputError, match=r"a\.json: not a text\. A table's name ends in \.tsv"):
        list(Classification().examples(tmp_path / "a.json", labelled=False))


def test_a_label_must_be_there_a_text_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\n\tx\nb\t \n")
    with pytest.raises(InputError, match=r"a\.tsv:3: the cell 'label' is empty"):
        list(Classification().examples(path))
