"""Spans of texts, whose offsets count characters, UTF-16 units or bytes of UTF-8, as a setting says."""

import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from cloze.data.reading.json_rows import show_value
from cloze.data.reading.memory import Data
from cloze.errors import DataWarning, InputError

Offsets: TypeAlias = Literal["characters", "utf-16", "utf-8"]
"""What the offsets of spans count: characters, UTF-16 units (as JavaScript and Java do, an emoji is two), or bytes."""

_STARTS, _ENDS = ("start", "start_offset"), ("end", "end_offset")
_LABELS = ("label", "labels", "type", "entity")
_CODECS = {"utf-16": ("utf-16-le", 2), "utf-8": ("utf-8", 1)}
"""Encoding and bytes of a unit."""
_SHOWN = 60


class LabeledSpan(NamedTuple):
    """Characters of a text, from `start` to before `end`."""

    start: int
    end: int
    label: str


@dataclass(slots=True)
class SpanReader:
    """Reads the spans of a file, and counts those that begin or end inside a word."""

    offsets: Offsets
    _num_spans: int = 0
    _num_cut: int = 0
    _first_cut: str = ""

    def read(self, values: Sequence[Any], text: str, where: str) -> list[LabeledSpan]:
        """Return the spans of a text, sorted, without the white space around them."""
        return sorted({self._read(value, text, where) for value in values})

    def _read(self, value: Any, text: str, where: str) -> LabeledSpan:
        first, last, label, quoted = _parse(value, where)
        start = _characters_before(first, text, self.offsets)
        end = _characters_before(last, text, self.offsets)
        remedy = f"Spans count {self.offsets} from 0, and their end is the one after"
        others = " or ".join(f"`offsets={name}`" for name in _CODECS if name != self.offsets)
        remedy = remedy if text.isascii() else f"{remedy}; if they count otherwise, say {others}"
        if start is None or end is None or start >= end:
            what = f"the span {show_value(value)} is not in the text, which has {len(text)} characters"
            raise InputError(what, where=where, remedy=remedy)
        marked = text[start:end]
        if quoted is not None and quoted.split() != marked.split():  # pages collapse white space
            what = f"the span {show_value(value)} is not where its text is; the text there is {marked[:_SHOWN]!r}"
            raise InputError(what, where=where, remedy=remedy)
        start += len(marked) - len(marked.lstrip())
        span = LabeledSpan(start, start + len(marked.strip()), label)
        self._num_spans += 1
        if quoted is None and any(_is_inside_word(text, position) for position in span[:2]):
            self._num_cut += 1
            around = text[max(0, span.start - 10) : span.end + 10]
            marked = text[span.start : span.end][:_SHOWN]
            self._first_cut = self._first_cut or f"{where}: {marked!r} in {around[: _SHOWN + 20]!r}"
        return span

    def warn(self, source: Data) -> None:
        """Warn once of spans that begin or end inside a word."""
        if self._num_cut:
            what = f"{self._num_cut:,} of {self._num_spans:,} spans begin or end inside a word"
            remedy = f"They count {self.offsets}; the task's setting offsets says what else they may count"
            warnings.warn(DataWarning(f"{source}: {what} ({self._first_cut}). {remedy}"), stacklevel=2)


def _parse(value: Any, where: str) -> tuple[int, int, str, str | None]:
    """Return start, end and label, and the text of the span where the file has it."""
    quoted = None
    if isinstance(value, Mapping):
        start, end, label = (
            next((value[name] for name in names if name in value), None)
            for names in (_STARTS, _ENDS, _LABELS)
        )
        label = label[0] if isinstance(label, list) and len(label) == 1 else label
        quoted = value.get("text")
    elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) >= 3:
        start, end, label = value[:3]
    else:
        start = end = label = None
    if not (type(start) is type(end) is int and isinstance(label, str) and label.strip()):
        remedy = 'Write [0, 3, "PER"] or {"start": 0, "end": 3, "label": "PER"}'
        raise InputError(f"{show_value(value)} is not a span with one label", where=where, remedy=remedy)
    return start, end, label.strip(), quoted if isinstance(quoted, str) else None


def _characters_before(offset: int, text: str, offsets: Offsets) -> int | None:
    """Return the number of characters before an offset; None if it is not between two of the text."""
    if offsets == "characters" or text.isascii():
        return offset if 0 <= offset <= len(text) else None
    codec, width = _CODECS[offsets]
    encoded = text.encode(codec)
    try:
        return len(encoded[: offset * width].decode(codec)) if 0 <= offset * width <= len(encoded) else None
    except UnicodeDecodeError:
        return None


def _is_inside_word(text: str, position: int) -> bool:
    """Return whether a position is between two cased letters, two digits, or a letter and its accent.

    Other scripts write words without spaces, or with prefixes that are words.
    """
    if not 0 < position < len(text):
        return False
    letters = (letter for letter in reversed(text[:position]) if not unicodedata.combining(letter))
    pair = next(letters, ""), text[position]
    is_letters = all(letter.lower() != letter.upper() for letter in pair)
    return bool(unicodedata.combining(text[position])) or is_letters or all(map(str.isdigit, pair))
