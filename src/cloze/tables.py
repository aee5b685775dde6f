"""Tables as Markdown and as aligned text for a terminal."""

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


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; a pipe within a cell is written as an HTML entity.

    >>> print(markdown_table(["task", "score"], [["MRPC", "88.9"]]))
    | task | score |
    | --- | --- |
    | MRPC | 88.9 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


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
