"""Plots as SVG elements that take their colors from the page."""

import io
import re
from collections.abc import Callable
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Colors that matplotlib writes nowhere else, replaced by CSS variables so that one plot fits light and dark pages.
# The fallbacks are for a plot without a page.
_INK, _GRID, ACCENT, MUTED = "#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04"
_CSS_COLORS = {
    _INK: "var(--muted, #5c6270)",
    _GRID: "var(--grid, #e3e2de)",
    ACCENT: "var(--accent, #3b6fb6)",
    MUTED: "var(--muted, #8a8f99)",
}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "cloze",
    "text.parse_math": False,
    "font.size": 9.0,
    "text.color": _INK,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "ytick.major.size": 0.0,
    "lines.linewidth": 1.5,
    "lines.markersize": 3.5,
    "lines.solid_joinstyle": "round",
}


def draw_svg(name: str, plot: Callable[[Axes], None]) -> str:
    """Draw an SVG element; equal plots give equal bytes.

    Args:
        name: unique on the page; the caption has the id `caption_id(name)`.
        plot: function that draws on the axes in the colors `ACCENT` and `MUTED`.
    """
    with rc_context(_STYLE):
        figure = Figure(figsize=(4.6, 2.7), layout="constrained")
        plot(figure.add_subplot())
        stream = io.StringIO()
        figure.savefig(
            stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None}
        )
    document = stream.getvalue()
    svg = document[document.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    for color, variable in _CSS_COLORS.items():
        svg = svg.replace(f": {color}", f": {variable}")
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{_as_id(name)}-", svg)  # unique on the page
    return svg.replace("<svg", f'<svg role="img" aria-labelledby="{caption_id(name)}"', 1)


def _as_id(name: str) -> str:
    return re.sub(r"\W", "-", name)


def caption_id(name: str) -> str:
    """Return the id of a plot's caption."""
    return f"caption-{_as_id(name)}"
