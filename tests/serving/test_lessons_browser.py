"""The lessons in a real browser: each question is guessed, and the page says what Python says of the guess."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from clients import client_of, listening
from explorer_models import BLAME_OR_PRAISE, CONFIG, PIECES
from test_explorer_browser import BEYOND, LABELED, SCREENS, Visit, expect, visit

import cloze
from cloze.explorer.encoder_internals import (
    attention_map,
    heads_off,
    input_embeddings,
    trace_masked_lm,
    trace_token,
)
from cloze.explorer.word_in_context import word_in_context
from cloze.inference.explain import explain
from cloze.inference.predictor import Predictor
from cloze.models.heads import BertForPreTraining
from cloze.serving.lessons import read_lessons
from cloze.tasks.texts import LabeledText
from helpers import make_once
from pages import percent, serious_violations
from tiny_models import write_checkpoint

MINI = Path(cloze.__file__).parent / "pretrained" / "cloze-mini"
pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "lesson.json"
LESSONS: list[dict[str, Any]] = read_lessons([EXAMPLE])["lessons"]
REVIEW = "The film is not perfect, but it is warm, funny and beautifully acted."
SHOWN = 5
WORDS = re.findall("[a-z]{2,}", str(LESSONS).lower())
TOKENS = (*PIECES, *sorted({*WORDS} - {*PIECES, "unhappily", "okapis"}))
"""Of the random model, which has the words of the lessons."""
TYPED = {"tokens": "zyzzyvaqx", "word": "the"}


def write_models(directory: Path) -> None:
    """Write a random model of 12 layers and a classifier on it, and a fine-tuned cloze-mini."""
    config = replace(CONFIG, vocab_size=len(TOKENS), num_hidden_layers=12, num_attention_heads=12)
    generator = torch.Generator().manual_seed(9)
    deep = BertForPreTraining(cloze.BertModel(config, generator=generator), generator=generator)
    write_checkpoint(directory / "deep", deep, TOKENS, max_seq_length=128)
    classifier = BLAME_OR_PRAISE.answer.head(
        cloze.BertModel(config, generator=generator), generator=generator
    )
    write_checkpoint(directory / "deep-classifier", classifier, TOKENS, BLAME_OR_PRAISE, max_seq_length=128)
    cloze.finetune(
        "classification", model="cloze-mini", train=LABELED, output=directory / "mini-classifier", epochs=1
    )


@pytest.fixture(scope="module", params=["mini", "deep"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, "Expected"]]:
    """The address of a server with a pre-trained model and a classifier, and what Python says of them."""
    directory = make_once(tmp_path_factory, "lessons", write_models)
    paths = {"pretrained": MINI if request.param == "mini" else directory / "deep"}
    paths["classifier"] = directory / f"{request.param}-classifier"
    with listening(client_of(paths, lessons=read_lessons([EXAMPLE])).app) as address:
        yield address, Expected(paths)


@pytest.fixture
def visited(browser: Any, served: tuple[str, "Expected"]) -> Iterator[Visit]:
    with visit(browser, served[0]) as visited:
        yield visited


Rows = Iterator[tuple[str, float, str]]


class Expected:
    """The rows of each measure as (label, value, shown), by the classes of Python."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self.fill = cloze.FillMask.load(paths["pretrained"])
        self.follows = cloze.NextSentence.load(paths["pretrained"])
        self.predictor = Predictor.load(paths["classifier"])
        self.encoder, self.tokenizer = self.fill.encoder, self.fill.tokenizer

    def rows(self, step: dict[str, Any], guess: str) -> list[tuple[str, float, str]]:
        return list(getattr(self, f"_{step['reveal']['measure']}")(step, guess))

    def _share(self, text: str, word: str) -> tuple[float, str]:
        share = float(self.fill.probabilities(text)[0, self.tokenizer.tokens.index(word)])
        return share, f"probability {percent(share)}, loss {max(0, -math.log(share)):.2f}"

    def _word(self, step: dict[str, Any], _: str) -> Rows:
        text, shares = step["state"]["text"], self.fill.probabilities(step["state"]["text"])[0].tolist()
        if step["choices"]:
            for word in step["choices"]:
                yield word, *self._share(text, self.tokenizer.encode(word).tokens[1])
        else:
            for word, share in zip(self.tokenizer.tokens, shares, strict=True):
                yield word, share, f"probability {percent(share)}, loss {max(0, -math.log(share)):.2f}"

    def _sentence(self, step: dict[str, Any], _: str) -> Rows:
        for text in step["choices"]:
            yield text, *self._share(text, self.tokenizer.encode(step["reveal"]["answer"]).tokens[1])

    def _tokens(self, step: dict[str, Any], guess: str) -> Rows:
        for text in step["choices"] or [*step["state"]["texts"].split("\n"), guess]:
            tokens = self.tokenizer.encode(text).tokens[1:-1]
            yield text, len(tokens), f"{len(tokens)} token{'s' * (len(tokens) > 1)}: {' '.join(tokens)}"

    def _embedding(self, step: dict[str, Any], _: str) -> Rows:
        vectors = input_embeddings(self.encoder, self.tokenizer.encode(step["state"]["text"]))
        for name, table in {"token": "word", "segment": "segment", "position": "position"}.items():
            norm = float(vectors[table][1].norm())
            yield f"{name} embedding", norm, f"length {norm:.2f}"

    def _sense(self, step: dict[str, Any], _: str) -> Rows:
        sentences = [line for line in step["state"]["sentences"].split("\n") if line]
        with torch.inference_mode():
            found = word_in_context(self.encoder, self.tokenizer, step["state"]["word"], sentences)
        for text, value in zip(sentences[1:], found.cosines()[-1][0, 1:].tolist(), strict=True):
            yield text, value, f"cosine {value:.2f}"

    def _attention(self, step: dict[str, Any], _: str) -> Rows:
        found = attention_map(self.encoder, self.tokenizer, step["state"]["text"])
        layer, head = int(step["state"]["layer"]) - 1, int(step["state"]["head"]) - 1
        weights = found.layers[layer].weights[head, found.tokens.index("[MASK]")].tolist()
        for name, weight in zip(numbered(found.tokens), weights, strict=True):
            yield name, weight, f"weight {percent(weight)}"

    def _head(self, step: dict[str, Any], _: str) -> Rows:
        text, layer = step["state"]["text"], int(step["state"]["layer"]) - 1
        [[best]] = self.fill(text, top_k=1)
        for head in range(self.encoder.config.num_attention_heads):
            with heads_off(self.encoder, [(layer, head)]):
                share, _shown = self._share(text, best.token)
            shown = f"without it, “{best.token}” has {percent(share)} in place of {percent(best.probability)}"
            yield f"head {head + 1}", best.probability - share, shown

    def _layer(self, step: dict[str, Any], _: str) -> Rows:
        trace = trace_token(self.encoder, self.tokenizer, step["state"]["text"])
        *_, found = trace_masked_lm(self.fill, trace.hidden_states, top_k=1)
        best = [candidate for (candidate,) in found]
        right = max((i + 1 for i, each in enumerate(best) if each.token != best[-1].token), default=0)
        for i, each in enumerate(best):
            shown = f"“{each.token}” is first there, with {percent(each.probability)}"
            yield f"layer {i}" if i else "embeddings", -abs(i - right), shown

    def _turn(self, step: dict[str, Any], _: str) -> Rows:
        trace = trace_token(self.encoder, self.tokenizer, step["state"]["text"])
        for i, turn in enumerate(trace.movements[:, trace.token].tolist(), 1):
            yield f"layer {i}", turn, f"1 − cosine {turn:.2f}"

    def _next(self, step: dict[str, Any], _: str) -> Rows:
        for choice in step["choices"]:
            share = self.follows(step["state"]["text"], choice).probability
            yield choice, share, f"probability {percent(share)} that it follows"

    def _label(self, *_: Any) -> Rows:
        (prediction,), _ = self.predictor.predict([LabeledText(REVIEW, None)])
        for label, share in prediction.probabilities.items():
            yield label, share, f"probability {percent(share)}"

    def _why(self, *_: Any) -> Rows:
        example = LabeledText(REVIEW, None)
        (prediction,), _ = self.predictor.predict([example])
        found = explain(self.predictor, example, prediction)
        for name, word in zip(numbered([word.word for word in found.words]), found.words, strict=True):
            shown = f"contribution {word.attribution:.3f} to “{found.explained}”".replace("-", "−")
            yield name, word.attribution, shown


