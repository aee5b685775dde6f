"""The explorer in a real browser: every view, in light, in dark and on a phone.

The page logs no errors and requests no other host, and axe-core finds no serious violation.
"""

import ast
import base64
import json
import math
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import numpy as np
import pytest
from clients import client_of, listening
from explorer_models import BLAME_OR_PRAISE, CONFIG, PIECES, make_classifier, make_models

import cloze
from cloze.api.evaluation import EvaluationResult
from cloze.data.row_files import write_rows
from cloze.explorer.encoder_internals import heads_off, input_embeddings
from cloze.inference.explain import explain
from cloze.inference.predictor import Predictor
from cloze.inference.search import PassageIndex
from cloze.metrics.breakdown import class_breakdown
from cloze.models.bert import BertModel
from cloze.models.heads import BertForPreTraining
from cloze.progress import SILENT
from cloze.reports.run_report import write_report
from cloze.serving.served_model import ServedModel, index_documents
from cloze.tasks.texts import LabeledText
from helpers import task_of
from pages import percent, serious_violations
from tiny_models import write_checkpoint

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = sync_api.expect
expect.set_options(timeout=20_000)  # a busy machine draws slowly

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "page"
EXAMPLES: dict[str, Any] = json.loads((PAGE / "src" / "examples.json").read_text("utf-8"))

SCREENS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1100, "height": 800}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light", "has_touch": True},
}
SHOWS = {
    "fill": ".masks table.bars",
    "pairs": ".heat >> nth=1",
    "answers": ".spans",
    "entities": ".entities",
    "why": "table.bars",
    "predict": "table.bars",
    "errors": ".answers tbody tr",
    "map": ".effects td[style]",
    "rank": ".missing",
    "lesson": ".question",
}
"""An element that a view has once its example is answered."""
OPENED = {
    "map?open=head&layer=2&head=1": ".steps .values",
    "map?open=token&token=3&box=input.token": "table.input td",
    "map?open=token&token=3&box=2.scores": ".bars.scores td",
}
"""The same of cells of the map that are open."""
SHIFT = """window.shift = 0;
new PerformanceObserver((list) => list.getEntries().forEach((entry) => { window.shift += entry.value; }))
  .observe({ type: "layout-shift", buffered: true });"""
BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
NARROW = """() => {
  const found = [], texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const range = document.createRange(), text = texts.currentNode.data.trim();
    range.selectNodeContents(texts.currentNode);
    const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
    if (lines.size > 1 && text.length < 3 * (lines.size - 1)) found.push(text);
  }
  return found;
}"""
CUT = """() => [...document.querySelectorAll("main :not(input)")]
  .filter((one) => one.clientWidth && getComputedStyle(one).overflow !== "visible")
  .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1)
  .map((one) => one.outerHTML.slice(0, 100))"""
LOST_COLORS = """() => [...document.querySelectorAll(
  "main :is(mark, .piece, .cell, .strip, td[style], [type=checkbox], .word[aria-pressed=true])",
)].map((one) => [one.outerHTML.slice(0, 100), getComputedStyle(one)])
  .filter(([_, style]) => style.forcedColorAdjust !== "none" || style.printColorAdjust !== "exact")
  .map(([html]) => html)"""
HIDDEN = ".strip"
"""Elements that axe need not see: many, and no text."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_models(tmp_path_factory.mktemp("models"))


Evaluated = tuple[Path, EvaluationResult]
LABELED = [
    (f"{start} {end}, she said.", label)
    for start in ("The film is", "A story that is", "It is not", "Warm and", "The man was")
    for end, label in (
        ("dull", "blame"),
        ("wonderful", "praise"),
        ('a "mess"', "blame"),
        ("funny\nto me", "praise"),
    )
]


@pytest.fixture(scope="module")
def evaluation(paths: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """The file of an evaluation of the classifier, and its result."""
    path = tmp_path_factory.mktemp("evaluation") / "answers.jsonl"
    return path, cloze.evaluate(model=paths["classifier"], data=LABELED, output=path)


@pytest.fixture(scope="module")
def address(paths: dict[str, Path], evaluation: Evaluated) -> Iterator[str]:
    with listening(client_of(paths, evaluation=evaluation[0]).app) as address:
        yield address


@dataclass
class Visit:
    """A page, and the errors that it logged."""

    page: Any
    address: str
    complaints: list[str] = field(default_factory=list)

    def open(self, view: str) -> Any:
        """Go to a view, and wait until its example is answered."""
        self.page.goto(f"{self.address}/#{view}")
        self.page.locator(OPENED.get(view) or SHOWS[view.partition("?")[0]]).first.wait_for()
        expect(self.page.locator("[aria-busy]")).to_have_count(0)
        return self.page

    def ask(self, path: str, **body: Any) -> Any:
        """Return the server's answer to a request."""
        return self.page.request.post(f"{self.address}/{path}", data=body).json()


@contextmanager
def visit(browser: Any, address: str, **screen: Any) -> Iterator[Visit]:
    """Open a page that must log no error and request no other host."""
    context = browser.new_context(reduced_motion="reduce", **(screen or SCREENS["light"]))
    visited = Visit(context.new_page(), address)
    visited.page.set_default_timeout(20_000)
    say = visited.complaints.append

    def check_host(request: Any) -> None:
        if not request.url.removeprefix("blob:").startswith(address):
            say(f"asked {request.url}")

    def check_log(told: Any) -> None:
        if told.type in ("error", "warning"):
            say(f"{told.text} {told.location['url']}")

    handlers = {"request": check_host, "console": check_log, "pageerror": lambda error: say(str(error))}
    for event, handler in handlers.items():
        visited.page.on(event, handler)
    yield visited
    assert visited.complaints == []
    context.close()


@contextmanager
def visit_server(browser: Any, models: Mapping[str, ServedModel | Path], **settings: Any) -> Iterator[Visit]:
    """Serve models, and open a page."""
    with listening(client_of(models, **settings).app) as address, visit(browser, address) as visited:
        yield visited


def attributions(marks: Any) -> list[float]:
    """Return the contributions that marked words have as titles."""
    titles = marks.evaluate_all("all => all.map(one => one.title)")
    return [float(title.replace("−", "-")) for title in titles]


def tab_of(view: str) -> str:
    return "Lessons" if view == "lesson" else view.capitalize()


def expect_equal(read: Callable[[], Any], expected: Any) -> None:
    """Wait until the page shows what is expected: answers may still arrive."""
    deadline = time.monotonic() + 20
    while read() != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert read() == expected


def release(page: Any, waiting: list[Any], content: str) -> None:
    """Wait for a held request with a content, and let it pass; those before it are dropped."""
    while not (waiting and content in (waiting[-1].request.post_data or "")):
        page.wait_for_timeout(20)
    waiting[-1].continue_()


def scroll(page: Any, top: str, box: str) -> None:
    """Scroll the boxes as a reader until one is chosen; for a while after its own scrolling the page chooses none."""
    deadline = time.monotonic() + 20
    while box not in page.locator(".step[aria-pressed=true]").inner_text():
        assert time.monotonic() < deadline, f"scrolling does not choose {box}"
        page.locator(".flow").evaluate(
            f"flow => {{ flow.scrollTo(0, {top}); flow.dispatchEvent(new Event('scroll')); }}"
        )
        page.wait_for_timeout(50)


@pytest.fixture(scope="module")
def visited(browser: Any, address: str) -> Iterator[Visit]:
    with visit(browser, address) as visited:
        yield visited


@pytest.fixture
def opened(visited: Visit) -> Iterator[Visit]:
    """The page that all tests share: opening another takes longer than most of them."""
    yield visited
    complaints = visited.complaints.copy()
    visited.complaints.clear()
    visited.page.unroute_all(behavior="ignoreErrors")
    visited.page.context.set_offline(False)
    visited.page.mouse.move(0, 0)
    visited.page.goto("about:blank")
    assert complaints == []


@pytest.mark.parametrize("screen", SCREENS)
def test_every_view_is_legible(browser, address, screen):
    # no request gave the table of errors; Pairs has three parts, an open head its answers and its attention
    shared = {"errors": 0, "lesson": 0, "rank": 0, "pairs": 3, "map?open=head&layer=2&head=1": 3}
    with visit(browser, address, **SCREENS[screen]) as visited:
        visited.page.add_init_script(SHIFT)
        for view in SHOWS | OPENED:
            visited.page.goto("about:blank")  # the next address is loaded
            page = visited.open(view)
            assert page.evaluate("window.shift") < 0.1, view
            expect(page.get_by_role("tab", selected=True)).to_have_text(tab_of(view.partition("?")[0]))
            assert page.evaluate(BEYOND) <= 0, f"{view} is wider than the screen"
            expect(page.get_by_role("group", name="Copy as")).to_have_count(
                shared.get(view, 1 + (view in OPENED))
            )
            if view in ("map?open=head&layer=2&head=1", "pairs", "answers"):
                sizes = page.evaluate(TEXT_SIZES)
                assert len(sizes) > 5
                assert set(sizes) == {12}, view
            if screen == "phone":
                assert small_targets(page, view) == [], view
            else:
                assert [each for each in page.evaluate(CONTRASTS) if each[0] < 4.5] == [], view
            if screen == "light":
                assert serious_violations(page, without=HIDDEN) == [], view
                for width in (768, 720, 718):  # a tablet, a zoom of 200%, paper
                    page.set_viewport_size({"width": width, "height": 900})
                    page.emulate_media(media="print" if width == 718 else "screen")
                    assert page.evaluate(BEYOND) <= 0, (view, width)
                    assert page.evaluate(NARROW) == [], (view, width)
                assert page.evaluate(CUT) == [], view
                page.emulate_media(forced_colors="active")
                assert page.evaluate(LOST_COLORS) == [], view
                page.emulate_media(media="screen", forced_colors="none")
                page.set_viewport_size(SCREENS[screen]["viewport"])


