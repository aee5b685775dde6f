"""Columns of written tables."""

import json
import math

import pyarrow.parquet as pq
import pytest

from cloze.data.row_files import write_rows


def test_integers_of_any_size_are_written(tmp_path):
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


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_numbers_that_json_does_not_have_are_null_in_json(tmp_path, number):
    def refuse(name: str) -> None:
        raise AssertionError(name)

    rows = [{"cell": number, "list": [1, {"a": number}]}, {"cell": 0.5, "list": []}]
    write_rows(rows, str(tmp_path / "rows.jsonl"))
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    expected = [{"cell": None, "list": [1, {"a": None}]}, {"cell": 0.5, "list": []}]
    assert [json.loads(line, parse_constant=refuse) for line in lines] == expected
    write_rows(rows, str(tmp_path / "rows.parquet"))
    cells, lists = pq.read_table(tmp_path / "rows.parquet").to_pydict().values()
    assert cells == pytest.approx([number, 0.5], nan_ok=True)
    assert json.loads(lists[0], parse_constant=refuse) == expected[0]["list"]
