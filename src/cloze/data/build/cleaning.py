"""Clean documents in steps; each step is counted, shows examples, and can be skipped.

    pdf               with `clean="pdf"`: join words divided at line ends, and delete ligatures and soft hyphens
    control           delete control characters and invisible marks; separators of lines and pages become spaces
    unicode           compose characters (NFC): "e" and a combining accent become "é"
    short_documents   drop documents of fewer than five words, except in the format `sentences`

Two more steps, duplicate_documents and duplicate_paragraphs, need the whole text (`cloze.data.build.finalize`).

Differs: the paper does not describe its cleaning. BERT's tokenizer deletes control characters, and an uncased one
strips accents, so the first two steps change few tokens; they matter to sentence splitting, duplicates and cased
vocabularies.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self, TypeAlias, get_args

from cloze import config
from cloze.choices import Clean, Step
from cloze.data.reading.documents import Document
from cloze.data.reading.text_layout import clean_pdf_text
from cloze.errors import InputError
from cloze.tokenization.unicode import SCRIPTS_WITHOUT_SPACES

MAX_EXAMPLES = 3


class Counts:
    """Base of dataclasses whose fields are numbers, other counts, or tuples with the first examples."""

    __slots__ = ()

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        sums = [getattr(self, name) + getattr(other, name) for name in names]
        return type(self)(*(value[:MAX_EXAMPLES] if isinstance(value, tuple) else value for value in sums))

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        """Return the inverse of `dataclasses.asdict`."""
        return config.from_dict(cls, table, where="counts")


STEPS: tuple[Step, ...] = get_args(Step)

_MIN_WORDS = 5
_SEPARATORS = re.compile("[\r\v\f\x1c-\x1f\x85\u2028\u2029]+")
_HARMFUL = re.compile(
    "[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # control characters
    "\xad\u200b\u2060\ufeff"  # soft hyphen, spaces of no width
    "\u200e\u200f\u202a-\u202e\u2066-\u206f"  # directions of writing
    "\u2061-\u2064\ufff9-\ufffb\ufffe\uffff]+"  # invisible operators, annotations, no characters
)
"""Without the joiners U+200C and U+200D, which distinguish words in Persian, Indian scripts and emoji."""
_WORD = re.compile(f"[{SCRIPTS_WITHOUT_SPACES}]|[^\\W{SCRIPTS_WITHOUT_SPACES}]+")
"""In scripts without spaces every character is a word, as in BERT for Chinese."""
_EXCERPT_CHARACTERS = 60
_BETWEEN_LINES = "\n\n"
Lines: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningConfig:
    """Which steps are taken."""

    without: tuple[Step, ...] = ()
    clean: Clean | None = None
    """Kind of text that has a step of its own, here `pdf`."""


@dataclass(frozen=True, slots=True)
class Example:
    """A change that a step made."""

    where: str
    before: str
    """With escapes for the changed characters, since most are invisible."""
    after: str
    """Empty if the document was dropped."""


@dataclass(frozen=True, slots=True)
class StepCounts(Counts):
    """Counts of the changes of a step."""

    documents: int = 0
    """Changed or dropped."""
    characters: int = 0
    """Changed or dropped."""
    examples: tuple[Example, ...] = ()
    """The first ones."""


@dataclass(frozen=True, slots=True)
class CleaningCounts(Counts):
    """Counts of the changes of each step."""

    pdf: StepCounts = StepCounts()
    control: StepCounts = StepCounts()
    unicode: StepCounts = StepCounts()
    short_documents: StepCounts = StepCounts()

    def describe(self) -> list[str]:
        """Return a line per step that changed something."""
        done = {
            "pdf": "with hyphens at line ends, ligatures or soft hyphens, now removed",
            "control": "with control characters or invisible marks, now deleted",
            "unicode": "with characters that are now composed",
            "short_documents": f"of fewer than {_MIN_WORDS} words, dropped",
        }
        steps = {step: getattr(self, step) for step in done}
        return [
            f"{step}: {counts.documents:,} documents {done[step]} ({counts.characters:,} characters)"
            for step, counts in steps.items()
            if counts.documents
        ]


_NO_CHANGE = CleaningCounts()


def no_text_error(inputs: Iterable[str | Path], counts: CleaningCounts) -> InputError:
    """Return the error that inputs have no text, or that all their documents were dropped."""
    what, remedy = "no text in it", None
    if dropped := counts.short_documents.documents:
        what = f"no document has {_MIN_WORDS} words, of {dropped:,} in it"
        remedy = "`without=short_documents` keeps short documents"
    return InputError(what, where=", ".join(map(str, inputs)), remedy=remedy)


def clean(document: Document, config: CleaningConfig) -> tuple[Document | None, CleaningCounts]:
    """Return the cleaned document, None if it was dropped, and the counts."""
    lines, where, counts = document.lines, document.where, _NO_CHANGE
    if config.clean == "pdf":
        # also across lines: a narrow column is not known as wrapped
        text = _BETWEEN_LINES.join(lines)
        cleaned, changes = clean_pdf_text(text)
        if changes:
            lines = tuple(filter(None, cleaned.split(_BETWEEN_LINES)))
            example = _example(where, text.replace("\n", " "), cleaned.replace("\n", " "))
            counts += CleaningCounts(pdf=StepCounts(1, changes, (example,)))
    if any("\n" in line for line in lines):
        lines = tuple(line.replace("\n", " ") for line in lines)
    if "control" not in config.without and not all(map(str.isprintable, lines)):
        lines, done = _apply(_delete_control_characters, str.isprintable, lines, where)
        counts += CleaningCounts(control=done)
    if "unicode" not in config.without and not all(map(_is_composed, lines)):
        lines, done = _apply(_compose, _is_composed, lines, where)
        counts += CleaningCounts(unicode=done)
    if not lines:
        return None, counts
    if lines is not document.lines:
        document = replace(document, lines=lines)
    if "short_documents" not in config.without and document.kind == "paragraphs":
        words = chain.from_iterable(map(_WORD.finditer, lines))
        if sum(1 for _ in islice(words, _MIN_WORDS)) < _MIN_WORDS:
            example = Example(where, " ".join(lines)[:_EXCERPT_CHARACTERS], "")
            dropped = StepCounts(1, sum(map(len, lines)), (example,))
            return None, counts + CleaningCounts(short_documents=dropped)
    return document, counts


def clean_all(documents: Iterable[Document], config: CleaningConfig) -> tuple[list[Document], CleaningCounts]:
    """Clean documents and add up the counts."""
    kept, total = [], _NO_CHANGE
    for document in documents:
        cleaned, counts = clean(document, config)
        if cleaned is not None:
            kept.append(cleaned)
        if counts is not _NO_CHANGE:
            total += counts
    return kept, total


def _is_composed(line: str) -> bool:
    return line.isascii() or unicodedata.is_normalized("NFC", line)


def _compose(line: str) -> tuple[str, int]:
    composed = unicodedata.normalize("NFC", line)
    return composed, max(1, len(line) - len(composed)) if composed != line else 0


def _delete_control_characters(line: str) -> tuple[str, int]:
    spaced, separators = _SEPARATORS.subn(" ", line)
    rest = _HARMFUL.sub("", spaced)
    return rest.strip(), separators + len(spaced) - len(rest)


def _apply(
    change: Callable[[str], tuple[str, int]], is_fine: Callable[[str], bool], lines: Lines, where: str
) -> tuple[Lines, StepCounts]:
    """Apply a step to the lines of a document except where `is_fine`, and drop lines that become empty."""
    kept: list[str] = []
    characters = 0
    examples: tuple[Example, ...] = ()
    for line in lines:
        if is_fine(line):
            kept.append(line)
            continue
        changed, count = change(line)
        characters += count
        if count and not examples:
            examples = (_example(where, line, changed),)
        if changed:
            kept.append(changed)
    return (tuple(kept), StepCounts(1, characters, examples)) if characters else (lines, StepCounts())


def _example(where: str, before: str, after: str) -> Example:
    different = (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    place = next(different, min(len(before), len(after)))
    start = max(0, place - _EXCERPT_CHARACTERS // 2)
    before, after = (text[start : start + _EXCERPT_CHARACTERS] for text in (before, after))
    gone = {character for character in {*before} - {*after} if not " " <= character <= "~"}
    return Example(where, "".join(f"\\u{ord(c):04x}" if c in gone else c for c in before), after)