def test_a_large_model_and_odd_words_fit_the_page(browser, tmp_path):
    config = replace(CONFIG, num_hidden_layers=12, num_attention_heads=12, initializer_range=0.02)
    write_checkpoint(tmp_path, BertForPreTraining(BertModel(config)), PIECES, max_seq_length=128)
    family, flag, thumb = (
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\U0001f1e9\U0001f1ea",
        "\U0001f44d\U0001f3fd",
    )
    signs = ["a" * 160, family, flag, thumb, "\u05e9\u05dc"]
    with visit_server(browser, {"deep": tmp_path}) as visited:
        text = "the man went to the bank of the river and the man went to the [MASK] of the city and the ."
        page = visited.open(f"map?{urlencode({'text': text})}")
        tables = page.locator(".scroll:has(.cells)")
        assert tables.evaluate_all("all => all.map(one => one.scrollWidth - one.clientWidth)") == [0, 0]
        tops = tables.evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
        assert tops[0] == tops[1]  # a row is a layer in both
        assert min(float(end[1:]) for end in legends(page)[1].split()) >= 0.1, "a scale from 0.0 to 0.0"
        cells = [page.locator(f".{name} button.cell").count() for name in ("tokens", "effects")]
        assert cells == [13 * 24, 12 * 12]
        for width in (768, 390):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(BEYOND) <= 0, width
        page.set_viewport_size(SCREENS["light"]["viewport"])
        for view, label in (("map", "Text; [MASK] hides a word"), ("fill", "Your own sentence")):
            page = visited.open(view)
            page.get_by_label(label, exact=True).fill(" ".join([*signs, *["river"] * 40]))
            tokens = page.locator(".word" if view == "fill" else ".tokens tfoot th")
            expect(tokens.last).to_have_text(re.compile("river" if view == "fill" else "SEP"))
            expect(page.locator("[aria-busy]")).to_have_count(0)
            assert page.evaluate(BEYOND) <= 0, view
            if view == "map":
                shown = page.locator(".tokens tfoot bdi").all_text_contents()
                assert shown[1:6] == [sign if i else "a" * 160 for i, sign in enumerate(signs)]
                page.locator(".effects .cell").first.click()
                expect(page.locator(".steps .note bdi")).to_have_count(2)
                tokens = page.locator(".pieces .piece")
                assert page.evaluate(BEYOND) <= 0, view
            assert tokens.evaluate_all("all => all.filter(one => one.tabIndex >= 0).length") == 1, view
            tokens.first.focus()
            for key, place in (("ArrowRight", 1), ("End", -1), ("ArrowRight", 0)):
                page.keyboard.press(key)
                expect(tokens.nth(place)).to_be_focused()
        assert tokens.all_text_contents()[:5] == signs


def test_words_are_hidden_by_a_click_and_kept_in_the_address(opened):
    page = opened.open("fill")
    masks, headings = page.locator(".masks"), page.locator(".masks h3")
    page.get_by_label("Your own sentence").fill("The man went to London.")
    expect(page.locator(".word")).to_have_count(6)
    expect(masks).to_have_text("Nothing is hidden. Click a word above.")
    page.get_by_role("button", name="London").click()
    expect(headings).to_have_text("Blank 1 · you hid “London”")
    page.get_by_label("Also mask the words after").check()
    expect(page).to_have_url(re.compile(r"#fill\?text=The\+man\+went\+to\+London\.&hide=4&left=1$"))
    address = page.url
    page.get_by_role("button", name="man", exact=True).press("Enter")
    expect(page.locator(".masks .card")).to_have_count(2)
    expect(page.locator(".masks table.bars")).to_have_count(4)
    expect(page.locator(".masks table.bars tr")).to_have_count(32)
    expect(page.locator(".remark").first).to_contain_text("words after it")
    # a blank stays one, in any case
    page.get_by_label("Your own sentence").fill("The [mask] went to the [Mask] river.")
    page.get_by_role("button", name="a blank").first.click()
    expect(page.get_by_role("button", name="a blank")).to_have_count(2)
    page.get_by_role("button", name="river").click()
    expect(page.locator(".masks .card")).to_have_count(3)
    page.get_by_role("tab", name="Map").click()
    expect(page.locator(".tokens tfoot th").filter(has_text="[MASK]")).to_have_count(2)
    page.go_back()
    expect(page.get_by_label("Your own sentence")).to_have_value("The [mask] went to the [Mask] river.")
    page.goto("about:blank")
    page.goto(address)
    expect(headings).to_have_text("Blank 1 · you hid “London”")
    expect(page.get_by_label("Also mask the words after")).to_be_checked()
    # an answer stays under the heading that it answers
    waiting: list[Any] = []
    page.route("**/fill", lambda route: waiting.append(route))  # the next answer takes its time
    page.get_by_role("button", name="man").click()
    page.get_by_role("button", name="London").click()
    expect(page.locator(".masks[aria-busy]")).to_have_count(1)
    expect(headings).to_have_text("Blank 1 · you hid “London”")
    release(page, waiting, "The [MASK] went to London.")
    expect(headings).to_have_text("Blank 1 · you hid “man”")


def test_numbers_inside_are_those_of_the_server(opened):
    page = open_head(opened, "She was born", "It is warm")
    expect(page.locator(".piece")).to_have_count(9)
    heads = page.locator("table.heads")
    heads.get_by_role("button", name="layer 2, head 3").click()
    expect(page.get_by_role("heading", name="Attention: layer 2, head 3")).to_be_visible()
    page.locator(".piece").nth(3).hover()
    expect(page.locator(".piece").nth(3)).to_have_attribute("aria-pressed", "true")
    asked = {"model": "pretrained", "text": "She was born", "pair": "It is warm"}
    answer = opened.ask("explore/row", **asked, layer=1, head=2, token=3)
    best = max(range(9), key=lambda piece: answer["weights"][piece])
    token = page.locator(".piece").nth(best).evaluate("one => one.firstChild.textContent")
    shown = f"born attends to {token} with weight {percent(answer['weights'][best])}."
    expect(page.locator(".remark").last).to_contain_text(shown)
    page.locator(".matrix").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".remark").last).to_contain_text("[SEP] attends to")
    page.locator(".scores button").last.click()
    expect(page.locator(".scores tr.strong")).to_have_count(1)
    heads.get_by_role("button", name="layer 2, head 3").press("ArrowDown")
    expect(page.get_by_role("heading", name="Attention: layer 1, head 3")).to_be_visible()
    # the mean of several heads, and parts of the attention
    page.get_by_label("Which tokens attend to which").select_option("From A to B")
    page.get_by_label("Hide [CLS] and [SEP]").check()
    expect(page.locator(".lines text")).to_have_text(["she", "was", "born", "it", "is", "warm"])
    expect(page.locator(".matrix text")).to_have_count(6)
    expect(page).to_have_url(re.compile("between=ab"))
    page.get_by_label("Second text").fill("")
    expect(page.locator(".lines text")).to_have_count(6)
    page.get_by_label("Hide [CLS] and [SEP]").uncheck()
    heads.get_by_role("button", name="layer 2, head 3").click()
    page.get_by_label("Mean of several heads").check()
    expect(page.get_by_role("heading", name="Attention: mean of 3 heads")).to_be_visible()
    heads.get_by_role("button", name="layer 2, head 3").click()
    heads.get_by_role("button", name="layer 1, head 1").click()
    heads.get_by_role("button", name="layer 1, head 2").click()
    expect(page.get_by_role("heading", name="Attention: mean of 4 heads")).to_be_visible()
    page.locator(".piece").nth(3).hover()
    asked["pair"] = None
    answer = opened.ask("explore/inside", **asked)
    weights = np.frombuffer(base64.b64decode(answer["weights"]), "<f4").reshape(2, 3, 5, 5)
    chosen = set(heads.locator(".cell[aria-pressed=true]").evaluate_all("all => all.map(one => one.title)"))
    numbers = [tuple(int(digit) - 1 for digit in re.findall(r"\d", name)) for name in chosen]
    mean = np.mean([weights[layer, head, 3] for layer, head in numbers], axis=0)
    expect(page.locator(".piece small")).to_have_text(list(map(percent, mean)))
    page.get_by_role("button", name="Mean of head 2 of all layers").click()
    expect(page.get_by_role("heading", name="Attention: mean of 2 heads")).to_be_visible()


def open_head(visited: Visit, text: str, pair: str = "", **settings: str) -> Any:
    """Open the first head of the second layer of a text or a pair."""
    view = "map?open=head&layer=2&head=1"
    page = visited.open(view)
    asked = {"text": text, **({"pair": pair} if pair else {}), **settings}
    page.goto(f"{visited.address}/#{view}&{urlencode(asked)}")
    expect(page.get_by_label("Text; [MASK] hides a word")).to_have_value(text)
    expect(page.locator("[aria-busy]")).to_have_count(0)
    page.locator(OPENED[view]).first.wait_for()
    return page


def test_the_cells_of_the_map_are_those_of_single_steps_and_of_python(opened, paths):
    text = "She [MASK] born in London"
    page = opened.open("map")
    page.get_by_label("Text; [MASK] hides a word").fill(text)
    expect(page.locator(".tokens tfoot th")).to_have_text(
        ["[CLS]", "she", "[MASK]", "born", "in", "london", "[SEP]"]
    )
    expect(page.locator("[aria-busy]")).to_have_count(0)

    def names(table: str) -> dict[str, str]:
        pairs = "all => all.map(one => [one.dataset.cell, one.title])"
        return dict(page.locator(f".{table} .cell").evaluate_all(pairs))

    fill = cloze.FillMask.load(paths["pretrained"])
    tokens = names("tokens")
    ((first, *_),) = fill(text)
    assert tokens["2.2"].endswith(f"after layer 2: {first.token} {percent(first.probability)}")
    asked = {"model": "pretrained", "text": text}
    for token in range(7):
        trace = opened.ask("explore/layers", **asked, token=token)
        for row, (best, *_) in enumerate(trace["masked_lm"]["candidates"]):
            assert tokens[f"{row}.{token}"].endswith(f": {best['token']} {percent(best['probability'])}")
    effects = names("effects")
    assert len(effects) == 6
    place = fill.tokenizer.tokens.index(first.token)
    for layer, head in np.ndindex(2, 3):
        with heads_off(fill.encoder, [(layer, head)]):
            without = fill.probabilities(text)[0]
        shown = f"“{first.token}” for [MASK] {percent(first.probability)} → {percent(without[place])}"
        best = fill.tokenizer.tokens[without.argmax()]
        other = "" if best == first.token else f", first is “{best}”"
        assert effects[f"{layer}.{head}"] == f"layer {layer + 1}, head {head + 1}: without it {shown}{other}"
        alone = opened.ask("explore/ablation", **asked, heads=[[layer, head]])
        assert percent(alone["without"][0]["first"][0]) in shown
    page.get_by_label("Cells show").select_option("how far the vector turned")
    turned = names("tokens")
    for row, layer in enumerate(trace["layers"], 1):
        for token, turn in enumerate(layer["movements"]):
            assert turned[f"{row}.{token}"].endswith(f"after layer {row}: turned by {turn:.2f}")


