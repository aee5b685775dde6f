"""What the pages that cloze writes have in common: one HTML file that needs no other, its head, cards and tables."""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from cloze.evidence.pictures import caption_id

_STYLESHEET = Path(__file__).with_name("page.css")


def page(
    *,
    name: str,
    kind: str,
    extent: str,
    tiles: Iterable[tuple[str, str, str]],
    body: str,
    footer: str,
    script: str = "",
) -> str:
    """Return a page. All but what is said to be HTML is text, and is escaped here.

    Args:
        name: of the thing that the page is about.
        kind: what sort of thing that is.
        extent: how large it is, in a line.
        tiles: the main figures: what, how much, and what that is beside.
        body: HTML.
        footer: HTML.
        script: HTML of script elements, for pages that can be asked.
    """
    shown = "".join(
        f'<div><dt>{escape(label)}</dt><dd><span class="value">{escape(value)}</span>'
        f'<br><span class="beside">{escape(beside)}</span></dd></div>\n'
        for label, value, beside in tiles
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
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
{shown}</dl>
{body}</main>
<footer>{footer}</footer>
{script}</body>
</html>
"""


def card(content: str) -> str:
    """Frame a table; a wide one scrolls."""
    return f'<div class="card scroll">\n{content}</div>\n'


def figure(name: str, title: str, svg: str, *, key: str = "", wide: bool = False) -> str:
    """Frame a picture of `draw_picture`, with its title and a key in HTML to its colours."""
    return (
        f"<figure{' class=' + chr(34) + 'wide' + chr(34) if wide else ''}>\n"
        f'<figcaption id="{caption_id(name)}"><strong>{escape(title)}</strong>'
        f'<span class="key">{key}</span></figcaption>\n{svg}\n</figure>\n'
    )


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, all of it text; the caption may be empty."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table>\n{_caption(caption)}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"


def words_table(caption: str, pairs: Iterable[tuple[str, object]]) -> str:
    """Return a table of names and what they stand for, all of it text; the caption may be empty."""
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>\n'
        for name, value in pairs
    )
    return f'<table class="words">\n{_caption(caption)}<tbody>\n{body}</tbody>\n</table>\n'


def _caption(text: str) -> str:
    return f"<caption>{escape(text)}</caption>\n" if text else ""


def sections_of(
    settings: Mapping[str, Any], title: str = "run"
) -> list[tuple[str, list[tuple[str, object]]]]:
    """Split nested settings into titled lists: the values of a table first, then the tables in it."""
    own: list[tuple[str, object]] = []
    inner: list[tuple[str, list[tuple[str, object]]]] = []
    for key, value in settings.items():
        full = key if title == "run" else f"{title}.{key}"
        if isinstance(value, Mapping):
            inner.extend(sections_of(value, full))
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for number, item in enumerate(value, 1):
                inner.extend(sections_of(item, f"{full} {number}"))
        else:
            own.append((key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
    return ([(title, own)] if own else []) + inner


def format_value(value: object) -> str:
    """Write a number with four figures, counts in full; anything else as it is.

    >>> format_value(5.43219), format_value(12345), format_value(7412.3), format_value(0.0000125)
    ('5.432', '12,345', '7,412', '1.25e-05')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) < 0.001 else f"{value:#.4g}"