def numbered(words: Sequence[str]) -> list[str]:
    """Return words with a number where they repeat."""
    counts = [words[:i].count(word) for i, word in enumerate(words)]
    return [f"{word} ({count + 1})" if count else word for word, count in zip(words, counts, strict=True)]


def numbers(text: str) -> tuple[str, list[float]]:
    """Return a text without its numbers, and these: the same model in other batches differs in the last digit."""
    values = [float(number.replace("−", "-")) for number in re.findall(r"−?\d+\.\d+", text)]
    return re.sub(r"[<>−]?\d+\.\d+", "#", text), values


def check_shown(shown: str | None, expected: str) -> None:
    (text, values), (expected_text, expected_values) = numbers(shown or ""), numbers(expected)
    assert text == expected_text
    np.testing.assert_allclose(values, expected_values, atol=0.11)


def ordinal(rank: int) -> str:
    ending = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank:,}{ending}"


def guess_all(page: Any, step: dict[str, Any]) -> list[str]:
    """Return guesses: each choice, or a word of the vocabulary; two choices of many."""
    measure = step["reveal"]["measure"]
    if page.locator(".question input").count():
        return [TYPED[measure]]
    choices: list[str] = page.locator(".choices .chip").all_text_contents()
    return choices[:1] + choices[-1:]


