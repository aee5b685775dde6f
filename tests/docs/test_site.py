"""The site builds without warnings, loads nothing from other hosts, and covers all of the code."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
sys.path += [str(DOCS / "extensions"), str(DOCS / "pictures")]

import generated  # noqa: E402
from draw import PICTURES  # noqa: E402

import cloze  # noqa: E402
from cloze.cli import VERBS  # noqa: E402
from pages import chromium, serious_violations  # noqa: E402

PAGES = "\n".join(path.read_text("utf-8") for path in generated.pages())


@pytest.mark.exhaustive
def test_the_site_builds_and_loads_nothing_from_other_hosts(tmp_path):
    words = f"-m sphinx -q -W --keep-going -n -d {tmp_path}/trees {DOCS} {tmp_path}/site"
    done = subprocess.run([sys.executable, *words.split()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loads = re.compile(
        r"""<(?:script|img|iframe|source)[^>]*\ssrc="(?:https?:)?//|@import\s|url\(["']?https?:"""
    )
    style = re.compile(r"""<link[^>]*rel="(?:stylesheet|preload|preconnect|icon)"[^>]*href="(?:https?:)?//""")
    pages = [*(tmp_path / "site").rglob("*.html"), *(tmp_path / "site").rglob("*.css")]
    assert len(pages) > 100
    for page in pages:
        text = page.read_text("utf-8")
        if "_downloads" not in page.parts:
            assert not loads.search(text), page
            assert not style.search(text), page
    assert_the_search_finds_pages(tmp_path / "site")
    assert_readers_find_no_barrier(tmp_path / "site")


PAGES_OF_EACH_KIND = (
    *("index", "start", "performance", "guides/export", "explanation/index", "search"),
    *("notebooks/first-hour", "records/2026-11-28-threads/README"),
)


def assert_readers_find_no_barrier(site: Path) -> None:
    """Let axe-core read a page of each kind, light and dark."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for name in PAGES_OF_EACH_KIND:
                page.goto((site / f"{name}.html").as_uri())
                assert serious_violations(page) == [], f"{name}, {scheme}"


SEARCHES = {
    "confusion matrix": "guides/imbalanced-classes",
    "imbalance": "guides/imbalanced-classes",
    "early stopping": "guides/overfitting",
    "learning rate": "guides/learning-rate",
    "domain adaptation": "guides/adapt-to-your-domain",
    "int8": "guides/quantization",
    "vocabulary": "guides/vocabulary",
}
"""Words that readers type into the site's search, and a guide that it must find."""


def assert_the_search_finds_pages(site: Path) -> None:
    """Search with the site's own JavaScript: guides come before records and Python objects."""
    node = shutil.which("node")
    assert node, "the search of the site is JavaScript: install node"
    script = Path(__file__).with_name("search_site.js")
    done = subprocess.run([node, script, site, *SEARCHES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for (words, page), results in zip(SEARCHES.items(), json.loads(done.stdout), strict=True):
        assert page in results, words
        comes_last = [result.startswith(("records/", "reference/api")) for result in results]
        assert comes_last == sorted(comes_last), words


@pytest.mark.parametrize("name", PICTURES)
def test_diagrams_are_up_to_date_and_described(name):
    drawn = PICTURES[name]()
    assert (DOCS / "pictures" / f"{name}.svg").read_text("utf-8") == drawn, "run docs/pictures/draw.py"
    assert re.search(r'role="img".*<title>.+</title><desc>.{40,}</desc>', drawn)
    assert f"pictures/{name}.svg" in PAGES


def test_every_public_name_has_a_page(tmp_path):
    listed = re.findall(r"<!-- generated: names (.*) -->", PAGES)
    assert sorted(" ".join(listed).split()) == sorted(cloze.__all__)
    generated.write_reference(tmp_path)
    pages = {path.stem: path.read_text("utf-8") for path in tmp_path.glob("*/*.md")}
    assert "long_texts: Literal['truncate', 'windows'] | None" in pages["finetune"]
    for members in ("{py:method} __call__(texts", "{py:classmethod} load(model", ">>> import cloze"):
        assert members in pages["TextClassifier"]
    assert "| `optimizer.learning_rate` | 5e-05 | (0, 1) | The peak" in generated.settings("FinetuneConfig")


def test_the_pages_are_short():
    assert len(PAGES.split()) <= 35_000


@pytest.mark.slow
def test_every_section_of_the_paper_that_code_cites_is_shown():
    named = {section for _, _, source in generated.cited() for section in generated.sections_of(source)}
    assert {"3", "3.1 (task 1)", "3.1 (task 2)", "4.2", "5.3", "A.2"} <= named
    assert named == set(re.findall(r"<!-- generated: sources (.*) -->", PAGES))


def test_every_verb_and_flag_is_on_the_page():
    page = generated.commands("")
    assert re.findall(r"^## cloze (.+)$", page, re.MULTILINE) == list(VERBS)
    assert "| `--steps INT` |" in page
    assert re.search(r"^\| `TASK` \| .*name of the task", page, re.MULTILINE)
    assert "| `--quiet" not in page


def test_all_claims_are_listed():
    rows = "\n".join(generated.claims(pair) for pair in re.findall(r"<!-- generated: claims (.*) -->", PAGES))
    numbers = re.findall(r"^\| \[(\d+)\. .+\]\(.+\) \| .+ \| \*\*(?:Agrees|Differs)", rows, re.MULTILINE)
    assert sorted(map(int, numbers)) == list(range(1, 41))


def test_all_recipes_are_listed():
    recipes = {path.stem for path in (generated.SOURCE / "cloze" / "recipes").rglob("*.toml")}
    recipes |= {path.stem for path in (generated.REPOSITORY / "research/experiments/studies").glob("*.toml")}
    kinds = re.findall(r"<!-- generated: recipes (\w+) -->", PAGES)
    shown = "\n".join(generated.recipes(kind) for kind in kinds)
    assert set(re.findall(r"^### (.+)$", shown, re.MULTILINE)) == recipes


def test_the_guide_lists_every_route_of_the_server():
    app = pytest.importorskip("cloze.serving.app", reason="needs the extra serve")
    assert "<!-- generated: routes -->" in PAGES
    shown = generated.routes("")
    for route in app.ROUTES:
        assert (f"| `{route.path}` |" in shown) == (route.response is not None)
    assert '| `{"inputs": "Ada Lovelace was born in London."}` |' in shown


def test_the_guide_has_the_limits_of_the_server():
    limits = pytest.importorskip("cloze.serving.limits", reason="needs the extra serve")
    protocol = pytest.importorskip("cloze.serving.connections").LimitedProtocol
    page, default = (DOCS / "guides/serving.md").read_text("utf-8"), limits.Limits()
    for words in (
        f"{default.body_bytes // 10**6} MB per request, {default.max_batch_texts:,} inputs",
        f"{limits.MAX_CHARACTERS:,} characters each",
        f"does not arrive in {default.body_seconds:.0f} seconds",
        f"{default.waiting_requests} requests or {default.waiting_tokens:,} tokens",
        f"no answer after {default.deadline_seconds:.0f} seconds",
        f"{limits.MAX_CANDIDATES:,} candidates per request",
        f"does not read a response within {protocol.response_seconds:.0f}",
        f"Above {protocol.response_bytes // 10**6} MB of unread responses",
        f"up to {default.batch_tokens:,} tokens",
    ):
        assert words in page
