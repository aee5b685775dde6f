"""Every command and every example of the site, of the README and of the notebooks runs."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "docs" / "extensions"))

from declared import PAGES, smaller  # noqa: E402
from generated import fill_in  # noqa: E402
from running import NearlyAsPrinted, Page, Runner, blocks, texts  # noqa: E402

FIXTURES = ("minilm", "google_bert", "old_model", "shared")
DOCS = REPOSITORY / "docs"
PATHS = [
    REPOSITORY / "README.md",
    *sorted(path for path in DOCS.rglob("*.md") if DOCS / "records" not in path.parents),
]
RUN = [
    pytest.param(name, page, marks=[pytest.mark.long] if page.is_long else [], id=name)
    for name, page in PAGES.items()
]


def read(name: str) -> str:
    """What is on a page once everything generated stands in its place."""
    text = (REPOSITORY / name).read_text("utf-8")
    return fill_in(text) if "generated: recipes" in text else text


@pytest.mark.parametrize(("name", "page"), RUN)
def test_what_a_page_says_runs(
    name: str,
    page: Page,
    stock: Mapping[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    markdown = read(name)
    monkeypatch.chdir(tmp_path)
    runner = Runner(page, smaller)
    for called, thing in page.inputs.items():
        if thing.startswith("text "):
            Path(called).write_text(texts(markdown)[int(thing[5:])], "utf-8")
        else:
            first, _, rest = thing.partition("/")
            there = request.getfixturevalue(first) if first in FIXTURES else stock[first]
            Path(called).symlink_to(there / rest if rest else there)
            runner.give(**({called: called} if called == "MODEL" else {}))
    ran = list(blocks(markdown))
    assert ran
    for block in ran:
        runner.run(block)
    assert runner.used == {*page.replaced, *page.not_run}
    said = " ".join([*(block.code for block in ran), *page.replaced.values()])
    assert [called for called in page.inputs if called not in said] == []


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_nothing_on_a_page_escapes(path: Path) -> None:
    name = str(path.relative_to(REPOSITORY))
    markdown = read(name)
    assert not re.findall(r"^ {4,}(?:\$ )?cloze \w.*$", markdown, re.MULTILINE), (
        "write commands in blocks of sh"
    )
    assert (name in PAGES) == bool(list(blocks(markdown)))


@pytest.mark.parametrize(
    ("tolerance", "printed", "is_right"),
    [
        (0.01, "loss 2.005 of 12 words\n", True),
        (0.01, "loss   1.99 of 12 words\n", True),
        (0.01, "loss 2.03 of 12 words\n", False),
        (0.01, "loss -2.0 of 12 words\n", False),
        (0.01, "loss 2.0 of 13 words\n", False),
        (0.01, "loss 2.0 of 12.0 words\n", False),
        (0.01, "loss 2.0 of 12 pieces\n", False),
        (0.0, "loss 2.00 of 12 words\n", True),
        (0.0, "loss 2.0 of 12 words\n", False),
        (0.0, "loss  2.00 of 12 words\n", False),
    ],
)
def test_a_number_may_be_near_and_nothing_else(tolerance: float, printed: str, is_right: bool) -> None:
    assert NearlyAsPrinted(tolerance).check_output("loss 2.00 of 12 words\n", printed, 0) is is_right
