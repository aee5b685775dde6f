"""Scores by class and the confusion matrix, as text of 80 columns and in the report of a run."""

import json

import numpy as np
import pytest
from pages import read_page

from cloze.metrics.breakdown import class_breakdown
from cloze.reports.breakdown_text import format_breakdown
from cloze.reports.run_report import write_report


def breakdown(num_classes: int, count: int = 40_000):
    rng = np.random.default_rng(3)
    names = [f"department number {i}" for i in range(num_classes)]
    gold = rng.integers(num_classes, size=count)
    predicted = np.where(rng.random(count) < 0.8, gold, rng.integers(num_classes, size=count))
    return class_breakdown([names[i] for i in gold], [names[i] for i in predicted], names)


def test_a_small_matrix_has_the_names_of_its_columns():
    lines = format_breakdown(class_breakdown(["no", "yes", "yes"], ["no", "no", "yes"]), width=80)
    assert lines == [
        "",
        "  class  precision  recall      f1  support",
        "  no        0.5000  1.0000  0.6667        1",
        "  yes       1.0000  0.5000  0.6667        2",
        "  mean      0.7500  0.7500  0.6667        3",
        "",
        "  confusion matrix: rows are gold, columns predicted",
        "       no  yes",
        "  no    1    .",
        "  yes   1    1",
    ]


LEFT_OUT = {
    2: [],
    7: [],
    20: [" of 20 classes, those with the most errors; --json prints all"],
    60: ["30 of 60 classes", "the confusion matrix of 60 classes is too large here; --json prints it"],
    2000: [
        "30 of 2,000 classes",
        "the confusion matrix of 2,000 classes is too large here; --json prints it",
    ],
}


@pytest.mark.parametrize("num_classes", LEFT_OUT)
def test_lines_have_80_columns_and_say_what_is_left_out(num_classes):
    lines = format_breakdown(breakdown(num_classes), width=80)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert all(what in text for what in LEFT_OUT[num_classes])
    assert ("--json" in text) == ("most frequent confusions, gold → predicted" in text) == (num_classes > 7)


@pytest.mark.parametrize("num_classes", [3, 2000])
def test_the_report_of_a_run_draws_the_matrix(tmp_path, num_classes):
    values = breakdown(num_classes)
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 1, "loss": 2.0}\n')
    (tmp_path / "scores.json").write_text(json.dumps({"accuracy": 0.5, **values.to_dict()}))
    page, text = read_page(write_report(tmp_path))
    cells = min(num_classes, 25) + (num_classes > 25)
    assert page.count("<g><title>department number") + page.count("<g><title>(others)") == cells**2
    assert "Scores by class" in text
    first = next(iter(values.confusion["department number 0"]))
    if num_classes == 3:
        assert f"department number 0 predicted as {first}" in page
    else:
        assert "1,975 classes with fewer errors are summed in (others)" in text
        assert "100 of 2,000, those with the most errors" in text
