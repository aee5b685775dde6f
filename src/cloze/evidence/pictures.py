"""Pictures as SVG that follows the colours of the page around it."""

import io
import re
from collections.abc import Callable
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Colours that occur nowhere else; the page's own take their place, so one picture fits light and dark,
# and stand beside them for a picture that is shown without a page.
_INK, _GRID, TRAIN, HELD_OUT, BASELINE = "#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04", "#0a0b05"
_CSS_COLOURS = {
    _INK: "var(--muted, #5c6270)",
    _GRID: "var(--grid, #e3e2de)",
    TRAIN: "var(--train, #3b6fb6)",
    HELD_OUT: "var(--held-out, #c8501e)",
    BASELINE: "var(--baseline, #8a8f99)",
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


def draw_picture(name: str, plot: Callable[[Axes], None], *, wide: bool = False) -> str:
    """Draw an SVG element; the same plot gives the same bytes.

    Args:
        name: no other picture of the page has it; `caption_id` of it is the id of the caption.
        plot: draws on the axes, in `TRAIN`, `HELD_OUT` and `BASELINE`.
        wide: span the page.
    """
    with rc_context(_STYLE):
        figure = Figure(figsize=(9.4, 3.5) if wide else (4.6, 2.7), layout="constrained")
        plot(figure.add_subplot())
        stream = io.StringIO()
        figure.savefig(
            stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None}
        )
    return _as_inline(stream.getvalue(), name)


def _as_inline(document: str, name: str) -> str:
    """Cut the SVG element out of a document and fit it to the page: its width, its colours, its ids."""
    svg = document[document.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    for colour, variable in _CSS_COLOURS.items():
        svg = svg.replace(f": {colour}", f": {variable}")
    prefix = re.sub(r"\W", "-", name)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", svg)
    return svg.replace("<svg", f'<svg role="img" aria-labelledby="{caption_id(name)}"', 1)


def caption_id(name: str) -> str:
    """Return the id that a picture names as its label."""
    return "caption-" + re.sub(r"\W", "-", name)