def test_the_map_is_one_stop_of_the_keyboard_for_each_table(opened):
    page = opened.open("map")
    count = page.locator(".tokens tfoot th").count()
    for table, top, columns, left in (("tokens", 2, count, 0), ("effects", 1, 3, -1)):
        stops = page.locator(f".{table} [tabindex='0']")
        expect(stops).to_have_count(1)
        stops.focus()
        moves = {
            "Home": f"{top}.{left}",
            "ArrowRight": f"{top}.{left + 1}",
            "ArrowDown": f"{top - 1}.{left + 1}",
            "End": f"{top - 1}.{columns - 1}",
            "ArrowUp": f"{top}.{columns - 1}",
        }
        for key, place in moves.items():
            page.keyboard.press(key)
            expect(page.locator(f'.{table} [data-cell="{place}"]')).to_be_focused()
            expect(stops).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The answers without layer 2 head 3")).to_be_visible()
    page.locator(".tokens [tabindex='0']").focus()
    page.keyboard.press(" ")
    expect(page.get_by_role("heading", name="What happens to")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="The answers without layer 2 head 3")).to_be_visible()


def test_answers_without_heads_are_those_of_python(opened, paths):
    page = opened.open("map")
    page.get_by_label("Text; [MASK] hides a word").fill("She was born")
    page.get_by_label("Masked for the heads").select_option("was")
    page.get_by_label("Switch several heads off").check()
    card = page.locator(".card:has(.before-after)")
    heads = page.locator(".effects")
    expect(card.get_by_role("status").first).to_have_text("No head is off.")
    expect(card.locator("table.bars")).to_have_count(1)
    heads.get_by_role("button", name="layer 1, head 2").press("Enter")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(card.get_by_role("status").first).to_have_text("Off: layer 1 head 2, layer 2 head 2")
    heads.get_by_role("button", name="Switch all heads of layer 2 off or on").click()
    expect(page).to_have_url(re.compile(r"masked=3.*off=1\.2-2\.1-2\.2-2\.3"))
    expect(heads.locator(".cell[aria-pressed=true]")).to_have_count(4)
    expect(card).to_contain_text("Without 4 heads")
    expect(card.locator("[aria-busy]")).to_have_count(0)

    fill, follows = cloze.FillMask.load(paths["pretrained"]), cloze.NextSentence.load(paths["pretrained"])

    def rows(table: int) -> list[str]:
        return list(card.locator("table.bars").nth(table).locator("tr").all_text_contents())

    def expected() -> tuple[list[str], list[str]]:
        (candidates,) = fill("She [MASK] born")
        share = follows("She was born", "It is warm").probability
        pair = [f"B follows A{percent(share)}", f"B does not{percent(1 - share)}"]
        return [f"{found.token}{percent(found.probability)}" for found in candidates], pair

    words, pair = expected()
    for model in (fill, follows):  # the dense layer after the heads multiplies these by 0
        first, second = (layer.attention_output.weight for layer in model.encoder.layers)
        first.data[:, 8:16] = 0
        second.data[:] = 0
    words_without, pair_without = expected()
    expect_equal(lambda: [rows(0), rows(1)], [words, words_without])
    page.get_by_label("Second text").fill("It is warm")
    expect(card.locator("table.bars")).to_have_count(4)
    expect_equal(lambda: [rows(2), rows(3)], [pair, pair_without])
    page.get_by_label("Heads show").select_option("B follows A")
    expect(page.locator(".shades").last).to_contain_text(
        f"points of B follows A, {pair[0].removeprefix('B follows A')},"
    )
    card.get_by_role("button", name="All heads on").click()
    expect(card.locator("table.bars")).to_have_count(2)
    heads.get_by_role("button", name="Switch head 3 of all layers off or on").click()
    page.reload()
    expect(card.get_by_role("status").first).to_have_text("Off: layer 1 head 3, layer 2 head 3")
    page.get_by_label("Model for: The model as a map").select_option("classifier")
    expect(page.locator(".map")).to_contain_text("The model classifies single texts. Remove the second text")
    page.get_by_label("Second text").fill("")
    labels = card.get_by_role("table", name="Labels, without heads").locator("th")
    expect(labels).to_have_text(["blame", "praise"])
    page.get_by_label("Model for: The model as a map").select_option("tagger")
    expect(card).to_have_count(0)


def test_the_input_embeddings_are_those_of_python(opened, paths):
    text, pair = "She was born in London", "It is warm"
    page = opened.open("map?open=token&token=3&box=input.token")
    page.get_by_label("Text; [MASK] hides a word").fill(text)
    page.get_by_label("Second text").fill(pair)
    page.locator('.tokens [data-cell="0.1"]').click()
    model = cloze.FillMask.load(paths["pretrained"])
    embeddings = input_embeddings(model.encoder, model.tokenizer.encode(text, pair))
    rows = page.locator("table.input tbody tr")
    for number, name in enumerate(("word", "segment", "position", "normalized"), 1):
        shown = [f"{length:.2f}" for length in embeddings[name].norm(dim=-1).tolist()]
        expect(rows.nth(number).locator("small")).to_have_text(shown)


def test_a_hundred_tokens_are_legible_in_a_window(opened):
    page = open_head(opened, "the man went to the bank " * 16)
    expect(page.locator(".piece")).to_have_count(98)
    expect(page.locator(".matrix text")).to_have_count(56)
    height = page.locator(".matrix text").first.evaluate("one => one.getBoundingClientRect().height")
    assert height >= 9  # pixels
    page.locator(".overview").click(position={"x": 180, "y": 180})
    first, last = page.locator(".matrix text").nth(0), page.locator(".matrix text").nth(27)
    page.locator(".piece").nth(97).click()
    expect(last).to_have_text("[SEP]")
    expect(first).not_to_have_text("[CLS]")
    slider = page.get_by_role("slider", name="Tokens in view")
    slider.focus()
    slider.press("Home")
    expect(page.locator(".matrix text")).to_have_count(12)


def test_a_token_is_followed_from_the_tables_to_the_prediction(opened):
    page = opened.open("map")
    cell = '.tokens [data-cell="{}"]'.format
    page.get_by_label("Text; [MASK] hides a word").fill("She was born in London")
    expect(page.locator(".tokens tfoot th")).to_have_count(7)
    page.locator(cell("0.3")).click()
    expect(page.get_by_role("heading", name="What happens to born")).to_be_visible()
    answer = opened.ask("explore/layers", model="pretrained", text="She was born in London", token=3)
    boxes, numbers = page.locator(".flow .step"), page.locator(".walk-numbers")
    expect(boxes).to_have_count(5 + 2 * 13 + 5)

    def shown(vector: dict[str, Any]) -> list[str]:
        values = np.frombuffer(base64.b64decode(vector["values"]), "<f4")
        return [f"{value:.3f}".replace("-", "−") if round(float(value), 3) else "0.000" for value in values]

    vectors = {"Input: Token embedding": answer["input"]["word"]}
    for layer, found in enumerate(answer["layers"], 1):
        for title, step in {"Query": "query", "Heads": "context", "Feed-forward": "intermediate"}.items():
            vectors[f"Layer {layer}: {title}"] = found["steps"][step]
    vectors["Output: MLM head"] = answer["masked_lm"]["transformed"]
    vectors["Output: Pooler"] = answer["pooler"]["pooled"]
    for name, vector in vectors.items():
        group, title = name.split(": ")
        stage = page.locator(f'.stage[aria-label="{group}"]')
        stage.locator(".step").filter(has=page.get_by_text(title, exact=True)).click()
        expect(numbers.get_by_role("heading").first).to_have_text(name)
        assert numbers.locator(".vector-numbers").text_content().split() == shown(vector), name
    boxes.nth(33).click()
    best = answer["masked_lm"]["candidates"][2][0]
    expect(numbers.locator("tr.strong")).to_contain_text(best["token"])
    expect(page.locator(cell("2.3"))).to_have_attribute("aria-pressed", "true")
    here = page.locator(".step[aria-pressed=true]")
    boxes.first.click()
    expect(here).to_contain_text("Token")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(here).to_contain_text("Segment embedding")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.locator(cell("2.3")).click()
    expect(page.locator(".walk-numbers h4").first).to_have_text("Layer 2: Query")
    expect(page).to_have_url(re.compile("box=2.query"))
    read = numbers.get_by_role("table", name="What the MLM head reads here").locator("tr")
    candidates = answer["masked_lm"]["candidates"][2]
    expect(read).to_have_text([f"{one['token']}{percent(one['probability'])}" for one in candidates])
    scroll(page, "flow.scrollHeight", "Next sentence")
    scroll(page, "0", "Token")
    expect(page.locator(".walk-numbers h4").first).to_have_text("Input: Token")
    page.get_by_label("Text; [MASK] hides a word").fill("She was 😀 in London")
    expect(page.locator(".tokens th.unknown")).to_have_text("😀")
    page.locator(cell("1.3")).click()
    expect(page.get_by_role("heading", name="What happens to 😀")).to_be_visible()
    page.locator('.effects [data-cell="0.0"]').click()
    expect(page.locator(".piece.unknown")).to_contain_text("😀")
    expect(page.locator(".lines text").filter(has_text="😀")).to_have_count(2)