def check_guess(page: Any, step: dict[str, Any], guess: str, expected: Expected) -> None:
    """Make a guess, and compare its rank, its number and the text for its rank with Python's."""
    box, reveal = page.locator(".question input"), step["reveal"]
    if box.count():
        box.fill(guess)
        box.press("Enter")
    else:
        page.locator(".choices").get_by_role("button", name=guess, exact=True).press("Enter")
    rows = expected.rows(step, guess)
    (_, value, shown) = next(row for row in rows if row[0] == guess)
    best = max(rows, key=lambda row: row[1])
    rank = 1 + sum(other > value for _, other, _ in rows)
    place = f"{ordinal(rank)} of {len(rows):,}"
    if reveal["measure"] == "layer":
        place = "right" if not value else f"{-value} row{'s' * (value != -1)} away"
    answer = page.locator(".reveal .answer")
    expect(answer).to_contain_text(f"“{guess}” is ")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    check_shown(answer.text_content(), f"“{guess}” is {place}: {shown}.")
    near = reveal["near"] if rank <= SHOWN else None
    template = reveal["first"] if rank == 1 else near or reveal["below"]
    values = {"guess": guess, "rank": rank, "value": shown, "best": best[0], "best_value": best[2]}
    check_shown(page.locator(".reveal .remark").text_content(), template.format(**values, count=len(rows)))
    if reveal["answer"] and not step["choices"]:
        word = reveal["answer"]
        (_, share, of_answer) = next(row for row in rows if row[0] == word)
        rank = 1 + sum(other > share for _, other, _ in rows)
        line = f"The right word: “{word}” is {ordinal(rank)} of {len(rows):,}: {of_answer}."
        check_shown(page.locator(".reveal > p").nth(1).text_content(), line)


def test_each_guess_gets_the_rank_that_python_gives_it(visited, served):
    expected = served[1]
    steps = [(n, i, step) for n, each in enumerate(LESSONS, 1) for i, step in enumerate(each["steps"], 1)]
    page, address = visited.page, visited.address
    page.goto(f"{address}/#lesson=1&step=1")
    for lesson, number, step in steps:
        expect(page).to_have_url(f"{address}/#lesson={lesson}&step={number}")
        expect(page.get_by_role("heading", level=2).first).to_have_text(
            f"{lesson}. {LESSONS[lesson - 1]['title']}"
        )
        page.locator(".question h3").wait_for()
        expect(page.locator("[aria-busy]")).to_have_count(0)
        assert page.locator(".reveal").count() == 0
        assert page.locator(".lesson .part-body .part-body").count() == 0
        for guess in guess_all(page, step):
            check_guess(page, step, guess, expected)
        if step["view"]:
            page.locator(".lesson .part-body .part-body").first.wait_for()
            expect(page.locator("[aria-busy], .skeleton, .error")).to_have_count(0)
        assert page.evaluate(BEYOND) <= 0, (lesson, number)
        if number == 1:
            assert serious_violations(page, without=".strip") == [], lesson
        if (lesson, number) != (len(LESSONS), len(LESSONS[-1]["steps"])):
            page.locator(".onward").press("Enter")
    expect(page.locator(".onward")).to_have_count(0)


