"""The lessons of the explorer page: the bundled ones, those of a teacher, and what is said of a wrong file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from clients import client_of

from cloze.errors import InputError
from cloze.serving.lessons import BUNDLED, MEASURES, read_lesson, read_lessons

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "docs" / "guides" / "lesson.json"
LESSON: dict[str, Any] = json.loads(EXAMPLE.read_text("utf-8"))


def test_the_bundled_lessons_use_every_measure_of_the_page():
    source = (REPOSITORY / "page" / "src" / "measures.ts").read_text("utf-8")
    table = source[source.index("export const MEASURES") :]
    assert set(MEASURES) == set(re.findall(r"^  (\w+): \{$", table, re.MULTILINE))
    course = read_lessons()
    assert len(course["lessons"]) == 8
    steps = [step for lesson in course["lessons"] for step in lesson["steps"]]
    assert {step["reveal"]["measure"] for step in steps} == set(MEASURES)
    words = " ".join(f"{step['text']} {step['question']}" for step in steps).lower()
    assert [term for term in course["glossary"] if term.lower() not in words] == []


def test_a_lesson_of_a_teacher_follows_those_of_the_page(client):
    assert [len(client.get("/explore/lessons").json()["lessons"])] == [8]
    with client_of({}, lessons=read_lessons([EXAMPLE])) as served:
        *bundled, own = served.get("/explore/lessons").json()["lessons"]
    assert len(bundled) == len(list(BUNDLED.glob("[1-8]-*.json")))
    assert own["title"] == LESSON["title"]
    assert [step["question"] for step in own["steps"]] == [step["question"] for step in LESSON["steps"]]


def put(*path: str | int, value: Any) -> dict[str, Any]:
    """Return the example with another value at a place; None removes it."""
    lesson = json.loads(json.dumps(LESSON))
    *parents, last = path
    place = lesson
    for name in parents:
        place = place[name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return lesson


FIRST, SECOND = ("steps", 0), ("steps", 1)


@pytest.mark.parametrize(
    ("lesson", "message"),
    [
        ("{", ": invalid JSON: EOF while parsing an object"),
        (put("title", value=None), ", title: field required"),
        (put("steps", value=[]), ", steps: list should have at least 1 item"),
        (put("author", value="me"), ", author: extra inputs are not permitted"),
        (put(*SECOND, "question", value=" "), ", step 2, question: the text is empty"),
        (put(*SECOND, "reveal", "below", value=None), ", step 2, reveal.below: field required"),
        (put(*FIRST, "view", value="tour"), ", step 1, view: input should be 'fill', 'predict'"),
        (put(*FIRST, "state", "size", value="2"), ", step 1, state.size: not one of text, pair"),
        (put(*FIRST, "choices", value=["is"]), ", step 1, choices: list should have at least 2 items"),
        (put(*FIRST, "choices", value=["is", "is"]), ", step 1, choices: one occurs twice"),
        (put(*SECOND, "choices", value=["a", "b"]), ", step 2, choices: 'attention' has choices of its own"),
        (put(*SECOND, "reveal", "measure", value="next"), ", step 2, choices: 'next' ranks them"),
        (put(*FIRST, "reveal", "measure", value="sentence"), ", step 1, choices: 'sentence' reads texts"),
        (put(*FIRST, "reveal", "measure", value="rank"), ", step 1, reveal.measure: 'rank' is not in word"),
        (put(*FIRST, "state", "text", value=None), ", step 1, state.text: 'word' reads it"),
        (put(*FIRST, "state", "text", value="Keys"), ", step 1, state.text: 'word' reads texts with [MASK]"),
        (put(*SECOND, "state", "layer", value="0"), ", step 2, state.layer: '0' is not a number from 1 on"),
        (put(*FIRST, "reveal", "first", value="{word}"), ", step 1, reveal.first: {word} is not one of"),
        (put(*SECOND, "question", value="{guess}?"), ", step 2, question: {guess} is not one of head, layer"),
    ],
)
def test_a_wrong_file_is_refused_with_its_step_and_field(tmp_path, lesson, message):
    path = tmp_path / "own.json"
    path.write_text(lesson if isinstance(lesson, str) else json.dumps(lesson), "utf-8")
    with pytest.raises(InputError) as refused:
        read_lesson(path)
    assert str(refused.value).startswith(f"{path}{message}")


def test_the_rank_of_a_guess_is_that_among_all_tokens(client):
    text = "a [MASK] c"
    found = client.ask("/explore/guess", texts=[text], words=["b", "B", "ab", "\u2603"])
    [[candidates]] = client.ask("/fill", inputs=[text], top_k=1000)
    ranks = {each["token"]: rank for rank, each in enumerate(candidates, 1)}
    assert found["vocab_size"] == len(candidates)
    assert [each["token"] for each in found["texts"][0]["candidates"]] == [
        each["token"] for each in candidates[:5]
    ]
    assert [word["rank"] for word in found["texts"][0]["words"]] == [ranks["b"], ranks["b"], None, None]
    shares = {each["token"]: each["probability"] for each in candidates}
    assert found["texts"][0]["words"][0]["probability"] == pytest.approx(shares["b"], rel=1e-5)
    long = client.post("/explore/guess", json={"texts": [text], "words": ["b"] * 10_000})
    assert (long.status_code, "10010 characters, at most 10000" in long.text) == (413, True)
