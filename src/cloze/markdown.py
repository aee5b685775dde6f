"""Markdown from templates, whose values may hold any characters."""

import functools
import json
import re
from pathlib import Path
from typing import Any

from cloze.tables import format_score

_PLAIN = re.compile(r"[A-Za-z][\w./+-]*")
_NOT_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
"""Words that YAML reads as another value than a text."""


def render_markdown(template: str, **values: Any) -> str:
    """Return the text of a template, named by its path in this package, as in training/card.md."""
    return str(_environment().get_template(template).render(values))


@functools.cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "code": code_span,
        "code_block": code_block,
        "yaml": yaml_text,
        "cell": table_cell,
    }
    environment.filters |= {"commas": "{:,}".format, "score": _score}
    return environment


def yaml_text(text: str) -> str:
    """Return a text as a value of YAML.

    >>> yaml_text("mit"), yaml_text("a: b"), yaml_text("no")
    ('mit', '"a: b"', '"no"')
    """
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT
    return text if is_plain else json.dumps(text, ensure_ascii=False)  # a string of JSON is one of YAML


def table_cell(text: str) -> str:
    """Return a text as a cell of a table; a pipe would end it."""
    return text.replace("|", "&#124;")


def _score(value: object) -> str:
    return format_score(value) if isinstance(value, float) else "" if value is None else str(value)


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