def test_pictures_are_saved_as_svg_and_png(opened):
    page = opened.open("map?open=head&layer=2&head=1")
    with page.expect_download() as download:
        page.get_by_role("button", name="lines as SVG").click()
    tree = ElementTree.parse(download.value.path())
    assert download.value.suggested_filename == "attention-layer-2-head-1-lines.svg"
    assert any("stroke: rgb" in part.get("style", "") for part in tree.iter())
    page = opened.open("fill")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save blank-1 as PNG").click()
    header = Path(download.value.path()).read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(header[16:20]) == 2 * 560


# An answer whose body does not end before the page drops the question, once. (A function at the end would be called.)
HALF_AN_ANSWER = """
const real = window.fetch;
window.fetch = async (path, options) => {
  const mark = document.body.dataset;
  if (mark.halve !== "next" || path !== "explain") return real(path, options);
  mark.halve = "done";
  const drop = (body) => options.signal.addEventListener("abort", () => body.error(options.signal.reason));
  return new Response(new ReadableStream({ start: drop }), { headers: { "Content-Type": "application/json" } });
};
0;
"""


def test_back_returns_to_the_text_before_an_example(opened):
    page = opened.open("why")
    page.evaluate(HALF_AN_ANSWER)
    text, running = page.get_by_label("Text", exact=True), page.locator(".running")
    for halve in ("", "next"):  # and a question that is dropped with half of its answer is asked again
        page.evaluate("halve => { document.body.dataset.halve = halve }", halve)
        text.fill(f"A film of my own{halve}.")
        page.locator("body[data-halve=done]" if halve else ".running:has-text('own.')").wait_for()
        page.get_by_role("button", name="Blame").click()
        expect(text).to_have_value("A dull story that wastes a wonderful cast.")
        expect(page.locator("[aria-busy]")).to_have_count(0)
        page.go_back()
        expect(text).to_have_value(f"A film of my own{halve}.")
        expect(running).to_have_text(f"A film of my own{halve}.")
    page.get_by_role("tab", name="Fill").click()
    page.get_by_role("tab", name="Why").click()
    expect(text).to_have_value("A film of my ownnext.")
    assert not page.get_by_label("Second text").count()  # the model reads single texts
    evil = '<img src="/page/none.png" onerror="document.title = 1"><script>alert(1)</script>'
    text.fill(evil)  # is never markup
    expect(running).to_have_text(evil)
    assert page.locator("main img, main script").count() == 0


def test_an_answer_is_copied_as_a_request_that_runs(browser, address):
    with visit(browser, address, permissions=["clipboard-read", "clipboard-write"]) as visited:
        page = visited.open("fill")
        buttons = page.get_by_role("group", name="Copy as")
        page.get_by_label("Your own sentence").fill('It\'s [MASK] "here" — 😀')
        expect(page).to_have_url(re.compile("text=It"))  # the request is on its way
        expect(page.locator("[aria-busy]")).to_have_count(0)
        copied = {}
        for name in ("curl", "Python", "JSON"):
            buttons.get_by_role("button", name=name, exact=True).press("Enter")
            expect(page.get_by_role("status")).to_have_text(f"Copied as {name}.")
            copied[name] = page.evaluate("navigator.clipboard.readText()")
        answer = json.loads(copied["JSON"])
    python = subprocess.run([sys.executable, "-c", copied["Python"]], capture_output=True, check=True)
    assert ast.literal_eval(python.stdout.decode()) == answer
    curl = subprocess.run(["bash", "-c", copied["curl"] + " -s"], capture_output=True, check=True)
    assert json.loads(curl.stdout) == answer


def test_pairs_answer_to_what_is_typed(opened):
    page = opened.open("pairs")
    (other,) = [pair for pair in EXAMPLES["next_sentence"] if not pair["follows"]]
    page.get_by_role("button", name=other["name"]).click()
    expect(page.get_by_label("Sentence B")).to_have_value(other["pair"])
    slider = page.get_by_role("slider", name="Layer")
    slider.focus()
    slider.press("Home")
    expect(page.locator(".slider output")).to_have_text("the lookup table: one row, one point")
    places = page.locator(".point").evaluate_all("all => all.map(one => one.style.transform)")
    assert len(set(places)) == 1
    slider.press("End")
    expect(page.locator(".slider output")).to_contain_text("layer 2 of 2")
    page.get_by_label("Word", exact=True).fill("river")
    expect(page.locator(".point")).to_have_count(2)
    senses = page.get_by_label("Sentences, one a line; an empty line begins another sense")
    page.get_by_label("Word", exact=True).fill("bank")
    for text, count in (
        ("the bank of the river\nby the bank\n\na bank", 2),
        ("the bank of the river\n\nby the bank\na bank", 1),
    ):
        senses.fill(text)  # the same question
        expect(page.locator(".plane .sense-0")).to_have_count(count)
    page.get_by_label("Word", exact=True).fill("xylophone")
    expect(page.get_by_role("alert")).to_contain_text("no sentence contains the word 'xylophone'")
    assert "422 (Unprocessable Entity)" in opened.complaints.pop()  # the browser's own
    sentences = page.get_by_label("Sentences, one a line").nth(1)
    sentences.fill("the man\nthe man\nwarm milk")
    expect(page.locator(".remark")).to_have_text("Closest: 1 and 2, with a cosine of 1.00.")
    note = page.locator(".part").nth(2).locator(".card .note")
    long = "the man went to the bank " * 50
    sentences.fill(f"{long}\nthe man\nwarm milk")
    expect(note).to_have_text("Sentence 1 is longer than the model reads: the end does not count.")
    sentences.fill(f"the man\n{long}\nwarm milk\n{long} today\n{long}")
    expect(note).to_have_text("Sentences 2, 4 and 5 are longer than the model reads: the end does not count.")
    sentences.fill("the man\nwarm milk")
    expect(page.locator(".part").nth(2).locator(".heat td[style]")).to_have_count(4)
    expect(note).to_have_count(0)


def test_the_answer_is_marked_in_the_text(opened):
    page = opened.open("answers")
    page.get_by_label("Text", exact=True).fill("The man went to the bank. She was born in London.")
    page.get_by_label("Question").fill("Who went to the bank?")
    expect(page.locator(".spans g")).to_have_count(13)
    expect(page.locator(".running")).to_have_text("The man went to the bank. She was born in London.")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    answer = page.locator(".answer").text_content()
    marked = page.locator(".running mark").all_text_contents()
    assert marked == ([] if answer == "The text does not say." else [answer])
    expect(page.locator(".null")).to_contain_text("threshold 0.50")


def test_the_page_is_usable_by_keyboard(browser, address):
    with visit(browser, address) as visited:  # whose theme is stored
        page = visited.open("fill")
        page.keyboard.press("Tab")
        page.locator(".skip").press("Enter")
        expect(page.locator("#view")).to_be_focused()
        page.reload()
        page.locator(SHOWS["fill"]).first.wait_for()
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Learn how")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Dark")).to_be_focused()
        page.keyboard.press("Enter")
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
        page.keyboard.press("Tab")
        expect(page.get_by_role("tab", name="Fill")).to_be_focused()
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_role("tab", name="Lessons")).to_be_focused()
        expect(page).to_have_url(re.compile("#lesson$"))
        page.keyboard.press("End")
        expect(page).to_have_title("Map · cloze")
        page.go_back()
        expect(page).to_have_title("Lessons · cloze")
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_page_follows_the_models_of_the_server(opened):
    page, address = opened.page, opened.address
    info = page.request.get(f"{address}/info").json()
    served = {model["name"]: model for model in info["models"]}
    page.route("**/info", lambda route: route.fulfill(json=info))

    def serve(*models: dict[str, Any]) -> None:
        info["models"] = models
        page.goto("about:blank")  # otherwise the next address is opened without asking again

    for names, title in (
        (["pretrained", "classifier"], "Fill"),
        (["classifier", "pretrained"], "Predict"),
        (["tagger"], "Entities"),
    ):
        serve(*(served[name] for name in names))
        page.goto(address)
        expect(page.get_by_role("tab", selected=True)).to_have_text(title)
        expect(page.locator("[aria-busy], .missing")).to_have_count(0)
        expect(page).to_have_url(f"{address}/#{title.lower()}")
    for labels, examples in (
        (["conrad", "Doyle"], ["Burnett", "Conrad", "Doyle"]),
        (["0", "1"], ["A sentence", "A question"]),
    ):
        serve(served["classifier"] | {"labels": labels})
        expect(opened.open("predict").locator(".examples").first.locator("button")).to_have_text(examples)
    serve(served["pretrained"] | {"mask_token": "<mask>"})
    answer = [[[{"token": "river", "probability": 0.5}]]]
    page.route("**/fill", lambda route: route.fulfill(json=answer))
    opened.open("fill")
    for number, mask in enumerate(("[MASK]", "[mask]", "<mask>", "<Mask>")):
        with page.expect_request("**/fill") as asked:
            page.get_by_label("Your own sentence").fill(f"The man went to {mask} {number}.")
        assert asked.value.post_data_json["inputs"] == [f"The man went to <mask> {number}."]
        expect(page.get_by_role("button", name="a blank")).to_have_count(1)


def test_a_sentence_goes_along_to_every_view(opened):
    text = "The man went to the [mask]."
    page = opened.open("fill")
    page.get_by_label("Your own sentence").fill(text)
    page.get_by_role("button", name="man").click()
    for view in [*SHOWS, "fill"]:
        page.get_by_role("tab", name=tab_of(view)).click()
        page.locator(SHOWS[view]).first.wait_for()
        if view in ("errors", "lesson", "rank"):
            continue  # with the texts of a file
        label = {"fill": "Your own sentence", "pairs": "Sentence A", "map": "Text; [MASK] hides a word"}
        expect(page.get_by_label(label.get(view, "Text"), exact=True)).to_have_value(text)
        expect(page).to_have_url(re.compile(rf"#{view}\?text=The\+man"))
    expect(page.get_by_role("heading", name="Blank 1 · you hid “man”")).to_be_visible()
    page.get_by_role("tab", name="Map").click()
    page.get_by_label("Text; [MASK] hides a word").fill("Another one.")
    page.get_by_role("tab", name="Fill").click()
    expect(page.get_by_label("Your own sentence")).to_have_value("Another one.")
    expect(page.locator(".masks")).to_have_text("Nothing is hidden. Click a word above.")


