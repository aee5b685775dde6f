"""Damaged Parquet and Arrow tables are refused in one line, and large cells before they fill the memory."""

import random
import struct
import time
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cloze.data.reading.arrow_files import read_arrow, read_parquet
from cloze.data.reading.delimited import split_cells
from cloze.data.reading.documents import FileRange
from cloze.data.reading.files import MAX_LINE_BYTES
from cloze.data.reading.formats import read_rows
from cloze.data.reading.json_rows import parse_list
from cloze.errors import InputError
from helpers import CountingBar, task_of, write_rows

pytestmark = pytest.mark.protected

ROWS = 300
TABLE = pa.table(
    {
        "text": [f"text {number} é" for number in range(ROWS)],
        "label": [["good", "bad"][number % 2] for number in range(ROWS)],
        "tags": [["x", "y"]] * ROWS,
    }
)


_parquet = partial(write_rows, rows=TABLE)
_plain_parquet = partial(write_rows, rows=TABLE, compression="none", use_dictionary=False)
_arrow_stream = partial(write_rows, rows=TABLE, new_arrow=pa.ipc.new_stream)


def _rows(path):
    return read_rows(path, ["text", "label", "tags"])


def _documents(path):
    read = read_parquet if path.suffix == ".parquet" else read_arrow
    return read(FileRange(file=str(path), text_format=path.suffix[1:], size_bytes=1), "text", CountingBar())


@pytest.mark.parametrize(
    ("write", "read", "suffix"),
    [
        (_parquet, _rows, ".parquet"),
        (_plain_parquet, _rows, ".parquet"),
        (_parquet, _documents, ".parquet"),
        (_plain_parquet, _documents, ".parquet"),
        (_parquet, _rows, ".arrow"),
        (_parquet, _documents, ".arrow"),
        (_arrow_stream, _documents, ".arrow"),
    ],
)
def test_a_damaged_table_is_read_or_refused(write, read, suffix, tmp_path):
    whole, damaged = tmp_path / f"whole{suffix}", tmp_path / f"damaged{suffix}"
    write(whole)
    assert len(list(read(whole))) == ROWS
    content, choose, refused = whole.read_bytes(), random.Random(1), 0
    for _ in range(25):
        changed = bytearray(content)
        for _ in range(choose.randint(1, 6)):
            changed[choose.randrange(len(changed))] = choose.randrange(256)
        damaged.write_bytes(changed[: choose.randrange(1, 2 * len(changed))])
        try:
            list(read(damaged))
        except InputError:  # anything else would be called a bug
            refused += 1
    assert refused


@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.slow
def test_a_large_cell_is_refused(use_dictionary, tmp_path):
    """Twenty rows of a few kilobytes on disk would take gigabytes."""
    path = tmp_path / "large.parquet"
    table = pa.table({"text": ["short", *["a" * (MAX_LINE_BYTES + 1)] * 20]})
    pq.write_table(table, path, use_dictionary=use_dictionary, compression="zstd", row_group_size=5)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(InputError, match=r"a cell of over 10 MB"):
        list(read_rows(path, ["text"]))


def test_page_checksums_find_a_changed_value(tmp_path):
    path = tmp_path / "a.parquet"
    options = {"write_page_checksum": True, "compression": "none", "use_dictionary": False}
    pq.write_table(TABLE, path, **options)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"text 7 ", b"text 8 ", 1))
    with pytest.raises(InputError, match=r"(?i)crc|checksum"):
        list(read_rows(path, ["text"]))


@pytest.mark.parametrize("offsets", [(0, 1_000_000, 5), (-5, 0, 5), (0, 5, 2)])
def test_offsets_out_of_the_data_are_refused(offsets, tmp_path):
    path = tmp_path / "a.arrow"
    table = pa.table({"text": ["abc", "de"]})
    write_rows(path, table)
    right, wrong = (struct.pack("<iii", *numbers) for numbers in ((0, 3, 5), offsets))
    content = path.read_bytes()
    assert content.count(right) == 1
    path.write_bytes(content.replace(right, wrong))
    with pytest.raises(InputError, match=r"a\.arrow: cannot be read"):
        list(read_rows(path, ["text"]))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv"])
def test_two_columns_of_one_name_are_refused(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    table = pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    if suffix == ".csv":
        path.write_text("text,text\na,b\n")
    else:
        write_rows(path, table)
    with pytest.raises(InputError, match="columns are called 'text'"):
        list(read_rows(path, ["text"]))


def test_a_header_of_many_columns_is_read_in_time(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"text,{','.join(map(str, range(200_000)))}\n{',' * 200_000}\n")
    started = time.process_time()
    assert len(list(read_rows(path, ["text"]))) == 1
    assert time.process_time() - started < 10  # hours, where each name is compared with all before it


@pytest.mark.slow
@pytest.mark.timeout(60)  # seconds in proportion to the size, hours in proportion to its square
@pytest.mark.parametrize("line", ["", '""', "a" * 100], ids=["empty lines", "doubled marks", "cells"])
def test_a_mark_that_is_never_closed_is_read_once(tmp_path, line):
    file = tmp_path / "open.csv"
    file.write_text('text,label\n"' + f"{line}\n" * (2_000_000 // (len(line) + 1)) + "a,b\n")
    with pytest.raises(InputError, match=r"open.csv:2: a quotation mark is never closed"):
        list(read_rows(file, ("text", "label")))


@pytest.mark.parametrize(("task", "name"), [("classification", "a.jsonl"), ("squad_v1", "a.json")])
def test_deep_json_is_refused(tmp_path, task, name):
    (tmp_path / name).write_text("[" * 200_000)
    with pytest.raises(InputError, match=f"{name}: not JSON"):
        list(task_of(task).examples(tmp_path / name))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", ["(" + "," * 10**6, "(" + " ," * 10**6 + "]", "{" + ":" * 10**6])
def test_a_long_cell_that_is_no_list_is_read_once(text):
    assert parse_list(text) is None


def test_rows_with_the_same_entry_of_a_dictionary_share_its_text(tmp_path):
    file = tmp_path / "one.parquet"
    entries = pa.array(["x" * 1_000_000, "short"])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0, None, 1] * 500), entries)
    pq.write_table(pa.table({"text": column, "label": ["a"] * 2000}), file)
    assert file.stat().st_size < 300_000
    texts = [row.cells["text"] for row in read_rows(file, ("text",), is_also_read=lambda _: True)]
    assert [text and len(text) for text in texts[:4]] == [1_000_000, 1_000_000, None, 5]
    assert len({id(text) for text in texts if text and len(text) > 5}) <= 2, "of each batch"


def test_an_open_quotation_mark_reads_no_more_than_a_line_may_have():
    lines = (("x" * 10**6, "a.csv:2") for _ in range(30))
    with pytest.raises(InputError, match="a quotation mark is never closed"):
        split_cells('"a', ",", "a.csv:1", lines, quoted=True)
    assert next(lines, None) is not None
