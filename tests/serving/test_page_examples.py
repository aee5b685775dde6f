"""The examples of the view Fill: the bundled model puts the right word first."""

import re

import pytest

import cloze
from cloze.serving.explorer_routes import PAGE

ANSWERS = {
    "Born in": ["born"],
    "United": ["states"],
    "President": ["president"],
    "Two at once": ["was", "university"],
    "Published": ["published"],
}
EXAMPLES = dict(re.findall(r'\["([^"]+)", "([^"]*\[MASK\][^"]*)"\]', (PAGE / "fill.js").read_text()))


def test_every_example_has_its_answer() -> None:
    assert EXAMPLES.keys() == ANSWERS.keys()


@pytest.mark.parametrize("name", ANSWERS)
def test_the_bundled_model_is_right_about_its_examples(name: str) -> None:
    fill_mask = cloze.FillMask.load("cloze-mini")
    assert [candidates[0].token for candidates in fill_mask(EXAMPLES[name], top_k=1)] == ANSWERS[name]
