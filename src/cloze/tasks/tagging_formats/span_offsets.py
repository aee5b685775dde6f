"""Spans of texts, whose offsets count characters, UTF-16 units, bytes, or composed or decomposed letters."""

import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from cloze.data.reading.json_rows import show_value
from cloze.data.reading.memory import Source
from cloze.errors import DataWarning, InputError
from cloze.tables import format_count
from cloze.tasks.tagging_formats.settings import Offsets
from cloze.tokenization.unicode import is_chinese

_ALL: tuple[Offsets, ...] = get_args(Offsets)
_STARTS, _ENDS = ("start", "start_offset"), ("end", "end_offset")
_LABELS = ("label", "labels", "type", "entity")
_FORMS: Mapping[str, tuple[Literal["NFC", "NFD"], Literal["NFC", "NFD"]]] = {
    "composed": ("NFC", "NFD"),
    "decomposed": ("NFD", "NFC"),
}
"""The forms of Unicode that offsets count, and that texts are in."""
_SHOWN = 60


class Span(NamedTuple):
    """Characters of a text, from `start` to before `end`."""

    start: int
    end: int
    label: str


class _RawSpan(NamedTuple):
    value: Any
    start: int
    end: int
    label: str
    text: str | None
    """The text of the span, where the file has it."""


@dataclass(slots=True)
class SpanReader:
    """Reads the spans of a file, and detects what their offsets count from the texts that spans quote.

    Args:
        task: name of the task, for remedies.
        offsets: what they count; None: detected.
    """

    task: str
    offsets: Offsets | None = None
    _possible: tuple[Offsets, ...] = _ALL
    """What fits the texts of all spans before."""
    _num_converted: int = 0
    """Texts whose spans do not count characters."""
    _num_spans: int = 0
    _num_cut: int = 0
    """Spans that begin or end inside a word."""
    _first_cut: str = ""

    def read(self, values: Sequence[Any], text: str, where: str) -> list[Span]:
        """Return the spans of a text, sorted, without the white space around them.

        Raises:
            InputError: one is no span, is not in the text, or is not where its own text is.
        """
        raw = [_parse(value, where) for value in values]
        offsets = self.offsets or self._find_offsets(raw, text, where)
        placed = [_place(span, text, offsets, where, self.task) for span in raw]
        if offsets != "characters" and placed != _place_all(raw, text, "characters"):
            self._num_converted += 1
        if self.offsets is None:
            self._count_cuts(raw, placed, text, where)
        return sorted({_without_space(span, text) for span in placed})

    def _find_offsets(self, raw: Sequence[_RawSpan], text: str, where: str) -> Offsets:
        has_texts = any(span.text is not None for span in raw)
        placements: dict[Offsets, list[Span]] = {}
        for offsets in _ALL:
            if _count_alike(text, offsets):
                placed = placements.get("characters")
            elif offsets == ("newlines" if has_texts else "inclusive"):  # only where the setting says so
                placed = None
            else:
                placed = _place_all(raw, text, offsets)
            if placed is not None:
                placements[offsets] = placed
        possible = [offsets for offsets in self._possible if offsets in placements]
        if not has_texts:
            return self._offsets_without_texts(placements, possible, text, where)
        if not placements:
            return "characters"  # whose error says what is wrong
        if not possible:
            what = f"the spans count {next(iter(placements))}, those before {self._possible[0]}"
            raise InputError(what, where=where, remedy=self._remedy([next(iter(placements))]))
        chosen = possible[0]
        others = [offsets for offsets in possible if placements[offsets] != placements[chosen]]
        if others and chosen != "characters":
            what = f"the spans may count {chosen} or {others[0]}, and both fit their texts"
            raise InputError(what, where=where, remedy=self._remedy([chosen, others[0]]))
        self._possible = tuple(offsets for offsets in possible if offsets not in others)
        return chosen

    def _offsets_without_texts(
        self, placements: Mapping[Offsets, list[Span]], possible: Sequence[Offsets], text: str, where: str
    ) -> Offsets:
        """Refuse spans that cut words if they count characters, and do not if they count something else."""
        if "characters" not in self._possible:
            return self._possible[0]
        characters = placements.get("characters")
        cut = next((span for span in characters or () if _cuts_word(span, text, str.isalpha)), None)
        if characters is not None and cut is None:
            return "characters"
        better = [
            offsets
            for offsets in possible
            if placements[offsets] != characters
            and not any(_cuts_word(span, text, str.isalpha) for span in placements[offsets])
        ]
        if not better:
            return "characters"
        what = (
            "the spans are not all in the text"
            if cut is None
            else f"the span {text[cut.start : cut.end][:_SHOWN]!r} begins or ends inside a word"
        )
        what += f" if they count characters, and not if they count {better[0]}"
        choices: list[Offsets] = [better[0]] if cut is None else [better[0], "characters"]
        raise InputError(what, where=where, remedy=self._remedy(choices))

    def _remedy(self, offsets: Sequence[Offsets]) -> str:
        choices = " or ".join(f"`{self.task}.offsets={name}`" for name in offsets)
        return f"Say what they count: {choices}"

    def _count_cuts(self, raw: Sequence[_RawSpan], placed: Sequence[Span], text: str, where: str) -> None:
        self._num_spans += len(placed)
        for one, span in zip(raw, placed, strict=True):
            if one.text is None and _cuts_word(span, text):
                self._num_cut += 1
                around = text[max(0, span.start - 10) : span.end + 10]
                marked = text[span.start : span.end][:_SHOWN]
                self._first_cut = self._first_cut or f"{where}: {marked!r} in {around[: _SHOWN + 20]!r}"

    def warn(self, source: Source) -> None:
        """Warn once of spans that do not count characters, and of those that cut words.

        Raises:
            InputError: most cut words.
        """
        place = str(source)
        if self._num_converted and self.offsets is None:
            count = format_count(self._num_converted, "text")
            what = f"the spans of {count} count {self._possible[0]}, and are read so"
            warnings.warn(DataWarning(f"{place}: {what}, as their own texts tell"), stacklevel=2)
        if self._num_cut:
            what = f"{self._num_cut:,} of {self._num_spans:,} spans begin or end inside a word"
            what = f"{what} ({self._first_cut})"
            remedy = f"If that is meant, `{self.task}.offsets=characters`; other ways to count are"
            remedy = f"{remedy} {', '.join(_ALL[1:])}"
            if self._num_cut > self._num_spans / 2:
                raise InputError(what, where=place, remedy=remedy)
            warnings.warn(DataWarning(f"{place}: {what}. {remedy}"), stacklevel=2)


