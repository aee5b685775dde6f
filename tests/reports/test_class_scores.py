"""Scores by class and the confusion matrix, as text of 80 columns and in the report of a run."""

import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from cloze.metrics.breakdown import Breakdown, class_breakdown
from cloze.reports.breakdown_text import format_breakdown
from cloze.reports.run_report import confusion_matrix_svg, write_report
from pages import read_page


def breakdown(num_classes: int, count: int = 40_000) -> Breakdown:
    rng = np.random.default_rng(3)
    names = [f"department number {i}" for i in range(num_classes)]
    gold = rng.integers(num_classes, size=count)
    predicted = np.where(rng.random(count) < 0.8, gold, rng.integers(num_classes, size=count))
    return class_breakdown([names[i] for i in gold], [names[i] for i in predicted], names)


def test_a_small_matrix_has_the_names_of_its_columns() -> None:
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


@pytest.mark.parametrize("num_classes", [2, 9, 10, 60, 2000])
def test_lines_have_80_columns_and_say_what_is_left_out(num_classes: int) -> None:
    values = breakdown(num_classes)
    lines = format_breakdown(values)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    (worst, *_) = values.confused_pairs(1)
    if fits := num_classes <= 9:  # the next one needs 84 columns
        assert str(values.confusion["department number 1"]["department number 0"]) in text
    else:
        assert f"{worst[0]} → {worst[1]}" in text
    assert ("the confusion matrix of" in text) != fits
    assert (f"30 of {num_classes:,} classes" in text) == (num_classes > 30)


@pytest.mark.parametrize("num_classes", [3, 2000])
def test_the_report_of_a_run_draws_the_matrix(tmp_path: Path, num_classes: int) -> None:
    values = breakdown(num_classes)
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 1, "loss": 2.0}\n')
    (tmp_path / "scores.json").write_text(json.dumps({"collapse": "no entity", **values.to_dict()}))
    page, text = read_page(write_report(tmp_path))
    cells = min(num_classes, 25) + (num_classes > 25)
    assert page.count("<g><title>department number") + page.count("<g><title>(others)") == cells**2
    assert "Scores by class" in text
    assert text.count("The model learned nothing: no entity.") == 1
    if num_classes == 3:
        first = next(iter(values.confusion["department number 0"]))
        assert f"department number 0 predicted as {first}" in page
    else:
        assert "1,975 classes with fewer errors are summed in (others)" in text
        assert "100 of 2,000, those with the most errors" in text


def _rgb(color: str) -> np.ndarray:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])


def _luminance(color: np.ndarray) -> float:
    """Relative luminance as in WCAG 2."""
    linear = np.where(color <= 0.04045 * 255, color / 255 / 12.92, ((color / 255 + 0.055) / 1.055) ** 2.4)
    return float([0.2126, 0.7152, 0.0722] @ linear)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_numbers_of_the_matrix_have_a_contrast_of_at_least_4_5(scheme: int) -> None:
    css = files("cloze.reports").joinpath("page.css").read_text("utf-8")
    accent, card, ink = (
        _rgb(re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\)", css)[scheme + 1])
        for name in ("accent", "card", "ink")
    )
    matrix = [[count, 100 - count, *[0] * 99] for count in range(101)]
    svg = confusion_matrix_svg(matrix, [f"c{i}" for i in range(101)])
    opacities = {float(value) for value in re.findall(r'fill-opacity="([\d.]+)"', svg)}
    assert len(opacities) > 50
    assert set(re.findall(r'text-anchor="middle" style="fill: ([^"]+)"', svg)) == {"var(--ink, #1d1f24)"}
    for opacity in opacities:
        low, high = sorted(map(_luminance, (opacity * accent + (1 - opacity) * card, ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5
