"""Rows of tables, and errors in them."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloze.data.reading.columns import Column
from cloze.data.reading.formats import open_source, read_rows
from cloze.data.reading.source import ReadOptions
from cloze.data.reading.tables import Row, parse_rows
from cloze.errors import DataWarning, InputError
from helpers import task_of

TEXT = Column("text")


def _read(
    tmp_path: Path, name: str, content: str | bytes, columns: tuple[str, ...] = ("text", "label")
) -> list:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    rows = read_rows(path, columns)
    return [(tuple(map(row.text, columns)), row.where.rpartition("/")[2]) for row in rows]


def _parse(path: Path, **options: Any) -> Iterator[Row]:
    source = open_source(path, ReadOptions(columns=(TEXT,), **options))
    return parse_rows(source, lambda row: row)


def test_a_tsv_is_never_quote_parsed(tmp_path: Path) -> None:
    rows = _read(tmp_path, "a.tsv", '\ufefflabel\ttext\tid\r\nx\t"never closed\t1\r\n\r\ny\ta\u2028b\x0cc\t2')
    assert rows == [(('"never closed', "x"), "a.tsv:2"), (("a\u2028b\x0cc", "y"), "a.tsv:4")]


def test_a_tsv_with_some_cells_in_quotation_marks_gives_one_warning_whose_remedy_works(
    tmp_path: Path,
) -> None:
    content = 'text\tlabel\nplain\tx\n"so ""fine"" a film"\ty\n"""Why?"""\tx\n'
    warning = r"a\.tsv:3: a cell in quotation .* \(the first of 2\)\. If cells .*, call the file \.csv"
    with pytest.warns(DataWarning, match=warning) as warned:
        rows = _read(tmp_path, "a.tsv", content)
    assert len(warned) == 1
    assert rows[1][0] == ('"so ""fine"" a film"', "y")
    rows = _read(tmp_path, "a.csv", content)
    assert [text for (text, _), _ in rows] == ["plain", 'so "fine" a film', '"Why?"']


def test_other_quotation_marks_in_a_tsv_give_no_warning(tmp_path: Path) -> None:
    texts = ['"', '""', '"""', '"a"', '"a" b "c"', 'say ""a""', '""a"" and ""b""', '"a "" b" c"']
    rows = _read(tmp_path, "a.tsv", "text\tlabel\n" + "".join(f"{text}\tx\n" for text in texts))
    assert [text for (text, _), _ in rows] == texts


TSV_AS_EXCEL_WRITES_IT = 'text\tlabel\nplain\tx\n"one, two"\ty\n'


@pytest.mark.parametrize(
    ("content", "line", "text"),
    [
        (TSV_AS_EXCEL_WRITES_IT, 3, "one, two"),
        (TSV_AS_EXCEL_WRITES_IT.replace("plain", '"plain"').replace("one,", "one"), 2, "one two"),
    ],
)
def test_cells_in_quotation_marks_in_a_tsv_are_warned_of_if_no_others_are_in_it(
    tmp_path: Path, content: str, line: int, text: str
) -> None:
    with pytest.warns(
        DataWarning, match=rf"a\.tsv:{line}: a cell in quotation marks is read as it is .*, call"
    ):
        assert _read(tmp_path, "a.tsv", content)[1][0][0] == f'"{text}"'
    assert _read(tmp_path, "a.csv", content)[1][0][0] == text
    assert _read(tmp_path, "a.tsv", content + 'He said "no".\tx\n')[1][0][0] == f'"{text}"'  # as in GLUE


@pytest.mark.parametrize("row", ['"one\ntwo\nthree"\tx\n', 'x\t"one\ntwo\nthree"\n', '"one\ttwo"\tx\n'])
def test_lines_and_tabs_in_quoted_cells_of_a_tsv_are_named_with_a_remedy_that_works(
    tmp_path: Path, row: str
) -> None:
    columns = ("text", "label") if row.startswith('"') else ("label", "text")
    content = "\t".join(columns) + "\n" + row
    with pytest.raises(
        InputError, match=r"cells, the first line names 2 columns .*call the file \.csv|call the file"
    ):
        _read(tmp_path, "a.tsv", content)
    [((text, label), _)] = _read(tmp_path, "a.csv", content)
    assert (label, len(text.split()) > 1) == ("x", True)


def test_a_csv_is_quote_parsed(tmp_path: Path) -> None:
    rows = _read(tmp_path, "a.csv", 'text,label\n"two\nlines, ""quoted""",x\n\nplain,y\n')
    assert rows == [(('two\nlines, "quoted"', "x"), "a.csv:2"), (("plain", "y"), "a.csv:5")]


