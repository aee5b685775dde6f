"""Tables as Markdown and as aligned text for a terminal."""

import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from cloze.text_encoding import escape_controls

MIN_COLUMNS = 20
"""Narrower terminals get lines of this width, which they wrap themselves."""


def terminal_width() -> int | None:
    """Return the columns of the terminal that stdout is, or those that COLUMNS names; None for a file or a pipe."""
    if not (os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty()):
        return None
    return max(shutil.get_terminal_size().columns, MIN_COLUMNS)


def fit_terminal(text: str, stream: TextIO) -> str:
    """Return a text for people, without characters that a terminal would obey: names and labels may have them.

    If a stream is a terminal, long lines are broken between words; it would break them within words. A command after
    "$ " stays one line, since a copy of two would be two commands.
    """
    text = escape_controls(text)
    if not stream.isatty():
        return text
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdigit() else os.get_terminal_size(stream.fileno()).columns
    width = max(width or 80, MIN_COLUMNS)  # 0 is unknown
    return "\n".join(
        line if len(line) <= width or line.lstrip().startswith("$ ") else _break_line(line, width)
        for line in text.split("\n")
    )


def _break_line(line: str, width: int) -> str:
    indent = len(line) - len(line.lstrip())
    indent = min(indent + 2, width // 2) if indent else 0
    return textwrap.fill(
        line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


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

    Columns that do not fit the terminal follow in further tables, each with the first column.

    >>> print(text_table(["task", "score"], [["MRPC", "88.9"]]))
    task  score
    MRPC   88.9
    """
    lines = [columns, *rows]
    first, *others = (max(map(len, cells)) for cells in zip(*lines, strict=True))
    blocks: list[list[int]] = [[]]
    left = width = terminal_width() or sys.maxsize
    for number, size in enumerate(others):
        if not blocks[-1]:
            left = width - first
        elif size + 2 > left:
            blocks.append([])
            left = width - first
        blocks[-1].append(number)
        left -= size + 2
    return "\n\n".join(
        "\n".join(
            "  ".join([line[0].ljust(first), *(line[n + 1].rjust(others[n]) for n in block)]).rstrip()
            for line in lines
        )
        for block in blocks
    )
