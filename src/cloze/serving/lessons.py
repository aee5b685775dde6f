"""Lessons of the explorer page: files of steps, each with a question that the page asks the served model, too."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from cloze.errors import InputError
from cloze.serving.schema import NonBlankText, StrictModel

BUNDLED = Path(__file__).with_name("bundled_lessons")
_GLOSSARY = BUNDLED / "glossary.json"
_REMEDY = "docs/guides/explorer.md describes the fields"
_MASK = re.compile(r"\[mask\]|<mask>", re.IGNORECASE)  # as the page reads it
_IN_QUESTIONS = {"layer", "head"}
_IN_REVEALS = {"guess", "rank", "value", "best", "best_value", "count"}


class _Measure(NamedTuple):
    """What the page reads of a step."""

    state: tuple[str, ...] = ()
    choices: bool | None = False
    """Whether it has choices; None is either."""
    masked: str | None = None
    """The field with [MASK] in each text."""


MEASURES = {
    "word": _Measure(("text",), choices=None, masked="state.text"),
    "sentence": _Measure(choices=True, masked="choices"),
    "tokens": _Measure(choices=None),
    "embedding": _Measure(("text",)),
    "sense": _Measure(("word", "sentences")),
    "attention": _Measure(("text",), masked="state.text"),
    "head": _Measure(("text",), masked="state.text"),
    "layer": _Measure(("text",), masked="state.text"),
    "turn": _Measure(("text",), masked="state.text"),
    "next": _Measure(("text",), choices=True),
    "label": _Measure(),
    "why": _Measure(),
}
"""By their names; page/src/measures.ts computes them."""
STATE_KEYS = (
    "text, pair, hide, left, word, sentences, texts, layer, head, part, open, token, box, off, question"
)


class Reveal(StrictModel):
    """How the model answers, and the texts for guesses of its ranks, in which {guess} and other names are replaced."""

    measure: str
    """A key of `MEASURES`: the choice with the largest number has rank 1."""
    answer: NonBlankText | None = None
    """The word of the text, or the word whose probability ranks sentences."""
    first: NonBlankText
    """For a guess of rank 1."""
    near: NonBlankText | None = None
    """For one of rank 2 to 5; by default as `below`."""
    below: NonBlankText
    """For any other."""


class Step(StrictModel):
    """A text, a question with choices or for a word, and the view that shows the answer."""

    text: NonBlankText
    question: NonBlankText
    choices: Annotated[list[NonBlankText], Field(min_length=2)] | None = None
    view: Literal["fill", "predict", "why", "entities", "answers", "pairs", "map"] | None = None
    state: dict[str, str] = Field(default_factory=dict)
    """Values of the view by keys of `STATE_KEYS`, as in its address."""
    reveal: Reveal


class Lesson(StrictModel):
    """A title and its steps."""

    title: NonBlankText
    steps: Annotated[list[Step], Field(min_length=1)]


def read_lessons(files: Sequence[Path] = ()) -> dict[str, Any]:
    """Return the bundled lessons, those of files, and the glossary, as the page reads them."""
    lessons = [read_lesson(path) for path in (*sorted(BUNDLED.glob("[0-9]*.json")), *files)]
    return {"lessons": lessons, "glossary": json.loads(_GLOSSARY.read_bytes())}


def read_lesson(file: Path) -> dict[str, Any]:
    """Read a lesson.

    Raises:
        InputError: it names the file, the step and the field that are wrong.
    """
    try:
        lesson = Lesson.model_validate_json(file.read_bytes())
    except OSError as error:
        raise InputError(error.strerror or str(error), where=file) from error
    except ValidationError as error:
        [first, *_] = error.errors()
        raise _wrong(file, first["loc"], first["msg"]) from error
    for number, step in enumerate(lesson.steps):
        for field, what in (*_problems(step), *_unknown_names(step)):
            raise _wrong(file, ("steps", number, field), what)
    return lesson.model_dump()


def _wrong(file: Path, place: Sequence[int | str], what: str) -> InputError:
    names = [str(name + 1) if isinstance(name, int) else name for name in place]
    if names[:1] == ["steps"] and len(names) > 1:
        names[:2] = [f"step {names[1]}"]
    where = ", ".join(filter(None, (str(file), *names[:1], ".".join(names[1:]))))
    return InputError(what[:1].lower() + what[1:], where=where, remedy=_REMEDY)


def _problems(step: Step) -> Iterator[tuple[str, str]]:
    """Yield fields that a measure lacks or does not read, and what is wrong."""
    name, choices, state = step.reveal.measure, step.choices, step.state
    if (measure := MEASURES.get(name)) is None:
        yield "reveal.measure", f"{name!r} is not in {', '.join(MEASURES)}"
        return
    rivals = ("texts",) if name == "tokens" and choices is None else ()  # of a word that is typed
    for key in (*measure.state, *rivals):
        if not state.get(key, "").strip():
            yield f"state.{key}", f"{name!r} reads it"
    if measure.choices is not None and measure.choices != (choices is not None):
        yield "choices", f"{name!r} {'ranks them' if measure.choices else 'has choices of its own'}"
    if choices is not None and len(set(choices)) < len(choices):
        yield "choices", "one occurs twice"
    texts = {"choices": choices or [], "state.text": [state.get("text", "")]}.get(measure.masked or "", [])
    if not all(map(_MASK.search, texts)):
        yield str(measure.masked), f"{name!r} reads texts with [MASK]"
    if name == "sentence" and step.reveal.answer is None:
        yield "reveal.answer", f"{name!r} ranks by the probability of this word"
    for key in state.keys() - STATE_KEYS.split(", "):
        yield f"state.{key}", f"not one of {STATE_KEYS}"
    for key in ("layer", "head"):
        if not re.fullmatch("[1-9][0-9]*", state.get(key, "1")):
            yield f"state.{key}", f"{state[key]!r} is not a number from 1 on"


def _unknown_names(step: Step) -> Iterator[tuple[str, str]]:
    """Yield texts with a name in braces that has no value."""
    templates = {f"reveal.{key}": getattr(step.reveal, key) or "" for key in ("first", "near", "below")}
    for field, text in (("question", step.question), *templates.items()):
        known = _IN_QUESTIONS if field == "question" else _IN_REVEALS
        for name in re.findall(r"\{(\w*)\}", text):
            if name not in known:
                yield field, f"{{{name}}} is not one of {', '.join(sorted(known))}"