def test_json_numbers_may_be_labels(tmp_path: Path) -> None:
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
    "utf-16": (
        "a.tsv",
        "text\tlabel\n".encode("utf-16"),
        "a.tsv: text in UTF-16, not in UTF-8. Convert it: iconv",
    ),
    "binary": ("a.csv", b"text,label\nx\0y,z\n", "a.csv:2: a NUL byte"),
    "few cells": ("a.tsv", "text\tlabel\na\tx\nb\n", "a.tsv:3: 1 cells, the first line names 2 columns"),
    "many cells": ("a.csv", "text,label\na,x,y\n", "a.csv:2: 3 cells, the first line names 2 columns"),
    "misspelt column": (
        "a.tsv",
        "texts\tlabel\na\tx\n",
        "a.tsv:2: no column 'text'. There are 'texts', 'label'",
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
    "cells in quotation marks": (
        "a.tsv",
        'text\tlabel\n"a\tb"\tx\n',
        "a.tsv:2: 3 cells, the first line names 2 columns. If cells are in quotation marks, call the file .csv",
    ),
    "broken JSON": ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', "a.jsonl:2: not JSON"),
    "JSON array": ("a.jsonl", '["text", "label"]\n', "a.jsonl:1: not a JSON object"),
    "numbers in a JSON array": ("a.json", "[1, 2]", "a.json: [0]: not a JSON object"),
    "broken JSON array": ("a.json", '[\n{"text": "a", "label": 1},\n', "a.json: not JSON"),
    "an object": ("a.json", '{"text": {"en": "a"}, "label": 1}', '\'text\' is {"en": "a"}, not a text'),
    "deep JSON": ("a.jsonl", "[" * 200_000, "a.jsonl: not JSON"),
    "key missing": ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', "a.jsonl:2: no column 'label'"),
    "empty object": ("a.jsonl", "{}\n", "a.jsonl:1: no column 'text'. The row is empty"),
    "null": ("a.jsonl", '{"text": null, "label": 1}\n', "a.jsonl:1: 'text' is null, not a text"),
    "not a number": ("a.jsonl", '{"text": NaN, "label": 1}\n', "a.jsonl:1: 'text' is NaN, not a text"),
    "list": ("a.jsonl", '{"text": ["a"], "label": 1}\n', "a.jsonl:1: 'text' is [\"a\"], not a text"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.protected
def test_bad_tables_are_refused_with_place_and_reason(tmp_path: Path, kind: str) -> None:
    name, content, message = BAD[kind]
    with pytest.raises(InputError) as raised:
        _read(tmp_path, name, content)
    assert message in str(raised.value)


def test_cells_may_be_long_and_names_in_capitals(tmp_path: Path) -> None:
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


def test_a_few_broken_rows_may_be_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\n" + "a\tx\n" * 20 + "b\n" * 10)
    with pytest.warns(DataWarning, match=r"a\.tsv: 10 of 30 rows are left out: 1 cells, .*: lines 22, .*31"):
        assert len(list(_parse(path, skip_broken=True))) == 20
    with path.open("a") as file:
        file.write("b\n")
    with pytest.raises(InputError, match=r"a\.tsv:32: 11 of 31 rows have more or fewer cells"):
        list(_parse(path, skip_broken=True))
    path.write_text("text\tlabel\n" + "a\tx\n" * 1980 + "b\n" * 21)
    with pytest.raises(InputError, match=r"a\.tsv:2002: 21 of 2001 rows have more or fewer cells"):
        list(_parse(path, skip_broken=True))


SEPARATORS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "marked"])
def test_the_separator_is_found_from_the_first_line(
    tmp_path: Path, suffix: str, separator: str, mark: str
) -> None:
    content = f'{mark}"text"{separator}"label"\r\n"a, b; c | d\te ""f""\n"{separator}x\r\n'
    assert _read(tmp_path, f"a.{suffix}", content) == [(('a, b; c | d\te "f"\n', "x"), f"a.{suffix}:2")]
    content = f"{mark}more, and; more{separator}text{separator}label\n1{separator}a{separator}x\n"
    if separator in "\t|":
        assert _read(tmp_path, f"b.{suffix}", content) == [(("a", "x"), f"b.{suffix}:2")]


@given(
    st.lists(st.lists(st.text('ab ,;|\t"\n\u2028', max_size=5), min_size=2, max_size=2), min_size=1),
    st.sampled_from(sorted(SEPARATORS)),
    st.booleans(),
)
def test_any_csv_is_read_whatever_its_separator(tmp_path_factory, rows, separator, quoted):
    path = tmp_path_factory.mktemp("table") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
        writer = csv.writer(stream, delimiter=SEPARATORS[separator], quoting=quoting)
        writer.writerows([["text", "label"], *rows])
    columns = ("text", "label")
    assert [[row.text(column) for column in columns] for row in read_rows(path, columns)] == rows


