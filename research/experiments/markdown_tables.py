"""Tables of records in Markdown."""

from collections.abc import Iterable, Sequence

from cloze.markdown import table_cell


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    >>> print(markdown_table(["task", "score"], [["MRPC", "88.9"]]))
    | task | score |
    | --- | --- |
    | MRPC | 88.9 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(table_cell, line))} |" for line in lines)
