"""Scores by class and the confusion matrix, as text of 80 columns and in the report of a run."""

import json
import re
from importlib.resources import files

import numpy as np
import pytest

from cloze.metrics.breakdown import class_breakdown
from cloze.reports.breakdown_text import format_breakdown
from cloze.reports.run_report import confusion_matrix_svg, write_report
from pages import read_page


def breakdown(num_classes: int, count: int = 40_000):
    rng = np.random.default_rng(3)
    names = [f"department number {i}" for i in range(num_classes)]
    gold = rng.integers(num_classes, size=count)
    predicted = np.where(rng.random(count) < 0.8, gold, rng.integers(num_classes, size=count))
    return class_breakdown([names[i] for i in gold], [names[i] for i in predicted], names)


def test_a_small_matrix_has_the_names_of_its_columns():
    lines = format_breakdown(class_breakdown(["no", "yes", "yes"], ["no", "no", "yes"]))
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
    lines = format_breakdown(breakdown(num_classes))
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


def _mix(over: str, under: str, share: float) -> list[float]:
    pairs = ((int(over[i : i + 2], 16), int(under[i : i + 2], 16)) for i in (1, 3, 5))
    return [share * a + (1 - share) * b for a, b in pairs]


def _luminance(color: list[float]) -> float:
    """Relative luminance as in WCAG 2."""
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_numbers_of_the_matrix_have_a_contrast_of_at_least_4_5(scheme):
    css = files("cloze.reports").joinpath("page.css").read_text("utf-8")
    colors = {
        name: re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\)", css) for name in ("accent", "card", "ink")
    }
    accent, card, ink = (colors[name][scheme + 1] for name in ("accent", "card", "ink"))
    svg = confusion_matrix_svg(
        [[count, 100 - count, *[0] * 99] for count in range(101)], [f"c{i}" for i in range(101)]
    )
    opacities = {float(value) for value in re.findall(r'fill-opacity="([\d.]+)"', svg)}
    assert len(opacities) > 50
    assert set(re.findall(r'text-anchor="middle" style="fill: ([^"]+)"', svg)) == {"var(--ink, #1d1f24)"}
    for opacity in opacities:
        cell, text = _luminance(_mix(accent, card, opacity)), _luminance(_mix(ink, ink, 1))
        low, high = sorted((cell, text))
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_a_run_that_learned_nothing_says_so_above_its_scores(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 1, "loss": 0.5}\n')
    (tmp_path / "scores.json").write_text(json.dumps({"collapse": "no entity predicted", "f1": 0.0}))
    html, _ = read_page(write_report(tmp_path))
    assert '<p class="note warning">The model learned nothing: no entity predicted.</p>' in html
    assert html.count("no entity predicted") == 1
