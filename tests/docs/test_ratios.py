"""Ratios of speed in the README and on the site are in the records that they link."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?:\.\./)*(records/[^)#]*README\.md)[^)]*\)")
RATIO = re.compile(r"\d[\d.]*(?: to \d[\d.]*)?(?: \([^)]*\))?\s+times\b")
FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.]*\d)")


def rates(value: Any) -> Iterator[str]:
    """Yield the median rates in a record, rounded to whole numbers."""
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        if name == "median":
            yield f"{item:,.0f}"
        elif isinstance(item, (dict, list)):
            yield from rates(item)


def figures_of(record: Path) -> set[str]:
    texts = (path.read_text("utf-8") for path in sorted(record.parent.glob("*.json")))
    of_files = {rate for text in texts for rate in rates(json.loads(text))}
    return of_files | set(FIGURE.findall(record.read_text("utf-8")))


CLAIMS = [
    (page.relative_to(REPOSITORY), claim)
    for page in PAGES
    for claim in re.split(r"\n\s*\n|\n(?=[-|] ?)", page.read_text("utf-8"))
    if RATIO.search(claim) and LINK.search(claim)
]
ROWS = re.findall(r"(?m)^\| .*\| [\d.]+(?: \([^|]*\))? \|$", (REPOSITORY / "README.md").read_text("utf-8"))


@pytest.mark.parametrize(("page", "claim"), CLAIMS, ids=[f"{page}-{i}" for i, (page, _) in enumerate(CLAIMS)])
def test_a_ratio_on_a_page_is_in_a_record_that_it_links(page, claim):
    figures = set[str]().union(*(figures_of(REPOSITORY / record) for record in LINK.findall(claim)))
    claimed = {figure for ratio in RATIO.findall(LINK.sub("]", claim)) for figure in FIGURE.findall(ratio)}
    assert {figure for figure in claimed if "." in figure} <= figures


@pytest.mark.parametrize("row", ROWS)
def test_a_ratio_of_the_readme_names_the_processor_and_has_its_figures_in_one_record(row):
    (record,) = LINK.findall(row)
    _work, processor, *figures = (cell.strip() for cell in row.strip("|").split("|"))
    assert re.match(r"\[(EPYC|Xeon)", processor)
    assert {figure for cell in figures for figure in FIGURE.findall(cell)} <= figures_of(REPOSITORY / record)


def test_the_readme_has_a_ratio_of_one_text():
    assert any(row.startswith("| one text") for row in ROWS)
