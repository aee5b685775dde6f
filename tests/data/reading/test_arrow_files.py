"""Documents in Parquet and Arrow; errors are in test_documents."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cloze.data.reading.arrow_files import read_arrow, read_parquet, split_row_groups
from cloze.data.reading.documents import MAX_DOCUMENT_BYTES, Document, FileRange
from cloze.errors import InputError
from helpers import CountingBar, write_rows

ROWS = ["One.\nTwo.", None, "  ", "König 👑"]
TEXTS = {1: ("One.", "Two."), 4: ("König 👑",)}


def expected(file, repeats=1):
    return [
        Document(lines, f"{file}:row {4 * repeat + row}", "paragraphs")
        for repeat in range(repeats)
        for row, lines in TEXTS.items()
    ]


def read(file, text_field="text", *, rows=64, **bounds):
    bar, size, kind = CountingBar(), file.stat().st_size, file.suffix[1:]
    file_range = FileRange(file=str(file), text_format=kind, size_bytes=size, **bounds)
    reader = read_parquet if kind == "parquet" else read_arrow
    documents = list(reader(file_range, text_field, bar, batch_rows=rows))
    assert bar.done == pytest.approx(size)
    return documents


@pytest.mark.slow
def test_a_row_over_the_limit_is_refused(tmp_path):
    long = "ä" * (MAX_DOCUMENT_BYTES // 2)
    rows = pa.table({"text": ["One.", long, f"{long}."]})
    pq.write_table(rows.slice(0, 2), tmp_path / "a.parquet")
    assert [len(d.lines[0]) for d in read(tmp_path / "a.parquet")] == [4, MAX_DOCUMENT_BYTES // 2]
    pq.write_table(rows, tmp_path / "a.parquet")
    write_rows(tmp_path / "a.arrow", rows)
    for file in ("a.parquet", "a.arrow"):
        with pytest.raises(InputError, match=rf"{file}:row 3: a document of over 32 MB\. Split it"):
            read(tmp_path / file)


TABLES = {
    **{
        str(kind): pa.table({"id": range(4), "text": pa.array(ROWS, kind)})
        for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))
    },
    "bytes": pa.table({"text": [row and row.encode() for row in ROWS]}),
    "a field of a struct": pa.table({"story": [*({"text": row} for row in ROWS), None]}),
    "a field of a struct of structs": pa.table({"story": [*({"more": {"text": row}} for row in ROWS), {}]}),
    "a name with a dot": pa.table({"story.text": ROWS}),
}
FIELDS = {"a field of a struct": "story.text", "a field of a struct of structs": "story.more.text"}


@pytest.mark.parametrize("name", TABLES)
def test_texts_of_any_type_are_read_from_any_file(tmp_path, name):
    field = {**FIELDS, "a name with a dot": "story.text"}.get(name, "text")
    pq.write_table(TABLES[name], tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", field) == expected(tmp_path / "a.parquet")
    for new in (pa.ipc.new_stream, pa.ipc.new_file):
        rows = pa.concat_tables([TABLES[name].slice(0, 4)] * 5)
        write_rows(tmp_path / "a.arrow", rows, new, max_chunksize=7)
        assert read(tmp_path / "a.arrow", field, rows=3) == expected(tmp_path / "a.arrow", 5)


def test_ranges_of_row_groups(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ROWS * 5, "nothing": pa.nulls(20)}), file, row_group_size=8)
    whole = expected(file, 5)
    assert read(file, rows=3) == whole
    ranges = split_row_groups(str(file), file.stat().st_size, 1)
    assert [(begin, end) for begin, end, _ in ranges] == [(0, 1), (1, 2), (2, 3)]
    assert sum(size for _, _, size in ranges) < file.stat().st_size
    assert read(file, rows=3, begin=1, end=2) == whole[4:8]
    assert read(file, rows=3, begin=2) == whole[8:]
    assert read(file, "nothing") == []


def test_no_more_than_a_few_rows_are_in_memory(tmp_path):
    file = tmp_path / "a.parquet"
    rows = pa.table({"text": ["word " * 20_000] * 500})  # 50 MB in one row group
    pq.write_table(rows, file, compression="zstd", use_dictionary=False, write_batch_size=16)
    del rows
    before, peak = pa.total_allocated_bytes(), 0
    for _ in read_parquet(FileRange(file=str(file), text_format="parquet"), "text", CountingBar()):
        peak = max(peak, pa.total_allocated_bytes())
    assert peak - before < 20_000_000
