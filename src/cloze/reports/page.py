"""Write HTML pages: each is one file without external resources."""

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cloze.file_io import to_json_text, write_text
from cloze.tokenization.unicode import replace_lone_surrogates

_DIRECTORY = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text cells."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_DIRECTORY / "templates"),
        autoescape=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )


def render(template: str, **values: Any) -> Markup:
    """Return the text of a template; all values that are no `Markup` are escaped."""
    return Markup(_environment().get_template(template).render(values))


def write_page(path: Path, template: str, data: object, **values: Any) -> None:
    """Write the page that `render_page` returns; raises RunError where the file cannot be written."""
    write_text(path, render_page(template, data, **values))


def render_page(template: str, data: object, **values: Any) -> str:
    """Return an HTML page; the same arguments give the same text.

    Args:
        template: name of the template, also that of the script built from `page/` at the top of the repository.
        data: data of the script; None leaves the script out.
        values: values of the template, as text; `page.html` has those of all pages.
    """
    script = "" if data is None else (_DIRECTORY / f"{template}.js").read_text("utf-8").strip()
    as_json = to_json_text(data).replace("<", "\\u003c")  # no text may end the element
    page = render(
        f"{template}.html",
        stylesheet=Markup((_DIRECTORY / "page.css").read_text("utf-8").strip()),
        script=Markup(script),
        data=Markup(as_json),
        **values,
    )
    return replace_lone_surrogates(page)  # names of files may not be UTF-8


def tables_in(
    settings: Mapping[str, Any], caption: str = "", prefix: str = ""
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return caption and values of each table in nested settings; the captions of inner ones are their dotted keys."""
    values: list[tuple[str, str]] = []
    inner: dict[str, Mapping[str, Any]] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            inner[prefix + key] = value
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            inner |= {f"{prefix}{key} {number}": item for number, item in enumerate(value, 1)}
        else:
            values.append((key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
    tables = [(caption, values)] if values else []
    for key, table in inner.items():
        tables += tables_in(table, key, f"{key}.")
    return tables


def format_value(value: object) -> str:
    """Write a number with four digits and a count in full; leave anything else as it is.

    >>> format_value(5.43219), format_value(12345), format_value(7412.3), format_value(0.0000125)
    ('5.432', '12,345', '7,412', '1.25e-05')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if math.isnan(value):
        return "undefined"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) < 0.001 else f"{value:#.4g}"
