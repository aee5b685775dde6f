"""Parts of Markdown files, whose texts may hold any characters."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

_PLAIN = re.compile(r"[A-Za-z][\w./+-]*")
_NOT_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
"""Words that YAML reads as another value than a text."""


def front_matter(fields: Mapping[str, str | Sequence[str]]) -> list[str]:
    """Return the lines of YAML before the Markdown of a card, texts and lists of texts.

    >>> front_matter({"license": "mit", "base_model": "a: b", "tags": ["bert", "no"]})
    ['---', 'license: mit', 'base_model: "a: b"', 'tags: [bert, "no"]', '---']
    """
    lines = [
        f"{key}: {_scalar(value)}" if isinstance(value, str) else f"{key}: [{', '.join(map(_scalar, value))}]"
        for key, value in fields.items()
    ]
    return ["---", *lines, "---"]


def _scalar(text: str) -> str:
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT
    return text if is_plain else json.dumps(text, ensure_ascii=False)  # a string of JSON is one of YAML


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; a pipe within a cell is written as an HTML entity.

    >>> print(markdown_table(["task", "score"], [["MRPC", "88.9"]]))
    | task | score |
    | --- | --- |
    | MRPC | 88.9 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def code_span(text: str) -> str:
    r"""Return a text as code within a line.

    >>> code_span("a.tsv"), code_span("a`b\nc")
    ('`a.tsv`', '``a`b c``')
    """
    text = " ".join(text.splitlines())
    mark = "`" * (_longest_run(text) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{mark}{space}{text}{space}{mark}"


def code_block(text: str, language: str) -> str:
    """Return lines of code as a block.

    >>> print(code_block("cloze info run", "sh"))
    ```sh
    cloze info run
    ```
    """
    mark = "`" * max(3, _longest_run(text) + 1)
    return f"{mark}{language}\n{text}\n{mark}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