def test_every_view_refuses_the_same_length(opened):
    page = opened.open("predict")
    text = "word " * 2001
    page.get_by_label("Text", exact=True).fill(text)
    for view in ("predict", "why", "entities", "answers", "map"):
        page.get_by_role("tab", name=view.capitalize()).click()
        refusal = "The text has 10,005 characters, at most 10,000 are read. Give a shorter one."
        expect(page.get_by_role("alert").first).to_have_text(refusal)


def test_a_long_text_is_read_in_windows(opened):
    text = "bank london river money " * 100  # 400 tokens
    page = open_head(opened, f"{text}[MASK] warm")
    bar, tokens = page.locator(".window"), page.locator(".tokens tfoot th")
    expect(bar).to_contain_text("Tokens 149 to 402 of 402")
    expect(page.locator(".piece")).to_have_count(256)
    expect(tokens).to_have_count(256)
    bar.get_by_role("button", name="Earlier").click()
    expect(bar).to_contain_text("Tokens 1 to 254 of 402")
    expect(tokens.filter(has_text="[MASK]")).to_have_count(0)
    expect(page.locator(".piece").filter(has_text="[MASK]")).to_have_count(0)
    expect(page.locator(".steps")).to_have_count(1)
    for view in ("fill", "predict", "entities", "answers"):
        page.get_by_role("tab", name=view.capitalize()).click()
        page.locator(SHOWS[view]).first.wait_for()
        expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("path", ["page/main.js", "info", "predict"])
def test_bars_stand_where_something_is_still_loading(opened, path):
    page = opened.page
    page.clock.install()
    waiting: list[Any] = []
    info = page.request.get(f"{opened.address}/info").json()
    info["limits"]["deadline_seconds"] = 100
    page.route("**/info", lambda route: route.fulfill(json=info))
    page.route(f"**/{path}", lambda route: waiting.append(route))
    page.goto(f"{opened.address}/#predict", wait_until="commit")
    while not waiting:
        page.wait_for_timeout(20)
    expect(page.locator(".skeleton")).to_be_visible()
    expect(page.locator("h1")).to_have_text("See BERT think")
    if path != "page/main.js":
        page.clock.fast_forward(60_000)
        if path == "predict":  # the page knows the deadline of the server
            expect(page.get_by_role("alert")).to_have_count(0)
            page.clock.fast_forward(60_000)
        expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    for route in waiting:
        route.continue_()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.locator(SHOWS["predict"]).wait_for()
    expect(page.locator(".skeleton")).to_have_count(0)


def test_probabilities_are_those_of_python_also_after_a_break(opened, paths):
    page = opened.open("predict")
    model = cloze.TextClassifier.load(paths["classifier"])
    for name in ("Praise", "Blame"):
        page.context.set_offline(name == "Blame")
        page.get_by_role("button", name=name).click()
        if name == "Blame":
            expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
            page.context.set_offline(False)
            expect(page.get_by_role("alert")).to_have_count(0)
        answer = model(page.get_by_label("Text", exact=True).input_value())
        ranked = sorted(answer.probabilities.items(), key=lambda entry: -entry[1])
        shown = [f"{label}{percent(probability)}" for label, probability in ranked]
        expect(page.locator("table.bars tr")).to_have_text(shown)
        expect(page.locator(".answer")).to_have_text(answer.label)
    assert all("net::ERR_INTERNET_DISCONNECTED" in told for told in opened.complaints)
    opened.complaints.clear()  # the browser's own
    # digits that can be read
    shares = {"a": 0.99996, "b": 4e-7, "c": 0.0}
    found = [[{"label": label, "score": share} for label, share in shares.items()]]
    page.route("**/predict", lambda route: route.fulfill(json=found))
    page.get_by_label("Text", exact=True).fill("Another text.")
    expect(page.locator("table.bars tr")).to_have_text(["a>99.9%", "b<0.1%", "c0.0%"])


def test_views_without_a_model_show_recorded_examples(opened):
    page, missing = opened.page, opened.page.locator(".missing").first
    info = page.request.get(f"{opened.address}/info").json() | {"models": []}
    page.route("**/info", lambda route: route.fulfill(json=info))
    for view in SHOWS.keys() - {"errors", "lesson", "rank"}:  # a file needs no model
        page.goto("about:blank")
        opened.open(view)
        expect(missing).to_contain_text("Recorded example, with cloze-mini")
        expect(missing).to_contain_text("cloze serve -m")
        expect(page.locator("textarea:not([readonly])")).to_have_count(0)
        expect(page.get_by_role("group", name="Copy as")).to_have_count(0)  # nothing here would answer it
        for example in page.get_by_role("group", name="Examples").locator("button").all():
            example.click()
            expect(page.locator(".error, [aria-busy]")).to_have_count(0)
            page.locator(SHOWS[view]).first.wait_for()
    opened.open("map")
    page.locator('.effects [data-cell="1.3"]').click()  # what is recorded
    expect(page.locator(".remark").first).to_contain_text("changes from “world”")
    page.locator(".steps .values").wait_for()
    page.locator('.tokens [data-cell="4.11"]').click()
    page.locator(".walk-numbers table.bars").wait_for()
    expect(page.locator(".error")).to_have_count(0)


def test_a_recorded_example_stays_whatever_the_sentence(opened):
    page = opened.page
    info = page.request.get(f"{opened.address}/info").json()
    info["models"] = [model for model in info["models"] if model["name"] == "classifier"]
    page.route("**/info", lambda route: route.fulfill(json=info))
    recorded = json.loads((PAGE / "static" / "recorded-entities.json").read_text("utf-8"))
    [text] = recorded[0]["exchanges"][0]["body"]["inputs"]
    [entities] = recorded[0]["exchanges"][0]["answer"]
    opened.open("predict")
    page.get_by_label("Text", exact=True).fill("A sentence of my own.")
    page.get_by_role("tab", name="Entities").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value(text)
    shown = [f"{e['text']}{e['type']} {percent(e['probability'])}" for e in entities]
    expect(page.locator(".entities mark")).to_have_text(shown)
    page.get_by_role("tab", name="Fill").click()
    page.get_by_role("button", name="Olympic").click()
    expect(page.get_by_role("alert")).to_contain_text("Only the examples are recorded")
    page.get_by_role("tab", name="Predict").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value("A sentence of my own.")


def test_the_page_asks_for_the_key_of_the_server(browser, paths):
    models = {"pretrained": paths["pretrained"]}
    with visit_server(browser, models, api_keys=lambda: {"sesame"}) as visited:
        page = visited.page
        page.goto(visited.address)
        page.get_by_label("Key of the server").last.fill("wrong")
        page.keyboard.press("Enter")
        page.get_by_label("This key is not right").fill("sesame")
        page.keyboard.press("Enter")
        page.locator(SHOWS["fill"]).first.wait_for()
        refused = [told for told in visited.complaints if "401" in told]
        visited.complaints[:] = [told for told in visited.complaints if told not in refused]
        assert refused  # the browser logs them itself


def test_what_the_model_did_not_read_is_gray(opened, paths):
    page = opened.open("predict")
    running, unread = page.locator(".running"), page.locator(".unread")
    expect(running).to_have_count(0)
    text = "it is warm 😀 " * 100
    page.get_by_label("Text", exact=True).fill(text)
    expect(unread).to_have_count(1)
    expect(page.locator("[aria-busy]")).to_have_count(0)
    assert running.text_content() == text
    read = text.removesuffix(unread.text_content())
    model = cloze.TextClassifier.load(paths["classifier"])
    assert len(model.tokenizer.encode(read)) == 128
    shown = [f"{name}{percent(share)}" for name, share in model(read).probabilities.items()]
    expect_equal(lambda: sorted(page.locator("table.bars tr").all_text_contents()), sorted(shown))
    page.get_by_role("tab", name="Why").click()
    expect(page.get_by_text("The text is longer than the model reads")).to_be_visible()
    assert running.text_content() == text
    assert text.removesuffix(unread.text_content()).strip() == read.strip()
    page.get_by_label("Text", exact=True).fill("A film.")
    expect(unread).to_have_count(0)


def test_blank_texts_are_not_sent(opened):
    labels = {**dict.fromkeys(("entities", "why", "predict"), "Text"), "answers": "Question"}
    labels |= {"map": "Text; [MASK] hides a word", "pairs": "Sentence B"}
    for view, label in labels.items():
        page = opened.open(view)
        page.get_by_label(label, exact=True).first.fill("  ")
        expect(page.get_by_text("Nothing is written yet.")).to_have_count(1)
        page.go_back()


def test_the_color_of_a_type_does_not_depend_on_the_text(opened):
    page = opened.open("entities")

    def answer(types: list[str]) -> list[str]:
        entities = [
            {"type": kind, "text": "a", "start": 2 * i, "end": 2 * i + 1, "probability": 0.9}
            for i, kind in enumerate(types)
        ]
        page.route("**/tag", lambda route: route.fulfill(json=[entities]))
        page.get_by_label("Text", exact=True).fill("a " * len(types) + "".join(types))
        expect(page.locator(".entities")).to_contain_text("".join(types))
        expect(page.locator(".entities mark")).to_have_count(len(types))
        found = [mark.get_attribute("class") or "" for mark in page.locator(".entities mark").all()]
        page.unroute("**/tag")
        return found

    location, person = answer(["LOC", "PER"])
    assert location != person
    assert answer(["PER"]) == [person]
    assert answer(["LOC"]) == [location]


def test_another_model_does_not_show_the_answer_of_the_one_before(browser, paths):
    with visit_server(browser, dict.fromkeys(("one", "two"), paths["classifier"])) as visited:
        page = visited.open("why")
        waiting: list[Any] = []
        page.route("**/explain", lambda route: waiting.append(route))
        page.get_by_label("Model for: Why this prediction?").select_option("two")
        expect(page.locator("[aria-busy]")).to_have_count(1)
        expect(page.locator(".running")).to_have_count(0)
        release(page, waiting, '"two"')
        expect(page.locator(".running")).to_have_count(1)
        for view in ("predict", "errors", "why"):  # where it stays chosen
            page.get_by_role("tab", name=view.capitalize()).click()
            if view != "errors":
                expect(page.locator(".part-head select")).to_have_value("two")
        page.get_by_role("tab", name="Pairs").click()
        expect(page.get_by_label("Model for: One word in several contexts")).to_have_value("two")


