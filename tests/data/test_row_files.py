"""Columns of written tables, and Excel's .xlsx."""

import json
import math

import openpyxl
import pyarrow.parquet as pq
import pytest

import cloze
from cloze.data.row_files import check_output, write_rows


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


SURE, UNSURE = {"no": 1.0, "yes": 0.0}, {"no": 0.25, "yes": 0.75}
ROWS = [
    {"row": 1, "text": "=1+1", "label": "yes", "probability": 0.75, "probabilities": UNSURE},
    {"row": 2, "text": 'a "b"\r\n, \r\x01\uffff_x000D_', "label": "no", "probability": math.nan},
]
ROWS[1] |= {"probabilities": SURE, "id": 10**17 + 1, "of": ["x"]}


def test_cells_are_written_as_they_are(tmp_path):
    file = tmp_path / "a.xlsx"
    assert write_rows(ROWS, str(file)) == 2
    names, first, second = openpyxl.load_workbook(file).active.iter_rows()
    columns = ["row", "text", "label", "probability", "probability_no", "probability_yes", "id", "of"]
    assert [cell.value for cell in names] == columns
    assert [cell.value for cell in first] == [1, "=1+1", "yes", 0.75, 0.25, 0.75, None, None]
    assert first[1].data_type == "s"
    text = 'a "b"\n, _x000D__x0001__xFFFF__x005F_x000D_'  # as Excel writes these characters and this text
    expected = [2, text, "no", None, 1.0, 0.0, "100000000000000001", '["x"]']
    assert [cell.value for cell in second] == expected


def test_predictions_in_a_workbook_are_scored(tmp_path):
    write_rows(ROWS, str(tmp_path / "a.xlsx"))
    gold = [("=1+1", "yes"), (ROWS[1]["text"], "yes")]
    assert cloze.score("classification", tmp_path / "a.xlsx", gold)["accuracy"] == 0.5


def test_what_excel_cannot_hold_is_refused(tmp_path):
    file = tmp_path / "a.xlsx"
    with pytest.raises(cloze.InputError, match=r"a.xlsx: a cell of 32,768 .*at most 32,767\. Write"):
        write_rows([{"text": "a" * 32_768}], str(file))
    assert not file.exists()
    check_output(str(file), overwrite=False, source="b.csv")
    assert write_rows([{"text": "a" * 32_767}], str(file)) == 1
