"""Rows written as Excel's .xlsx and read again."""

import math

import openpyxl
import pytest

import cloze
from cloze.data.row_files import check_output, write_rows

ROWS = [
    {
        "row": 1,
        "text": "=1+1",
        "label": "yes",
        "probability": 0.75,
        "probabilities": {"no": 0.25, "yes": 0.75},
    },
    {
        "row": 2,
        "text": 'a "b"\r\n, \x01_x000D_',
        "label": "no",
        "probability": math.nan,
        "probabilities": {"no": 1.0, "yes": 0.0},
        "id": 10**17 + 1,
        "of": ["x"],
    },
]


def test_cells_are_written_as_they_are(tmp_path):
    file = tmp_path / "a.xlsx"
    assert write_rows(ROWS, str(file)) == 2
    names, first, second = openpyxl.load_workbook(file).active.iter_rows()
    assert [cell.value for cell in names] == [
        *("row", "text", "label", "probability", "probability_no", "probability_yes", "id", "of")
    ]
    assert [cell.value for cell in first] == [1, "=1+1", "yes", 0.75, 0.25, 0.75, None, None]
    assert first[1].data_type == "s"
    text = 'a "b"_x000D_\n, _x0001__x005F_x000D_'  # as Excel writes a CR, a control character and this text
    expected = [2, text, "no", None, 1.0, 0.0, "100000000000000001", '["x"]']
    assert [cell.value for cell in second] == expected


def test_predictions_in_a_workbook_are_scored(tmp_path):
    write_rows(ROWS, str(tmp_path / "a.xlsx"))
    gold = [("=1+1", "yes"), (ROWS[1]["text"], "yes")]
    assert cloze.score("classification", tmp_path / "a.xlsx", gold)["accuracy"] == 0.5


def test_what_excel_cannot_hold_is_refused(tmp_path):
    file = tmp_path / "a.xlsx"
    with pytest.raises(
        cloze.InputError, match=r"a.xlsx: a cell of 32,768 characters.*at most 32,767. Write a .csv"
    ):
        write_rows([{"text": "a" * 32_768}], str(file))
    assert not file.exists()
    check_output(str(file), overwrite=False, source="b.csv")
    assert write_rows([{"text": "a" * 32_767}], str(file)) == 1