def _parse(value: Any, where: str) -> _RawSpan:
    named = None
    if isinstance(value, Mapping):
        start, end, label = (
            next((value[name] for name in names if name in value), None)
            for names in (_STARTS, _ENDS, _LABELS)
        )
        label = label[0] if isinstance(label, list) and len(label) == 1 else label
        named = value.get("text")
    elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) >= 3:
        start, end, label = value[:3]
    else:
        start = end = label = None
    if not (type(start) is type(end) is int and isinstance(label, str) and label.strip()):
        remedy = 'Write [0, 3, "PER"] or {"start": 0, "end": 3, "label": "PER"}'
        raise InputError(f"{show_value(value)} is not a span with one label", where=where, remedy=remedy)
    return _RawSpan(value, start, end, label.strip(), named if isinstance(named, str) else None)


def _place(span: _RawSpan, text: str, offsets: Offsets, where: str, task: str) -> Span:
    """Return the characters of a span."""
    placed = _to_characters(span, text, offsets)
    if placed is None:
        what = f"the span {show_value(span.value)} is not in the text, which has {len(text)} characters"
        remedy = "Spans count characters from 0, and their end is the one after"
        raise InputError(what, where=where, remedy=remedy)
    marked = text[placed.start : placed.end]
    if not _is_same_text(span.text, marked, offsets):
        what = f"the span {show_value(span.value)} is not where its text is; the text there is {marked[:_SHOWN]!r}"
        remedy = "Spans count characters from 0, and their end is the one after"
        if "\r\n" in text:
            remedy += rf"; if a line end \r\n counts as one, `{task}.offsets=newlines`"
        raise InputError(what, where=where, remedy=remedy)
    return placed


