"""Read HTML pages, and check that they are well-formed and have no external resources; a browser for them."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

VOID = {"meta", "br"}


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str | None] = []
        self.labels: list[str | None] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.labels += [value for name, value in attrs if name == "aria-labelledby"]
        assert not any(name.startswith("on") for name, _ in attrs), "an event handler"
        urls = [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        assert all(url.startswith("#") for url in urls), "an external resource"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read_page(path: Path) -> tuple[str, str]:
    """Return the HTML and the text of a page."""
    html = path.read_text("utf-8")
    parser = _Parser()
    parser.feed(html)
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids)), "an id occurs twice"
    assert set(parser.labels) <= set(parser.ids)
    return html, " ".join(" ".join(parser.text).split())


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser of playwright; skip the test if it is not installed."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def serious_violations(page: Any, *, without: str | None = None) -> list[tuple[str, list[str]]]:
    """Return what axe-core finds serious or critical on an open page: the rule, and five elements.

    Args:
        page: of playwright.
        without: a CSS selector of elements to leave out.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page, context={"exclude": [[without]] if without else []}).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    return [(each["id"], [node["html"][:120] for node in each["nodes"][:5]]) for each in serious]


def percent(share: float) -> str:
    """Return a probability as the scripts of the pages write it."""
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "<0.1%" if share < 0.5 else ">99.9%"
    return f"{100 * share:.1f}%"


def share_of(text: str) -> float:
    """Return the number that `percent` wrote, to 0.0005."""
    return {"<0.1%": 0.0005, ">99.9%": 0.9995}.get(text) or float(text.removesuffix("%")) / 100


def page_data(html: str) -> Any:
    """Return the data that the script of a page reads."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
    return json.loads(text)
