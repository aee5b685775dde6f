"""Rows of tables, and errors in them."""

import csv
import os

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloze.data.reading.columns import Column
from cloze.data.reading.formats import open_source, read_rows
from cloze.data.reading.source import ReadOptions
from cloze.data.reading.tables import parse_rows
from cloze.errors import DataWarning, InputError
from helpers import write_rows

TEXT = Column("text")


def _parse(path, **options):
    source = open_source(path, ReadOptions(columns=(TEXT,), **options))
    return parse_rows(source, lambda row: row)


def test_a_few_broken_rows_may_be_skipped(tmp_path):
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


CELLS = st.lists(st.sampled_from([*'ab ,;|\t"\n\u2028', "\r\n"]), max_size=5).map("".join)


@given(
    st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1),
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


def test_bad_rows_are_reported_together_and_can_be_left_out(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "a,x\nb\n" * 12 + "c,y\n")
    rows = _parse(path)
    assert next(rows).text("text") == "a"
    later: list[str] = []
    with pytest.raises(InputError) as raised:
        later.extend(row.text("text") for row in rows)
    assert later == []
    message = str(raised.value)
    assert message.startswith(f"{path}:3: 1 cells, the first line names 2 columns (the first of 12 bad rows")
    assert "lines 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, …)" in message
    rows = _parse(path, leave_out=(InputError,))
    with pytest.warns(DataWarning, match=r"a\.csv: 12 of 25 rows are left out: 1 cells"):
        assert [row.text("text") for row in rows] == [*"a" * 12, "c"]
    path.write_text("text,label\nb\n")
    with pytest.raises(InputError, match=r"a\.csv:2: 1 cells"):
        list(_parse(path, leave_out=(InputError,)))


def test_other_columns_of_parquet_are_not_read(tmp_path):
    path = tmp_path / "a.parquet"
    times = pyarrow.array([1, 10**18 + 1], pyarrow.timestamp("ns"))
    days = pyarrow.array([0, 10**8], pyarrow.date32())
    write_rows(path, pyarrow.table({"when": times, "text": ["a", "b"], "day": days}))
    assert [row.text("text") for row in read_rows(path, ["text"])] == ["a", "b"]
    with pytest.raises(InputError, match=r"a\.parquet:1: a cell of this row or of up to 15 after it cannot"):
        list(read_rows(path, ["day"]))
    with pytest.raises(InputError, match=r"a\.parquet:1: no column 'texts'\. There are .*'text'"):
        list(read_rows(path, ["texts"]))


def test_missing_files_pipes_and_directories_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.tsv")
    with pytest.raises(InputError, match=r"is not a regular file. Read a pipe as stdin: - < "):
        list(read_rows(tmp_path / "pipe.tsv", ["text"]))
    with pytest.raises(InputError, match="no such file"):
        list(read_rows(tmp_path / "none.tsv", ["text"]))
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        list(read_rows(tmp_path / "folder.tsv", ["text"]))


def test_cells_may_be_longer_than_the_limit_of_the_csv_module_which_is_not_changed(tmp_path):
    (tmp_path / "A.CSV").write_text("text,label\n" + "a " * 100_000 + ",x\n")
    assert len(next(read_rows(tmp_path / "A.CSV", ("text", "label"))).text("text")) == 200_000
    assert csv.field_size_limit() == 131_072