def _place_all(raw: Sequence[_RawSpan], text: str, offsets: Offsets) -> list[Span] | None:
    """Return the characters of spans; None if one is not in the text, or not where its own text is."""
    placed = [_to_characters(span, text, offsets) for span in raw]
    spans = [span for span in placed if span is not None]
    fit = len(spans) == len(raw) and all(
        _is_same_text(one.text, text[span.start : span.end], offsets)
        for one, span in zip(raw, spans, strict=True)
    )
    return spans if fit else None


def _to_characters(span: _RawSpan, text: str, offsets: Offsets) -> Span | None:
    if not 0 <= span.start < span.end + (offsets == "inclusive"):
        return None
    start, end = _index(span.start, text, offsets), _index(span.end, text, offsets)
    if offsets == "inclusive" and end is not None:
        end = end + 1 if end < len(text) else None
    return None if start is None or end is None else Span(start, end, span.label)


def _count_alike(text: str, offsets: Offsets) -> bool:
    """Return whether offsets of a text are those of its characters."""
    if offsets == "newlines":
        return "\r\n" not in text
    return text.isascii() and offsets not in ("characters", "inclusive")


def _index(offset: int, text: str, offsets: Offsets) -> int | None:
    """Return the number of characters before an offset; None if it is not between two of the text."""
    if offsets == "newlines":
        ends = enumerate(match.start() for match in re.finditer("\r\n", text))
        offset += sum(start - number < offset for number, start in ends)
    if offsets in ("characters", "inclusive", "newlines") or text.isascii():
        return offset if offset <= len(text) else None
    if offsets in ("utf-16", "utf-8"):
        codec, width = ("utf-16-le", 2) if offsets == "utf-16" else ("utf-8", 1)
        encoded = text.encode(codec)
        try:
            return len(encoded[: offset * width].decode(codec)) if offset * width <= len(encoded) else None
        except UnicodeDecodeError:
            return None
    counted, written = _FORMS[offsets]
    normalized = unicodedata.normalize(counted, text)
    index = len(unicodedata.normalize(written, normalized[:offset]))
    is_between = unicodedata.normalize(counted, text[:index]) == normalized[:offset]
    return index if is_between and offset <= len(normalized) else None


def _is_same_text(named: str | None, marked: str, offsets: Offsets) -> bool:
    """Return whether texts are equal but for white space, which pages collapse, and the composition of letters.

    White space around a text is the same only for characters: else it would hide that they are off by one.
    """
    if named is None or named == marked:
        return True
    one, other = (unicodedata.normalize("NFC", re.sub(r"\s+", " ", text)) for text in (named, marked))
    return one == other or (offsets == "characters" and "" != one.strip() == other.strip())


def _without_space(span: Span, text: str) -> Span:
    marked = text[span.start : span.end]
    start = span.start + len(marked) - len(marked.lstrip())
    return Span(start, start + len(marked.strip()), span.label)


def _is_cased(letter: str) -> bool:
    return letter.lower() != letter.upper()


def _cuts_word(span: Span, text: str, is_letter: Callable[[str], bool] = _is_cased) -> bool:
    """Return whether a span begins or ends between two letters, two digits, or the parts of a letter.

    By default letters are cased: other scripts write words without spaces, or with prefixes that are words.
    """
    return any(_is_inside_word(text, position, is_letter) for position in _without_space(span, text)[:2])


def _is_inside_word(text: str, position: int, is_letter: Callable[[str], bool]) -> bool:
    if not 0 < position < len(text):
        return False
    if unicodedata.combining(text[position]):
        return True
    before = position - 1
    while before and unicodedata.combining(text[before]):
        before -= 1
    pair = text[before], text[position]
    return all(map(str.isdigit, pair)) or (all(map(is_letter, pair)) and not any(map(is_chinese, pair)))
