"""Scores by class and the picture of the confusion matrix in the report of a run."""

from collections.abc import Sequence
from html import escape

from cloze.metrics.breakdown import Breakdown
from cloze.reports.page import format_value, html_table, section

_CAPTION_ID = "caption-confusion-matrix"
_MAX_CLASSES = 25
_MAX_ROWS = 100
_MAX_NAME = 24
_CELL, _CHARACTER = 34, 6.6  # in units of the picture
_OPACITY = (
    0.5  # of the strongest cell: numbers in the color of text have a contrast of 4.5 on it, in light and dark
)


def class_scores_section(breakdown: Breakdown) -> str:
    """Return the section with a table of all scores and the confusion matrix, if there is one."""
    names = list(breakdown.parts)
    shown = breakdown.worst(names, _MAX_ROWS)
    part = breakdown.part.replace("_", " ")
    rows = [
        [
            name,
            *map(format_value, breakdown.parts[name].scores.values()),
            f"{breakdown.parts[name].support:,}",
        ]
        for name in shown
    ]
    caption = (
        "" if len(shown) == len(names) else f"{len(shown):,} of {len(names):,}, those with the most errors"
    )
    table = html_table(caption, [part, *breakdown.means, "support"], rows)
    note = "Support is the number of examples in the dev data."
    has_matrix = breakdown.confusion is not None and len(breakdown.classes) > 1
    picture = _picture(breakdown) if has_matrix else ""
    return section(f"Scores by {part}", picture, table, note=note)


def _picture(breakdown: Breakdown) -> str:
    shown = breakdown.worst(breakdown.classes, _MAX_CLASSES)
    left_out = len(breakdown.classes) - len(shown)
    names = [*shown, *(["(others)"] if left_out else [])]
    key = "rows: gold; columns: predicted; color: share of the row"
    if left_out:
        key += f"; {left_out:,} classes with fewer errors are summed in (others)"
    svg = confusion_matrix_svg(breakdown.matrix(shown), names)
    css = ' class="wide"' if len(names) > _MAX_CLASSES // 2 else ""
    return (
        f'<figure{css}>\n<figcaption id="{_CAPTION_ID}"><strong>Confusion matrix</strong>'
        f'<span class="key"><em>{escape(key)}</em></span></figcaption>\n{svg}\n</figure>\n'
    )


def confusion_matrix_svg(matrix: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """Return an SVG element with a cell for each gold class (row) and predicted class (column)."""
    labels = [name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…" for name in names]
    left = 14 + _CHARACTER * max(map(len, labels))
    top = 10 + 0.75 * left  # labels of columns are turned by 45 degrees
    size = _CELL * len(labels)
    parts = []
    for i, (row, label) in enumerate(zip(matrix, labels, strict=True)):
        y = top + i * _CELL
        parts.append(_text(label, left - 8, y + _CELL / 2 + 4, "end"))
        x = left + i * _CELL + _CELL / 2
        turn = f' transform="rotate(-45 {x:.1f} {top - 8:.1f})"'
        parts.append(_text(label, x, top - 8, "start", attributes=turn))
        total = sum(row)
        for j, count in enumerate(row):
            share = count / total if total else 0.0
            x = left + j * _CELL
            opacity = 0.06 + (_OPACITY - 0.06) * share
            title = f"{names[i]} predicted as {names[j]}: {count:,} of {total:,}"
            parts.append(
                f'<g><title>{escape(title)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{_CELL - 2}" '
                f'height="{_CELL - 2}" rx="3" fill="var(--accent, #3b6fb6)" fill-opacity="{opacity:.3f}"/>'
            )
            if count:
                text = f"{count}" if count < 10_000 else f"{count / 1000:.0f}k"
                parts.append(
                    _text(text, x + _CELL / 2 - 1, y + _CELL / 2 + 3, "middle", color="var(--ink, #1d1f24)")
                )
            parts.append("</g>")
    width, height = left + size + 0.55 * left, top + size + 4
    return (
        f'<svg role="img" aria-labelledby="{_CAPTION_ID}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="max-width: {1.25 * width:.0f}px" font-size="11">\n{"".join(parts)}</svg>'
    )


def _text(
    text: str, x: float, y: float, anchor: str, *, color: str = "var(--muted, #5c6270)", attributes: str = ""
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} style="fill: {color}"{attributes}>{escape(text)}</text>'
