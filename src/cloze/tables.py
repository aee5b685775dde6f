"""Numbers and tables as text, and the width of the terminal."""

import math
import os
import shutil
import sys
from collections.abc import Iterable, Sequence

MIN_COLUMNS = 20
"""Narrower terminals get lines of this width, which they wrap themselves."""


def terminal_width() -> int | None:
    """Return the columns of the terminal that stdout is, or those that COLUMNS names; None for a file or a pipe."""
    if not (os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty()):
        return None
    return max(shutil.get_terminal_size().columns, MIN_COLUMNS)


def format_score(value: float) -> str:
    """Return a score with four decimal places; NaN is undefined.

    >>> format_score(0.5), format_score(float("nan"))
    ('0.5000', 'undefined')
    """
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def format_count(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> format_count(1, "row"), format_count(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def text_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Align a table: its first column to the left, all others to the right.

    >>> print(text_table(["task", "score"], [["MRPC", "88.9"]]))
    task  score
    MRPC   88.9
    """
    lines = [columns, *rows]
    first, *widths = (max(map(len, cells)) for cells in zip(*lines, strict=True))
    return "\n".join(
        "  ".join([name.ljust(first), *map(str.rjust, cells, widths)]).rstrip() for name, *cells in lines
    )