def shown_rows(page: Any, count: int) -> list[list[str]]:
    """Wait for as many answers; return the cells of their table without the explanation of a row."""
    rows = page.locator(".answers > tbody > tr:not(.reason)")
    expect(rows).to_have_count(count)
    return [row.locator("> td").all_text_contents() for row in rows.all()]


def test_the_matrix_and_the_answers_are_those_of_the_evaluation(opened, evaluation):
    result = evaluation[1]
    page = opened.open("errors")
    right = f"{round(20 * result['accuracy'])} right ({percent(result['accuracy'])})"
    expect(page.locator(".answers-overview")).to_contain_text(f"answers.jsonl: 20 answers, {right}.")
    wrong = [
        [str(row["row"]), row["text"], row["gold"], row["prediction"], percent(row["confidence"])]
        for row in result.wrong_answers
    ]
    assert shown_rows(page, len(wrong)) == wrong
    page.get_by_role("button", name="All: 20").click()
    pairs = [(example.gold, prediction) for example, prediction in result.answers]
    confusion = result.breakdown.confusion
    for gold, counts in confusion.items():
        for answer, count in counts.items():
            cell = page.get_by_role("button", name=f"gold {gold}, answer {answer}: {count}", exact=True)
            if not count:
                expect(cell).to_have_count(0)
                continue
            cell.click()
            rows = shown_rows(page, count)
            assert [row[2:4] for row in rows] == [[gold, answer]] * count
            expected = [p.probability for g, p in pairs if (g, p.label) == (gold, answer)]
            assert [row[4] for row in rows] == list(map(percent, sorted(expected, reverse=True)))
            cell.click()
    assert sum(sum(counts.values()) for counts in confusion.values()) == 20


def test_answers_are_sorted_by_every_column(opened):
    page = opened.open("errors")
    page.get_by_role("button", name="All: 20").click()
    for column, name in ((0, "row"), (2, "gold"), (3, "answer"), (4, "confidence")):
        for _ in range(2):
            page.locator(".answers").get_by_role("columnheader", name=name).get_by_role("button").click()
            order = page.locator(".answers").get_by_role("columnheader", name=name).get_attribute("aria-sort")
            cells = [row[column] for row in shown_rows(page, 20)]
            values = [float(cell.removesuffix("%")) for cell in cells] if column in (0, 4) else cells
            assert values == sorted(values, reverse=order == "descending"), (name, order)


def test_the_reason_of_an_answer_changes_with_its_text_and_class(opened, paths, evaluation):
    predictor = Predictor.load(paths["classifier"], device="cpu")
    first = evaluation[1].wrong_answers[0]
    page = opened.open("errors")
    page.locator(".answers .text").first.click()

    def check(text: str, label: str | None = None) -> None:
        example = LabeledText(text)
        ((answer,), _) = predictor.predict([example])
        found = explain(predictor, example, answer, label=label)
        said = f"It says “{answer.label}”, {percent(answer.probability)}"
        expect(page.locator(".answer")).to_have_text(said)
        expect(page.get_by_role("heading", name=f"Words for and against “{found.explained}”")).to_be_visible()
        expect(page.locator(".reason .running")).to_have_text(text)
        numbers = attributions(page.locator(".reason mark"))
        np.testing.assert_allclose(numbers, [word.attribution for word in found.words], atol=1e-4)
        shares = page.get_by_role("table", name="Classes").locator("tr").all_text_contents()
        ranked = sorted(answer.probabilities.items(), key=lambda item: -item[1])
        assert shares == [f"{name}{percent(share)}" for name, share in ranked]

    check(first["text"])
    other = first["gold"]  # the class that was not predicted
    page.get_by_label("Explain", exact=True).select_option(other)
    check(first["text"], other)
    page.get_by_label("Text: change it").fill("The man was warm")
    check("The man was warm", other)
    before = f"Before your edit: “{first['prediction']}”, {percent(first['confidence'])}"
    expect(page.locator(".reason .note").first).to_have_text(before)
    page.get_by_role("button", name="Undo the edit").click()
    check(first["text"], other)


def test_suspected_labels_are_shown_with_the_reason(opened, tmp_path):
    reasons = ["", "labeled praise (1.0%), probably blame (98.0%)", ""]
    rows = [
        {"row": i, "text": f"text {i}", "gold": "praise", "label": "blame", "reason": r}
        for i, r in enumerate(reasons, 1)
    ]
    write_rows(rows, str(tmp_path / "out-of-fold.csv"))
    page = opened.open("errors")
    page.get_by_label("Open a file").set_input_files(tmp_path / "out-of-fold.csv")
    suspected = page.get_by_role("button", name="Label probably wrong: 1")
    expect(suspected).to_have_attribute("aria-pressed", "true")
    assert [row[0] for row in shown_rows(page, 1)] == ["2"]
    page.get_by_role("button", name="text 2").click()
    expect(page.locator(".reason .note").first).to_have_text(reasons[1])
    page.get_by_role("button", name="All: 3").click()
    shown_rows(page, 3)


def test_two_checkpoints_of_a_task_are_compared(browser, paths, evaluation, tmp_path):
    file, result = evaluation
    margins = [
        math.log(prediction.probabilities["blame"] / prediction.probabilities["praise"])
        for _, prediction in result.answers
    ]
    sign = 1 if sum(margin > 0 for margin in margins) >= 10 else -1
    sizes = sorted(sign * margin for margin in margins if sign * margin > 0)
    half = len(sizes) // 2
    bias = -sign * (sizes[half - 1] + sizes[half]) / 2  # gives half of these rows the other label
    later = make_classifier(tmp_path / "later", BLAME_OR_PRAISE, bias=bias)
    other = cloze.evaluate(model=later, data=LABELED)
    models = {"earlier": paths["classifier"], "later": later}
    answers = [prediction for _, prediction in result.answers]
    others = [prediction for _, prediction in other.answers]
    differing = {i for i in range(20) if answers[i].label != others[i].label}
    assert len(differing) == half
    with visit_server(browser, models, evaluation=file) as visited:
        page = visited.open("errors")
        page.get_by_label("Compare with").select_option("later")
        right = f"later: {round(20 * other['accuracy'])} right ({percent(other['accuracy'])})."
        expect(page.get_by_role("status").filter(has_text="later")).to_have_text(right)
        page.get_by_role("button", name=f"later differs: {len(differing)}").click()
        rows = shown_rows(page, len(differing))
        assert {int(row[0]) - 1 for row in rows} == differing
        page.get_by_role("button", name="All: 20").click()
        for row in shown_rows(page, 20):
            said = others[int(row[0]) - 1]
            assert row[5] == f"{said.label} {percent(said.probability)}"
        page.get_by_role("button", name=f"later differs: {len(differing)}").click()
        page.locator(".answers .text").first.click()
        expect(page.locator(".reason .answer")).to_have_count(2)
        said = others[int(rows[0][0]) - 1]
        answer = f"It says “{said.label}”, {percent(said.probability)}"
        expect(page.locator(".reason .answer").last).to_have_text(answer)
        page.get_by_role("tab", name="Why").click()
        first = page.get_by_label("Model for").input_value()
        page.get_by_label("Compare with").select_option("earlier" if first == "later" else "later")
        expect(page.locator(".answer")).to_have_count(2)
        expect(page.locator(".shades")).to_have_count(2)
        expect_equal(lambda: len(set(legends(page))), 1)  # one scale of colors for both


def test_headlines_agree_with_their_numbers(browser, paths, tmp_path):
    tasks = {
        "topics": task_of("multi-label", labels=("x", "y"), thresholds={"x": 0.999, "y": 0.999}),
        "stars": task_of("regression", minimum=1, maximum=5),
        "ranker": task_of("ranking"),
    }
    models = {name: make_classifier(tmp_path / name, task) for name, task in tasks.items()}
    with visit_server(browser, {**models, **paths}) as visited:
        page = visited.open("predict")
        answer = page.locator(".answer").first
        expect(answer).to_have_text("No label is above its threshold")
        expect(page.locator(".tick")).to_have_count(2)
        for name, pattern in (("stars", r"^−?\d+\.\d{3}$"), ("ranker", r"^\d+\.\d% relevant$")):
            page.get_by_label("Model for").select_option(name)
            expect(answer).to_have_text(re.compile(pattern))
        page = visited.open("why")
        page.get_by_label("Model for").select_option("stars")
        expect(answer).to_have_text(re.compile(r"It says .*\d"))
        score = answer.text_content().removeprefix("It says ")
        expect(page.locator(".remark")).to_contain_text(f"which makes {score}.")
        page = visited.open("fill")
        expect(page.locator(".note").first).to_contain_text("Measured on cloze-mini: ")
        info = page.request.get(f"{visited.address}/info").json()
        for model in info["models"]:
            model["abilities"] = [ability for ability in model["abilities"] if ability != "explain"]
            model["is_sentence_encoder"] = model["name"] == "tagger"
        page.route("**/info", lambda route: route.fulfill(json=info))
        page.reload()
        page = visited.open("why")  # as of int8 models and graphs
        expect(answer).to_have_text("It says no label: none is above its threshold")
        expect(page.locator(".explained .note").last).to_contain_text("no gradients")
        page = visited.open("pairs")
        expect(page.get_by_label("Model for: Similarity of sentences")).to_have_value("tagger")
        expect(page.get_by_text("not trained for vectors")).to_have_count(0)


