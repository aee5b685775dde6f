"""Columns of written tables."""

from pathlib import Path

import pyarrow.parquet as pq

from cloze.data.row_files import write_rows


def test_integers_of_any_size_are_written(tmp_path: Path) -> None:
    rows = [
        {"id": 10**30, "mixed": 2**60, "small": 2**63 - 1, "edge": 2**63},
        {"id": 3, "mixed": 0.5, "small": -(2**63) + 1, "edge": 1},
    ]
    write_rows(rows, str(tmp_path / "rows.parquet"))
    ids, mixed, small, edge = pq.read_table(tmp_path / "rows.parquet").to_pydict().values()
    assert ids == [str(10**30), "3"]
    assert mixed == [2.0**60, 0.5]
    assert small == [2**63 - 1, -(2**63) + 1]
    assert edge == [str(2**63), "1"]