def test_a_sheet_has_the_questions_and_by_choice_the_answers(visited):
    page, address = visited.page, visited.address
    page.add_init_script("window.printed = 0; window.print = () => { window.printed += 1; };")
    for number, lesson in enumerate(LESSONS, 1):
        page.goto(f"{address}/#lesson={number}&step=2")
        page.locator(".question").wait_for()
        sheet, solutions = page.locator(".sheet"), page.locator(".solutions table")
        expect(sheet).to_be_hidden()
        expect(solutions).to_have_count(0)
        page.get_by_label("with the model’s answers").check()
        page.get_by_role("button", name="Print the lesson as a sheet").click()
        page.wait_for_function("() => window.printed")
        expect(solutions).to_have_count(len(lesson["steps"]))
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 718, "height": 900})
        expect(sheet).to_be_visible()
        expect(page.locator(".question")).to_be_hidden()
        expect(page.locator(".tabs")).to_be_hidden()
        assert page.evaluate(BEYOND) <= 0
        expect(sheet.locator("> section:not(.solutions)")).to_have_count(len(lesson["steps"]))
        choices = [choice for step in lesson["steps"] for choice in step["choices"] or []]
        expect(sheet.locator("li")).to_have_text(choices)
        page.emulate_media(media="screen")
        page.set_viewport_size(SCREENS["light"]["viewport"])
        page.evaluate("window.printed = 0")


def test_terms_are_explained_to_pointer_and_keyboard(visited):
    page, address = visited.page, visited.address
    page.set_viewport_size(SCREENS["phone"]["viewport"])
    page.goto(f"{address}/#lesson=3")
    term = page.get_by_role("button", name="softmax", exact=True).first
    tip = page.get_by_role("tooltip")
    term.focus()
    expect(tip).to_contain_text("sum 1")
    assert page.evaluate(BEYOND) <= 0
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)
    page.mouse.move(0, 0)
    term.hover()
    expect(tip).to_contain_text("sum 1")


def test_the_address_keeps_lesson_step_guess_and_what_is_tried(visited):
    page, address = visited.page, visited.address
    page.goto(address)
    page.get_by_role("link", name="Learn how").click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("1. Tokens")
    page.get_by_role("group", name="Lessons").get_by_role("button", name="8 Limits").click()
    page.get_by_role("button", name="Next: step 2").click()
    choice = "A robin is not a [MASK]."
    page.get_by_role("button", name=choice).first.click()
    expect(page.locator(".reveal")).to_be_visible()
    page.get_by_label("Your own sentence").fill("A robin is never a [MASK].")
    expect(page).to_have_url(re.compile(r"#lesson=8&step=2&guess=.*&text=A\+robin\+is\+never"))
    page.reload()
    expect(page.locator(".reveal .answer")).to_contain_text(f"“{choice}” is ")
    expect(page.get_by_label("Your own sentence")).to_have_value("A robin is never a [MASK].")
    page.get_by_role("link", name="Fill", exact=True).click()
    expect(page).to_have_url(re.compile("#fill"))
    page.go_back()
    expect(page.locator(".reveal .answer")).to_contain_text(f"“{choice}” is ")
    page.get_by_role("button", name="Back").click()
    expect(page).to_have_url(f"{address}/#lesson=8&step=1")
    expect(page.locator(".reveal")).to_have_count(0)
    page.locator(".question input").fill("two words")
    page.locator(".question input").press("Enter")
    expect(page.locator(".reveal")).to_contain_text("is not one token of this model’s vocabulary")


def test_a_lesson_says_which_model_it_needs(visited):
    page, address = visited.page, visited.address
    info = page.request.get(f"{address}/info").json()
    models = info["models"]
    page.route("**/info", lambda route: route.fulfill(json=info))
    for name, lacking in (("pretrained", {7}), ("classifier", {3, 4, 5, 6, 7, 8, 9})):
        info["models"] = [model for model in models if model["name"] == name]
        for number in range(1, len(LESSONS) + 1):
            page.goto("about:blank")
            page.goto(f"{address}/#lesson={number}")
            page.locator(".question, .missing").first.wait_for()
            assert (page.locator(".missing").count() > 0) == (number in lacking), (name, number)
            assert (page.locator(".question").count() == 0) == (number in lacking), (name, number)
            if number in lacking:
                expect(page.locator(".missing").first).to_contain_text("cloze serve -m")
        expect(page.locator(".lacking")).to_have_count(len(lacking))