def test_every_label_of_a_set_is_explained(browser, tmp_path):
    names = ("dull", "funny", "warm")
    data = [(text, [label]) for text, label in zip((text for text, _ in LABELED), names * 7, strict=False)]
    first = make_classifier(tmp_path / "first", task_of("multi-label", labels=names))
    shares = [prediction.probabilities for _, prediction in cloze.evaluate(model=first, data=data).answers]
    # every label has a threshold that half of the texts exceed
    halves = {name: statistics.median(row[name] for row in shares) for name in names}
    topics = make_classifier(tmp_path / "topics", task_of("multi-label", labels=names, thresholds=halves))
    file = tmp_path / "sets.jsonl"
    answers = [answer for _, answer in cloze.evaluate(model=topics, data=data, output=file).answers]
    assert {0, 2} <= {min(2, len(answer.labels)) for answer in answers}
    with visit_server(browser, {"topics": topics, "again": topics}, evaluation=file) as visited:
        page = visited.open("errors")
        page.get_by_label("Compare with").select_option("again")
        # while answers arrive it says "answered"
        expect(page.get_by_role("status").filter(has_text="again")).to_contain_text("right")
        page.get_by_role("button", name="again differs: 0").wait_for()
        page.get_by_role("button", name="All: 20").click()
        rows = {int(row[0]) - 1: row for row in shown_rows(page, 20)}
        for number, answer in enumerate(answers):
            assert rows[number][3] == rows[number][5].strip() == (", ".join(answer.labels) or "–")
        number = max(range(20), key=lambda i: len(answers[i].labels))
        place = list(rows).index(number)
        page.locator(".answers .text").nth(place).click()
        ranked = sorted(answers[number].labels, key=lambda name: -shares[number][name])
        said = "; ".join(f"“{name}”, {percent(shares[number][name])}" for name in ranked)
        expect(page.locator(".answer").first).to_have_text(f"It says {said}")
        strong = page.get_by_role("table", name="Classes").first.locator("tr.strong")
        expect(strong).to_have_count(len(ranked))
        predictor = Predictor.load(topics, device="cpu")
        for label in names:
            page.get_by_label("Explain", exact=True).select_option(label)
            expect(page.get_by_role("heading", name=f"Words for and against “{label}”")).to_have_count(2)
            found = explain(predictor, LabeledText(LABELED[number][0]), answers[number], label=label)
            numbers = attributions(page.locator(".explained").first.locator("mark"))
            np.testing.assert_allclose(numbers, [word.attribution for word in found.words], atol=1e-4)


def test_errors_are_counted_by_label_length_and_unknown_words(browser, paths, tmp_path):
    texts = ["it is warm", "the film is dull", "a \u2603 day", "\u2603 and \u263a", "she was funny", "a mess"]
    texts += ["the man went to the bank of the river and it was warm", "the story is wonderful and not dull"]
    data = [(text, ("blame", "praise")[i % 2]) for i, text in enumerate(texts)]
    answers, errors = tmp_path / "answers.jsonl", tmp_path / "errors.jsonl"
    result = cloze.evaluate(model=paths["classifier"], data=data, output=answers, errors=errors)
    wrong = [
        gold != prediction.label for (_, gold), (_, prediction) in zip(data, result.answers, strict=True)
    ]
    assert 0 < sum(wrong) < len(data)
    encode = Predictor.load(paths["classifier"], device="cpu").tokenizer.encode
    unknown = [sum(token == "[UNK]" for token in encode(text).tokens) for text in texts]
    assert {*unknown} >= {0, 1, 2}
    names = ("no unknown word", "1 unknown word", "2 or more unknown words")
    lengths = [len(text.split()) for text in texts]
    keys = {
        "gold label": [gold for _, gold in data],
        "unknown words": [names[min(2, count)] for count in unknown],
        "length": ["2 to 3 words" if n <= 3 else "4 words" if n == 4 else "5 to 13 words" for n in lengths],
    }
    with visit_server(browser, {"classifier": paths["classifier"]}, evaluation=answers) as visited:
        page = visited.open("errors")
        for kind, of_rows in keys.items():
            page.get_by_label("Errors by", exact=True).select_option(kind)
            table = page.get_by_role("table", name=f"Errors by {kind}")
            for name in dict.fromkeys(of_rows):
                rows = [i for i, other in enumerate(of_rows) if other == name]
                errors_of_slice = sum(wrong[i] for i in rows)
                row = table.locator("tr").filter(has=page.get_by_role("button", name=name, exact=True))
                shown = [name, str(len(rows)), str(errors_of_slice), "", percent(errors_of_slice / len(rows))]
                expect(row.locator("th, td")).to_have_text(shown)
                row.get_by_role("button").click()
                assert {int(cells[0]) - 1 for cells in shown_rows(page, len(rows))} == set(rows)
            page.get_by_role("button", name="Leave the slice").click()
            assert serious_violations(page, without=HIDDEN) == []
        page.get_by_label("Open a file").set_input_files(errors)
        expect(page.get_by_text("which share of a slice is wrong cannot be known")).to_be_visible()
        expect(page.locator(".slices thead th")).to_have_text(["slice", "rows"])


def test_words_that_flip_an_answer_are_those_of_python(opened, paths):
    fill, classify = cloze.FillMask.load(paths["pretrained"]), cloze.TextClassifier.load(paths["classifier"])
    text = "The film is warm [MASK] funny"
    page = opened.open("why")
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_label("What flips it").check()
    before = classify(text)
    changed = []
    for number, word in enumerate(words := text.split()):
        if word == "[MASK]":
            continue
        masked = " ".join("[MASK]" if i == number else other for i, other in enumerate(words))
        for candidate in fill(masked, top_k=5)[number > words.index("[MASK]")]:
            token = candidate.token.capitalize() if word[0].isupper() else candidate.token
            if token[0].isalnum() and token.lower() != word.lower():
                new = " ".join(token if i == number else other for i, other in enumerate(words))
                changed.append((word, token, classify(new)))
    flips = sum(answer.label != before.label for *_, answer in changed)
    summary = f"{flips} of {len(changed)} changes of one word flip" if flips else f"None of {len(changed)}"
    expect(page.locator(".remark").last).to_contain_text(summary)
    share = before.probabilities[before.label]
    order = sorted(
        ((word, token, answer.label, answer.probabilities[before.label]) for word, token, answer in changed),
        key=lambda row: (row[2] == before.label, -abs(row[3] - share)),
    )
    rows = page.get_by_role("table", name="Changes of one word").locator("tbody tr")
    first = order[0]
    expect(rows).to_have_count(8)
    expect(rows.first.locator("th, td")).to_have_text([*first[:3], percent(first[3])])
    rows.first.get_by_role("button").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value(text.replace(first[0], first[1]))


def test_hits_in_documents_are_those_of_python(browser, tmp_path, models):
    (tmp_path / "notes.txt").write_text("The river rose.\n\nIt was night.\n")
    served = index_documents({"bert": models["bert"]}, tmp_path, SILENT)
    hits = PassageIndex.open(models["bert"].embedder, tmp_path).search("How long is the river?")
    with visit_server(browser, served) as visited:
        visited.page.goto(f"{visited.address}/#rank")
        rows = visited.page.get_by_role("table", name="Hits").locator("tr")
        expected = [
            f"{hit.file}:{hit.line} {hit.text}{hit.score:.3f}".replace("-0.", "\u22120.") for hit in hits
        ]
        expect(rows).to_have_text(expected)
        assert serious_violations(visited.page, without=HIDDEN) == []


def test_passages_and_choices_are_ranked_as_in_python(browser, tmp_path):
    tasks = {
        "ranker": task_of("ranking"),
        "stars": task_of("regression", minimum=1, maximum=5, pair_column="pair"),
    }
    tasks["chooser"] = task_of("multiple-choice")
    models = {name: make_classifier(tmp_path / name, task) for name, task in tasks.items()}
    with visit_server(browser, models) as visited:
        page = visited.page
        page.goto(f"{visited.address}/#rank")
        passages = page.get_by_label("Passages, one a line").input_value().splitlines()
        query = page.get_by_label("Query").input_value()
        ranked = cloze.TextRanker.load(models["ranker"])(query, passages)
        rows = page.get_by_role("table", name="Passages").locator("tr")
        expect(rows).to_have_text([f"{one.text}{percent(one.score)}" for one in ranked])
        page.get_by_label("Model for: Passages by relevance").select_option("stars")
        scores = cloze.TextRegressor.load(models["stars"])([(query, passage) for passage in passages])
        best = sorted(zip((one.score for one in scores), passages, strict=True), reverse=True)
        expect(rows).to_have_text([f"{passage}{score:.3f}".replace("-", "\u2212") for score, passage in best])
        prompt = page.get_by_label("Beginning").input_value()
        choices = page.get_by_label("Choices, one a line").input_value().splitlines()
        shares = cloze.ChoiceAnswerer.load(models["chooser"])(prompt, choices).probabilities
        order = sorted(zip(shares, choices, strict=True), reverse=True)
        rows = page.get_by_role("table", name="Choices").locator("tr")
        expect(rows).to_have_text([f"{choice}{percent(share)}" for share, choice in order])
        assert serious_violations(page, without=HIDDEN) == []
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate(BEYOND) <= 0


def test_files_are_opened_and_dropped(browser, paths, tmp_path):
    transfer = """([name, text]) => {
      const all = new DataTransfer();
      all.items.add(new File([text], name));
      return all;
    }"""
    with visit_server(browser, {"classifier": paths["classifier"]}) as visited:
        page = visited.page
        for ending in ("csv", "tsv", "jsonl"):
            all_answers, wrong, other = (tmp_path / f"{name}.{ending}" for name in ("all", "wrong", "other"))
            result = cloze.evaluate(model=paths["classifier"], data=LABELED, output=all_answers, errors=wrong)
            page.goto("about:blank")
            page.goto(f"{visited.address}/#errors")
            expect(page.locator(".missing")).to_contain_text("cloze serve -m RUN --evaluation")
            page.get_by_label("Open a file").set_input_files(all_answers)
            expected = [(row["text"], row["prediction"]) for row in result.wrong_answers]
            page.get_by_role("button", name=f"Wrong: {len(expected)}").wait_for()
            assert [(row[1], row[3]) for row in shown_rows(page, len(expected))] == expected
            dropped = page.evaluate_handle(transfer, [wrong.name, wrong.read_text("utf-8")])
            page.dispatch_event("main .part", "drop", {"dataTransfer": dropped})
            overview = page.locator(".answers-overview")
            expect(overview).to_contain_text(f"{wrong.name}: {len(expected)} wrong answers.")
            expect(page.locator(".shades")).to_contain_text("of the wrong answers to a gold class")
            assert [(row[1], row[3]) for row in shown_rows(page, len(expected))] == expected
            other.write_text('{"a": 1}\n' if ending == "jsonl" else "a\n1\n")
            page.get_by_label("Open a file").set_input_files(other)
            expect(page.get_by_role("alert")).to_contain_text(f"{other.name} has no column “prediction”.")


