"""Scores by class and the picture of the confusion matrix in the report of a run."""

from collections.abc import Sequence
from dataclasses import dataclass

from cloze.metrics.breakdown import Breakdown
from cloze.reports.page import Table, format_value, render

_MAX_CLASSES = 25
_MAX_ROWS = 100
_MAX_NAME = 24
_CELL, _CHARACTER = 34, 7.2  # in pixels
_MIN_OPACITY = 0.06
_MAX_OPACITY = 0.5  # numbers in the color of text have a contrast of 4.5 on it, in light and dark


@dataclass(frozen=True, slots=True)
class ConfusionMatrix:
    """The picture of a confusion matrix."""

    svg: str
    key: str
    is_wide: bool


def scores_by_class(breakdown: Breakdown) -> Table:
    """Return the table of the scores of the classes with the most errors."""
    shown = breakdown.worst(list(breakdown.parts), _MAX_ROWS)
    parts = [breakdown.parts[name] for name in shown]
    rows = [
        [name, *map(format_value, part.scores.values()), f"{part.support:,}"]
        for name, part in zip(shown, parts, strict=True)
    ]
    caption = f"{len(shown):,} of {len(breakdown.parts):,}, those with the most errors"
    columns = [breakdown.part.replace("_", " "), *breakdown.means, "support"]
    return Table(columns, rows, "" if len(shown) == len(breakdown.parts) else caption)


def confusion_matrix(breakdown: Breakdown) -> ConfusionMatrix | None:
    """Return the picture of the classes with the most errors; None where there are no classes to confuse."""
    if breakdown.confusion is None or len(breakdown.classes) <= 1:
        return None
    shown = breakdown.worst(breakdown.classes, _MAX_CLASSES)
    left_out = len(breakdown.classes) - len(shown)
    names = [*shown, *(["(others)"] if left_out else [])]
    key = "rows: gold; columns: predicted; color: share of the row, the palest 0%, the strongest 100%"
    if left_out:
        key += f"; {left_out:,} classes with fewer errors are summed in (others)"
    svg = confusion_matrix_svg(breakdown.matrix(shown), names)
    return ConfusionMatrix(svg, key, is_wide=len(names) > _MAX_CLASSES // 2)


def confusion_matrix_svg(matrix: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """Return an SVG element with a cell for each gold class (row) and predicted class (column)."""
    labels = [name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…" for name in names]
    rows = []
    for name, label, counts in zip(names, labels, matrix, strict=True):
        total = sum(counts)
        cells = []
        for predicted, count in zip(names, counts, strict=True):
            share = count / total if total else 0.0
            title = f"{name} predicted as {predicted}: {count:,} of {total:,}"
            text = f"{count}" if count < 10_000 else f"{count / 1000:.0f}k"
            opacity = _MIN_OPACITY + (_MAX_OPACITY - _MIN_OPACITY) * share
            cells.append((title, opacity, text if count else ""))
        rows.append((label, cells))
    left = 14 + _CHARACTER * max(map(len, labels))
    top = 10 + 0.75 * left  # labels of columns are turned by 45 degrees
    size = _CELL * len(labels)
    width, height = 1.55 * left + size, top + size + 4
    return render(
        "confusion_matrix.svg", rows=rows, cell=_CELL, left=left, top=top, width=width, height=height
    )
