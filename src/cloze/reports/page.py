"""Parts of the HTML pages that cloze writes: each page is one file without external resources."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

_STYLESHEET = Path(__file__).with_name("page.css")
_CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
)
"""Nothing is loaded from anywhere, whatever a script in the file asks for."""


def render_page(
    *,
    name: str,
    kind: str,
    extent: str,
    tiles: Iterable[tuple[str, str, str]],
    body: str,
    footer: str,
    script: str = "",
) -> str:
    """Return an HTML page.

    Args:
        name: subject of the page, as text.
        kind: kind of the subject, as text.
        extent: one line about its size, as text.
        tiles: main figures, as text: label, value, context.
        body: HTML.
        footer: HTML.
        script: HTML of script elements.
    """
    main_figures = "".join(
        f'<div><dt>{escape(label)}</dt><dd><span class="value">{escape(value)}</span>'
        f'<br><span class="beside">{escape(context)}</span></dd></div>\n'
        for label, value, context in tiles
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">
<title>{escape(name)} · {escape(kind)}</title>
<style>
{_STYLESHEET.read_text("utf-8").strip()}
</style>
</head>
<body>
<header>
<p class="eyebrow">cloze · {escape(kind)}</p>
<h1>{escape(name)}</h1>
<p>{escape(extent)}</p>
</header>
<main>
<dl class="tiles" aria-label="Main figures">
{main_figures}</dl>
{body}</main>
<footer>{footer}</footer>
{script}</body>
</html>
"""


APP = """<noscript><p class="warning">This page needs JavaScript; its script is in the file.</p></noscript>
<div id="app"></div>
"""
"""The place that a script fills."""
APP_OF_FIGURES = """<noscript><p class="warning">The plots need JavaScript, which is in the file.</p></noscript>
<div id="app" class="figures"></div>
"""
"""The same, with figures side by side."""


def render_script(path: Path, data: object) -> str:
    """Return HTML with a script, built from `page/` at the top of the repository, and the data that it reads."""
    as_json = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # no text may end the element
    script = path.read_text("utf-8").strip()
    return f'<script type="application/json" id="data">{as_json}</script>\n<script>\n{script}\n</script>\n'


def section(title: str, *content: str, note: str = "", css: str = "") -> str:
    """Return a heading, a note under it, and content in a `div` of class `css`; all but the title is HTML."""
    parts = [f"<h2>{escape(title)}</h2>\n"]
    if note:
        parts.append(f'<p class="note">{note}</p>\n')
    parts += [f'<div class="{css}">\n', *content, "</div>\n"] if css else content
    return "".join(parts)


def details(summary: str, *content: str) -> str:
    """Return HTML content that is folded under a summary."""
    return f"<details><summary>{escape(summary)}</summary>\n{''.join(content)}</details>\n"


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of text cells in a card; an empty caption is left out."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return _table(caption, cells, head=f"<thead><tr>{head}</tr></thead>\n")


def key_value_table(caption: str, pairs: Iterable[tuple[str, object]]) -> str:
    """Return a table of names and values, all text, in a card; an empty caption is left out."""
    cells = (f'<th scope="row">{escape(name)}</th><td>{escape(str(value))}</td>' for name, value in pairs)
    return _table(caption, cells, css=' class="words"')


def _table(caption: str, rows: Iterable[str], *, head: str = "", css: str = "") -> str:
    title = f"<caption>{escape(caption)}</caption>\n" if caption else ""
    body = "".join(f"<tr>{cells}</tr>\n" for cells in rows)
    return (
        f'<div class="card scroll">\n<table{css}>\n{title}{head}<tbody>\n{body}</tbody>\n</table>\n</div>\n'
    )


def settings_section(
    title: str, settings: Mapping[str, Any], *, source: str, note: str = "", name: str = ""
) -> str:
    """Return a section with a card for each table of nested settings; the card of the outer one is called `name`."""
    if not settings:
        return section(title, note=f"The run has no {source}.")
    cards = [key_value_table(path or name, values) for path, values in _tables_in(settings) if values]
    return section(title, *cards, note=note, css="columns")


def _tables_in(settings: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, list[tuple[str, object]]]]:
    """Yield the dotted name and the values of each table in nested settings."""
    values: list[tuple[str, object]] = []
    inner: dict[str, Mapping[str, Any]] = {}
    for key, value in settings.items():
        full = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            inner[full] = value
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            inner |= {f"{full} {number}": item for number, item in enumerate(value, 1)}
        else:
            values.append((key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
    yield path, values
    for full, table in inner.items():
        yield from _tables_in(table, full)


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