CONTRASTS = """() => {
  const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (color) => {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = color;
    pixel.fillRect(0, 0, 1, 1);
    return [...pixel.getImageData(0, 0, 1, 1).data].map((value) => value / 255);
  };
  const mix = (top, under) => under.map((value, i) => top[3] * top[i] + (1 - top[3]) * value);
  const backgroundOf = (element) => {
    if (!element) return [1, 1, 1];
    return mix(read(getComputedStyle(element).backgroundColor), backgroundOf(element.parentElement));
  };
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = (color) => [0.2126, 0.7152, 0.0722].reduce((sum, share, i) => sum + share * linear(color[i]), 0);
  const found = [];
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const style = getComputedStyle(element);
    const { width, x } = element.getBoundingClientRect();
    const isSeen = texts.currentNode.data.trim() && width && x > -500 && !/^rgba.* 0\\)$/.test(style.color);
    if (!isSeen || element.closest("script, style, title")) continue;
    const picture = element.closest("svg");
    let under = backgroundOf(picture ? picture.parentElement : element);
    const shapes = ":scope > title ~ rect:not([class]), :scope > .sense";
    const shape = picture && element.parentElement.querySelector(shapes);
    if (shape) {
      const { fill, fillOpacity } = getComputedStyle(shape);
      const color = read(fill);
      under = mix([...color.slice(0, 3), color[3] * fillOpacity], under);
    }
    const values = [mix(read(picture ? style.fill : style.color), under), under].map(luminance);
    found.push([(Math.max(...values) + 0.05) / (Math.min(...values) + 0.05), texts.currentNode.data.trim()]);
  }
  return found;
}"""


def report_of_a_run(directory: Path) -> Path:
    """Return the report of a run with curves and the scores of classes."""
    gold, predicted = ["a", "b", "c"] * 30, ["a", "b", "c"] * 20 + ["b", "b", "c"] * 10
    scores = class_breakdown(gold, predicted, ["a", "b", "c"]).to_dict()
    rows = [{"kind": "train", "step": step, "masked_lm_loss": 9 - step / 10} for step in range(1, 41)]
    rows.append({"kind": "validation", "step": 40, "masked_lm_loss": 5.7, "masked_lm_unigram_loss": 7.0})
    (directory / "run.toml").write_text("steps = 50\n")
    (directory / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (directory / "scores.json").write_text(json.dumps({"accuracy": 0.9, **scores}))
    return write_report(directory)


def test_files_in_html_are_legible(browser, paths, tmp_path):
    report = report_of_a_run(tmp_path).as_uri()
    attention = tmp_path / "attention.html"
    cloze.attention("the man", pair="it was warm", model=paths["pretrained"], output=attention)
    for screen in SCREENS.values():
        page = browser.new_page(**screen)
        page.goto(report)
        contrasts, sizes = page.evaluate(CONTRASTS), page.evaluate(TEXT_SIZES)
        assert {"20", "10", "30"} <= {text for _, text in contrasts}
        assert [each for each in contrasts if each[0] < 4.5] == []
        assert len(sizes) >= 20
        assert set(sizes) == {12}
        page.goto(attention.as_uri())
        assert page.evaluate(SMALL_TARGETS) == []
        page.close()


TEXT_SIZES = """() => [...document.querySelectorAll("svg text")]
  .filter((text) => text.textContent && text.getBoundingClientRect().x > -500)
  .map((text) => {
    const { a, b } = text.getScreenCTM();
    return Math.round(10 * parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b)) / 10;
  })"""


def test_the_numbers_of_a_weight_are_those_of_its_text(opened):
    page = opened.page
    page.route("**/explore/row", lambda route: route.fulfill(json=large_scores(route.fetch().json())))
    open_head(opened, "the man")
    expect(page.locator(".pieces .piece")).to_have_count(4)
    page.locator(".scores button").nth(1).click()
    formula = page.locator(".steps .formula").filter(has_text="e^")
    total = 1 + np.exp(-2.0) + 2 * np.exp(-30.0)
    share = percent(np.exp(-2.0) / total)
    expect(formula).to_have_text(f"e^(38.00 − 40.00) ÷ Σ = 0.135 ÷ {total:.3f} = {share}")
    page.locator(".scores button").nth(2).click()
    expect(formula).to_have_text(f"e^(10.00 − 40.00) ÷ Σ = <0.001 ÷ {total:.3f} = <0.1%")
    waiting: list[Any] = []
    page.route("**/explore/row", lambda route: waiting.append(route))
    page.get_by_label("Text; [MASK] hides a word").fill("the dog")  # as many tokens
    expect(page.locator(".pieces")).to_contain_text("dog")
    expect(page.locator(".steps")).to_have_count(0)
    release(page, waiting, "the dog")
    expect(page.locator(".steps")).to_have_count(1)


def large_scores(row: dict[str, Any]) -> dict[str, Any]:
    scores = np.array([10.0, 40.0, 38.0, 10.0])
    weights = np.exp(scores - 40) / np.exp(scores - 40).sum()
    return row | {"scores": scores.tolist(), "weights": weights.tolist()}


def legends(page: Any) -> list[str]:
    """Return the numbers of the legends of shaded cells."""
    return [" ".join(text.split()) for text in page.locator(".shades .nobreak").all_text_contents()]


def both_signs(value: float, plus: str = "") -> str:
    return f"−{value:.3f} {plus}{value:.3f}"


def test_legends_give_the_numbers_of_the_darkest_and_the_palest_cell(opened):
    ask, page = opened.ask, opened.open("pairs")
    sentences = page.get_by_label("Sentences, one a line").nth(1).input_value().splitlines()
    vectors = np.array(ask("embed", model="pretrained", inputs=sentences))
    expect_equal(lambda: legends(page)[-1:], [f"{(vectors @ vectors.T).min():.2f} 1.00"])

    view = "map?open=token&token=3&box=2.scores"
    page = opened.open(view)
    text = page.get_by_label("Text; [MASK] hides a word").input_value()
    trace = ask("explore/layers", model="pretrained", text=text, token=2)["layers"][1]
    boxes = page.locator('.stage[aria-label="Layer 2"] .step')
    boxes.filter(has=page.get_by_text("Softmax", exact=True)).click()
    expect(page.locator(".walk-numbers h4").first).to_have_text("Layer 2: Softmax")
    effects = ask("explore/ablation", model="pretrained", text=text)
    largest = max(abs(without["first"][0] - effects["all"]["first"][0]) for without in effects["without"])
    assert legends(page) == [
        "0% 100%",
        f"−{100 * largest:.1f} +{100 * largest:.1f}",
        f"0% {percent(np.max(trace['weights']))}",
    ]
    boxes.filter(has=page.get_by_text("Query", exact=True)).click()
    expect(page.locator(".walk-numbers h4").first).to_have_text("Layer 2: Query")
    query = np.frombuffer(base64.b64decode(trace["steps"]["query"]["values"]), "<f4")
    assert legends(page)[2] == both_signs(abs(query).max())

    page = opened.open("why")
    text = page.get_by_label("Text", exact=True).input_value()
    [found] = ask("explain", model="classifier", inputs=[[text]])
    assert legends(page) == [both_signs(max(abs(word["attribution"]) for word in found["words"]), "+")]

    text, pair = "The man went to the store.", "He bought a gallon of milk."
    page = open_head(opened, text, pair)
    asked = {"model": "pretrained", "text": text, "pair": pair}
    row = ask("explore/row", **asked, layer=1, head=0, token=2)
    shown = legends(page)
    assert shown[2] == "0% 100%"
    to = int(np.argmax(row["weights"]))
    assert shown[3] == both_signs(np.abs([row["query"], row["key"][to]]).max())
    assert shown[4] == both_signs(np.abs([row["value"][i] for i in np.argsort(row["weights"])[-6:]]).max())
    page.locator('.tokens [data-cell="0.0"]').click()
    expect(page.locator("table.input td").first).to_be_visible()
    tables = ask("explore/input", **asked)["embeddings"]
    after = np.abs(tables.pop("normalized")["first"]).max()
    before = max(np.abs(rows["first"]).max() for rows in tables.values())
    assert legends(page)[2:4] == [both_signs(before), both_signs(after)]

    page = opened.open("errors")
    assert legends(page) == ["0% 100%"]

    page = opened.open("answers")
    question, context = (page.get_by_label(label, exact=True).input_value() for label in ("Question", "Text"))
    scores = ask("explore/span", model="answers", question=question, context=context)
    for logits in (scores["start_logits"], scores["end_logits"]):
        ends = f"{min(logits):.2f} to {max(logits):.2f}".replace("-", "−")
        expect(page.locator(".note").filter(has_text="Start score")).to_contain_text(ends)


SMALL_TARGETS = """() => {
  const kinds = "a, button, input, select, textarea, summary, label.chip, [role=button], .target";
  return [...document.querySelectorAll(kinds)]
    .map((target) => [target, target.getBoundingClientRect()])
    .filter(([target, { width, height }]) => width && height && getComputedStyle(target).opacity !== "0")
    // a word in a sentence may be short: an exception of the criterion
    .filter(([target, { width, height }]) => height < 23.9 || (width < 23.9 && !target.matches(".word")))
    .map(([target, { width, height }]) => [target.outerHTML.slice(0, 100), width, height]);
}"""


def small_targets(page: Any, view: str) -> Any:
    """Return the targets of less than 24 pixels, also of rows that open."""
    if view == "errors":
        page.locator(".answers .text").first.click()
        page.locator(".reason .answer").wait_for()
    elif view == "lesson":
        page.locator(".choices .chip").first.click()
        page.locator(".reveal").wait_for()
    return page.evaluate(SMALL_TARGETS)