def test_a_separator_that_excel_names_is_used(tmp_path: Path) -> None:
    content = '\ufeffsep=;\r\ntext;label\r\n"a;b";x\r\n'
    assert _read(tmp_path, "a.csv", content) == [(("a;b", "x"), "a.csv:3")]


def test_bad_rows_are_reported_together_and_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "a,x\nb\n" * 12 + "c,y\n")
    rows = _parse(path)
    assert next(rows).text("text") == "a"
    with pytest.raises(InputError) as raised:
        list(rows)
    message = str(raised.value)
    assert message.startswith(
        f"{path}:3: 1 cells, the first line names 2 columns (the first of 12 bad rows: "
    )
    assert "lines 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, …)" in message
    rows = _parse(path, leave_out=(InputError,))
    with pytest.warns(DataWarning, match=r"a\.csv: 12 of 25 rows are left out: 1 cells"):
        assert [row.text("text") for row in rows] == [*"a" * 12, "c"]
    path.write_text("text,label\nb\n")
    with pytest.raises(InputError, match=r"a\.csv:2: 1 cells"):
        list(_parse(path, leave_out=(InputError,)))


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
    with pytest.raises(InputError, match=r"a\.parquet:1: no column 'texts'\. There are .*'text'"):
        list(read_rows(path, ["texts"]))


def test_missing_files_and_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_rows(tmp_path / "none.tsv", ["text"]))
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        list(read_rows(tmp_path / "folder.tsv", ["text"]))


def test_labels_are_stripped(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\na\tx\nb\tx \n")
    assert {example.gold for example in task_of("classification").examples(tmp_path / "a.tsv")} == {"x"}


ROWS = [{"text": "a, b", "label": 1}, {"text": "ü", "label": 0}]
BY_COLUMN = {name: {str(i): row[name] for i, row in enumerate(ROWS)} for name in ROWS[0]}


JSON_FORMS = {
    "one line": json.dumps(ROWS),
    "indented": "\ufeff\n" + json.dumps(ROWS, indent=2, ensure_ascii=False),
    "lines": "".join(json.dumps(row) + "\n" for row in ROWS),
    "pandas by column": json.dumps(BY_COLUMN),
    "lists by column": json.dumps({name: list(cells.values()) for name, cells in BY_COLUMN.items()}),
    "pandas split": json.dumps({"columns": [*ROWS[0]], "data": [[*row.values()] for row in ROWS]}, indent=1),
    "a list within": json.dumps({"version": 1, "data": ROWS}, indent=1),
    "rows of the hub": json.dumps({"rows": [{"row_idx": i, "row": row} for i, row in enumerate(ROWS)]}),
}


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize("form", JSON_FORMS)
def test_json_is_lines_or_a_list_whatever_its_name(tmp_path: Path, name: str, form: str) -> None:
    (tmp_path / name).write_text(JSON_FORMS[form], encoding="utf-8")
    for labeled in (True, False):
        examples = list(task_of("classification").examples(tmp_path / name, labeled=labeled))
        assert [(example.text, example.gold) for example in examples] == [
            ("a, b", "1" if labeled else None),
            ("ü", "0" if labeled else None),
        ]


@pytest.mark.parametrize("write", [pyarrow.ipc.new_file, pyarrow.ipc.new_stream])
def test_arrow_files_are_read_as_parquet_is(tmp_path: Path, write: Any) -> None:
    table = pyarrow.table({"text": ["a, b", "ü"], "label": [1, 0], "more": [[1], None]})
    with write(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    examples = list(task_of("classification").examples(tmp_path / "a.arrow"))
    assert [(example.text, example.gold, example.where) for example in examples] == [
        ("a, b", "1", f"{tmp_path}/a.arrow:1"),
        ("ü", "0", f"{tmp_path}/a.arrow:2"),
    ]
    (tmp_path / "a.arrow").write_bytes((tmp_path / "a.arrow").read_bytes()[:-20])
    with pytest.raises(InputError, match=r"a\.arrow: cannot be read: .* copy it again"):
        list(task_of("classification").examples(tmp_path / "a.arrow"))


def test_a_label_is_required_and_a_text_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\n\tx\nb\t \n")
    with pytest.raises(InputError, match=r"a\.tsv:3: the cell 'label' is empty"):
        list(task_of("classification").examples(path))


def test_the_limit_of_the_csv_module_is_not_changed():
    assert csv.field_size_limit() == 131_072
