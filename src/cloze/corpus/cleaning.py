"""Cleaning of documents, step by step; each step is counted, shows examples, and can be left out.

    control           control characters and invisible marks deleted; separators of lines and pages become spaces
    unicode           characters composed (NFC): "e" and an accent after it become "é"
    short_documents   documents of fewer than five words dropped, but not from text that comes as sentences

Two steps more, duplicate_documents and duplicate_paragraphs, need all of a text and are taken when a data set is
sealed (`cloze.corpus.seal`).

Differs: the paper says nothing of its cleaning. BERT's tokenizer deletes control characters by itself, and an uncased
one takes all accents off, so the first two steps change hardly a piece; they matter to what looks at characters
before the tokenizer does (sentence splitting, duplicates) and to a cased vocabulary. Text that comes as sentences
(Google's format) is its author's choice, so no document of it is dropped.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain, islice
from typing import Any, Literal, TypeAlias, get_args

from cloze.corpus.documents import Document

Step: TypeAlias = Literal[
    "control", "unicode", "short_documents", "duplicate_documents", "duplicate_paragraphs"
]
STEPS: tuple[Step, ...] = get_args(Step)

_MIN_WORDS = 5
_SEPARATORS = re.compile("[\r\v\f\x1c-\x1f\x85\u2028\u2029]+")
_HARMFUL = re.compile(
    "[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # control characters
    "\xad\u200b\u2060\ufeff"  # soft hyphen, spaces of no width
    "\u200e\u200f\u202a-\u202e\u2066-\u206f"  # directions of writing
    "\u2061-\u2064\ufff9-\ufffb\ufffe\uffff]+"  # invisible operators, annotations, no characters
)
"""The joiners U+200C and U+200D are not among them: in Persian, Indian scripts and emoji they tell words apart."""
_WITHOUT_SPACES = (
    "\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3040-\u30ff"  # Thai, Lao, Tibetan, Burmese, Khmer, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
_WORD = re.compile(f"[{_WITHOUT_SPACES}]|[^\\W{_WITHOUT_SPACES}]+")
"""In scripts without spaces every character is a word, as BERT has it for Chinese."""
_MAX_EXAMPLES = 3
_EXCERPT_CHARACTERS = 60
Lines: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningConfig:
    """What is cleaned."""

    without: tuple[Step, ...] = ()
    """Steps left out."""


@dataclass(frozen=True, slots=True)
class Example:
    """A place where a step did something."""

    where: str
    before: str
    """What is gone afterwards is written as an escape, since hardly any of it can be seen."""
    after: str
    """Empty where the document was dropped."""


@dataclass(frozen=True, slots=True)
class StepCounts:
    """What a step did. Counts of two parts of a text add up to those of both."""

    documents: int = 0
    """Changed or dropped."""
    characters: int = 0
    """Changed or dropped."""
    examples: tuple[Example, ...] = ()
    """The first ones."""

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> "StepCounts":
        """Return what `asdict` was made of."""
        examples = tuple(Example(**example) for example in table["examples"])
        return cls(table["documents"], table["characters"], examples)

    def __add__(self, other: "StepCounts") -> "StepCounts":
        return StepCounts(
            self.documents + other.documents,
            self.characters + other.characters,
            (self.examples + other.examples)[:_MAX_EXAMPLES],
        )


@dataclass(frozen=True, slots=True)
class CleaningCounts:
    """What cleaning did, a field a step."""

    control: StepCounts = StepCounts()
    unicode: StepCounts = StepCounts()
    short_documents: StepCounts = StepCounts()

    def __add__(self, other: "CleaningCounts") -> "CleaningCounts":
        return CleaningCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> "CleaningCounts":
        """Return what `as_dict` was made of."""
        return cls(**{step: StepCounts.from_dict(counts) for step, counts in table.items()})

    def in_words(self) -> list[str]:
        """Say in a line a step what was done, nothing of steps that did nothing."""
        done = {
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


_NOTHING_DONE = CleaningCounts()


def clean(document: Document, config: CleaningConfig) -> tuple[Document | None, CleaningCounts]:
    """Take a document through the steps; None is what is left of a document that was dropped."""
    lines, where = document.lines, document.where
    counts = _NOTHING_DONE
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
    if "short_documents" not in config.without and document.kind == "paragraphs" and _is_short(lines):
        dropped = Example(where, _excerpt(" ".join(lines), 0), "")
        return None, counts + CleaningCounts(short_documents=StepCounts(1, sum(map(len, lines)), (dropped,)))
    return document, counts


def clean_all(documents: Iterable[Document], config: CleaningConfig) -> tuple[list[Document], CleaningCounts]:
    """Clean documents, and count what was done to all of them."""
    kept, total = [], _NOTHING_DONE
    for document in documents:
        cleaned, counts = clean(document, config)
        if cleaned is not None:
            kept.append(cleaned)
        if counts is not _NOTHING_DONE:
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
    """Change lines, and leave out those that become empty.

    Args:
        change: returns a line changed, and how many characters.
        is_fine: whether there is nothing to look for in a line; quick.
        lines: of a document.
        where: it begins.
    """
    kept: list[str] = []
    characters = 0
    examples: list[Example] = []
    for line in lines:
        if is_fine(line):
            kept.append(line)
            continue
        changed, count = change(line)
        characters += count
        if count and not examples:
            examples.append(_example(where, line, changed))
        if changed:
            kept.append(changed)
    if not characters:
        return lines, StepCounts()
    return tuple(kept), StepCounts(1, characters, tuple(examples))


def _example(where: str, before: str, after: str) -> Example:
    different = (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    place = next(different, min(len(before), len(after)))
    before, after = _excerpt(before, place), _excerpt(after, place)
    gone = {character for character in {*before} - {*after} if not " " <= character <= "~"}
    return Example(where, "".join(f"\\u{ord(c):04x}" if c in gone else c for c in before), after)


def _excerpt(text: str, place: int) -> str:
    start = max(0, place - _EXCERPT_CHARACTERS // 2)
    return text[start : start + _EXCERPT_CHARACTERS]


def _is_short(lines: Lines) -> bool:
    words = chain.from_iterable(map(_WORD.finditer, lines))
    return sum(1 for _ in islice(words, _MIN_WORDS)) < _MIN_WORDS
