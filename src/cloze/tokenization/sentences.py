"""Split text into sentences: the rules of `sentencex` for many languages with corrections, or a function of the user.

sentencex knows terminators, abbreviations and numbers. It takes quoted text for one sentence, however long, and pairs a
mark without a partner, an apostrophe or an inch, with one far away. So it gets the text without quotation marks
(`_mask`), and afterwards each mark is added to the sentence that it touches.

A function of the user takes a text and returns its parts in order, as strings of it or as (start, end) in characters.
It may leave out white space only: removing text is the task of cleaning, which counts what it removes.
"""

import functools
import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import sentencex

from cloze.errors import InputError, RunError
from cloze.suggestions import did_you_mean
from cloze.tokenization.unicode import replace_lone_surrogates

Span = tuple[int, int]
Splitter = Callable[[str], Iterable[Span] | Iterable[str]]

_EXCERPT_CHARACTERS = 40

# fmt: off
LANGUAGES = (
    "am", "ar", "bg", "bn", "ca", "da", "de", "el", "en", "es", "fi", "fr", "gu", "hi", "hy", "it",
    "ja", "kk", "kn", "ml", "mr", "my", "nl", "pa", "pl", "pt", "ru", "sk", "ta", "te", "uk", "zh",
)
# fmt: on
"""Languages with rules and abbreviations; Chinese needs only its full stop."""

# fmt: off
_WITHOUT_CAPITALS = frozenset(
    ("am", "ar", "bn", "gu", "hi", "ja", "kn", "ml", "mr", "my", "pa", "ta", "te", "zh")
)
# fmt: on
"""Without capitals one cannot tell whether a sentence continues after a quotation, so the rules of sentencex stay."""

_QUOTATION_MARKS = '"“”„‟«»‹›‘'
_LOOSE_APOSTROPHES = {mark: re.compile(rf"{mark}(?:(?<!\w{mark})|(?!\w))") for mark in "'’"}
_BRACKETS_OF_SENTENCES: Mapping[str, re.Pattern[str]] = {
    "()": re.compile(r"\)(?<=[.!?]\))"),
    "[]": re.compile(r"\](?<=[.!?]\])"),
    "（）": re.compile(r"）(?<=[。！？]）)"),
}
_WIDE_STOPS = "。！？．｡"
"""They end a sentence before an East Asian letter in every language."""
_PART_CHARACTERS, _MAX_PART_CHARACTERS = 500, 20_000
"""Characters per call of sentencex, whose time is quadratic in the length of a text without spaces; the maximum applies
if a quotation is not closed."""
_OPENING, _CLOSING = "“‘「『（(《〈【", "”’」』）)》〉】"
_MARKS = re.compile(
    rf"(?P<opening>[{_OPENING}])|(?P<closing>[{_CLOSING}])|(?P<both>\")|[{_WIDE_STOPS}](?=[぀-ヿ㐀-鿿])"
)
_LIKE_A_NUMBER = re.compile(r"([。！？।॥؟۔])[0-9a-z]")
"""Text where sentencex mistakes a terminator without a space for the point of a number or a name."""
_NEVER_FIRST = frozenset(".,;:!?…)]}%，。、；：！？）")
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
"""After an initial, sentencex skips one byte for a space, which splits a space of several bytes."""
_DASHES = "—– -"
_NO_DASH = re.compile(f"[^{_DASHES}]")
_MAX_NUMBER_CHARACTERS = 5
_NUMBER = re.compile(r"[(\"“]?(?:\d+|\w)\.\)?")

_WORDS: Mapping[str, str] = {
    "ca": "contra mar no",
    "da": "port rest sort",
    "de": "Art Bart art mag mich",
    "en": "May arc ark art fed ill may me miss no ore pa",
    "es": "bien contra mar no",
    "it": "fa ha mai me no sai so te va via",
    "nl": "best hand me",
    "ru": "муж",
    "uk": "вид",
}
"""Words that are abbreviations for sentencex (me. for Maine, mag. for magister) but usually end a sentence."""

_ABBREVIATIONS: Mapping[str, str] = {
    "de": "Abb Aufl Bd Ew Frl Hrn Lieut geb gest hl inkl königl",
    "en": "Bp Chas Geo Jas Jos Lieut Robt Sergt Ste Thos Wm",
    "fr": "Mgr Mme St",
}
"""Abbreviations that sentencex does not know."""

_PRONOUN = r"(?<=[a-z] I\.)(?=\s\W*[A-Z][a-z])"  # said I. The; but I. M. Pei
_ANSWER = r"(?<=\bNo\.)(?=\s\W*(?:[A-Z][a-z]|I\b))"  # No. I think; but No. 7 and No. V
_ENDS: Mapping[str, tuple[str, ...]] = {"en": (_PRONOUN, _ANSWER)}

_INITIAL = r"(?<=\b[A-ZÀ-ÖØ-ÞĄ-ŽА-ЯЁІЇЄҐ]\.)(?=\s)"  # M. Dupont
_ORDINAL = r"(?<=\b\d\.)(?=\s)|(?<=\b\d\d\.)(?=\s)"  # im 19. Jahrhundert
_NO_ENDS: Mapping[str, tuple[str, ...]] = {
    "de": (_ORDINAL,),
    **dict.fromkeys(("bg", "ca", "da", "es", "fr", "kk", "pl", "pt", "ru", "sk", "uk"), (_INITIAL,)),
}


def check_language(language: str) -> None:
    """Refuse a language without rules, for which sentencex would silently use English."""
    if language not in LANGUAGES:
        remedy = did_you_mean(language, LANGUAGES)
        raise InputError(f"no sentence rules for {language!r}", where="language", remedy=remedy)


def sentence_spans(text: str, *, language: str = "en", splitter: str | None = None) -> list[Span]:
    """Return (start, end) of each sentence in characters, without the white space around it.

    Spans are in order and disjoint. Only white space is outside of them.

    >>> sentence_spans("Mr. Hyde came.  He left. ")
    [(0, 14), (16, 24)]

    Args:
        text: a paragraph; a blank line ends a sentence, a line break does not.
        splitter: a function "package.module:function" instead of the rules.
    """
    text = replace_lone_surrogates(text)
    if splitter is not None:
        return split_with_function(text, splitter)
    check_language(language)
    if not text.isascii():
        text = _WIDE_SPACE.sub(" ", text)
    masked = _mask(text, language)
    spans: list[Span] = []
    start = end = 0
    for segment in _segments(masked, language):
        stop = end + len(segment.rstrip())
        end += len(segment)
        if end == len(text):
            stop = len(text.rstrip())
        else:
            gap = text[stop:end]
            has_marks = gap != " " and gap != masked[stop:end]
            if not masked[end].isupper() and _continues(masked, stop, end, has_marks=has_marks):
                continue
            if has_marks:  # marks that touch the terminator belong to the sentence
                if language == "fr":
                    stop = max(stop, text.find("»", stop, end))
                while stop < end and not text[stop].isspace() and text[stop] not in "([（":
                    stop += 1
        stop = start + len(text[start:stop].rstrip())  # a blank segment leaves the space before it
        sentence = text[start:stop].lstrip()
        if len(sentence) <= _MAX_NUMBER_CHARACTERS and end < len(text) and _NUMBER.fullmatch(sentence):
            continue  # the number of a list item
        if sentence and spans and not any(map(str.isalnum, sentence)):
            start, _ = spans.pop()  # a dash or a mark alone belongs to the sentence before it
            sentence = text[start:stop]
        if sentence:
            spans.append((stop - len(sentence), stop))
        start = stop
    return spans


def split_sentences(text: str, *, language: str = "en", splitter: str | None = None) -> list[str]:
    """Return the sentences of a text; arguments as for `sentence_spans`.

    >>> split_sentences("“Why?” he asked. “It was late. I slept.”")
    ['“Why?” he asked.', '“It was late.', 'I slept.”']

    Differs: lone surrogates become U+FFFD.
    """
    text = replace_lone_surrogates(text)
    return [text[start:end] for start, end in sentence_spans(text, language=language, splitter=splitter)]


def _segments(masked: str, language: str) -> Iterator[str]:
    """Yield the sentences of sentencex with the white space after them; they add up to the text.

    sentencex leaves out a blank line about every 10,000 characters. What it leaves out is a segment of its own, and a
    sentence that is not where the last one ended goes with the next.
    """
    position = 0
    for part in _parts(masked) if any(stop in masked for stop in _WIDE_STOPS) else (masked,):
        for segment in sentencex.segment(language, part):
            start = masked.find(segment, position)
            if start < 0 or masked[position:start].strip():
                continue
            if start > position:
                yield masked[position:start]
            yield segment
            position = start + len(segment)
    if position < len(masked):
        yield masked[position:]


def _parts(masked: str) -> Iterator[str]:
    """Split a long text at full stops before a letter, outside of closed quotations and brackets."""
    start = opened = 0
    between_equal_marks = False
    for mark in _MARKS.finditer(masked):
        if mark["opening"]:
            opened += 1
        elif mark["closing"]:
            opened = max(opened - 1, 0)
        elif mark["both"]:
            between_equal_marks = not between_equal_marks
        else:
            is_quoted = opened or between_equal_marks
            if mark.end() - start >= (_MAX_PART_CHARACTERS if is_quoted else _PART_CHARACTERS):
                yield masked[start : mark.end()]
                start, opened, between_equal_marks = mark.end(), 0, False
    yield masked[start:]


def _mask(text: str, language: str) -> str:
    """Replace what misleads sentencex, character by character."""
    if language in _WITHOUT_CAPITALS:
        return _mask_brackets(_LIKE_A_NUMBER.sub(r"\1A", text))
    masked = text
    for mark in '"' if text.isascii() else _QUOTATION_MARKS:
        masked = masked.replace(mark, " ")
    for apostrophe, loose_apostrophe in _LOOSE_APOSTROPHES.items():
        if apostrophe in masked:
            masked = loose_apostrophe.sub(" ", masked)
    masked = _mask_brackets(masked.replace("…", "."))
    # "!" always ends a sentence, "," never does
    return _full_stops(language).sub(lambda match: "!" if match.lastgroup else ",", masked)


def _mask_brackets(masked: str) -> str:
    """Blank the brackets around whole sentences, because sentencex does not split text in brackets."""
    for bracket, closing_bracket in _BRACKETS_OF_SENTENCES.items():
        if bracket[1] not in masked:
            continue
        characters = list(masked)
        opened: list[int] = []
        scanned = 0
        for match in closing_bracket.finditer(masked):
            closing = match.start()
            opened += [index for index in range(scanned, closing) if characters[index] == bracket[0]]
            scanned = closing
            if opened:
                characters[opened.pop()] = characters[closing] = " "
        masked = "".join(characters)
    return masked


@functools.cache
def _full_stops(language: str) -> re.Pattern[str]:
    """Return a pattern of full stops that sentencex gets wrong; it starts with the full stop, which is fast."""
    ends = [*_after_words(_WORDS.get(language, "").split()), *_ENDS.get(language, ())]
    no_ends = [*_after_words(_ABBREVIATIONS.get(language, "").split()), *_NO_ENDS.get(language, ())]
    never = ["(?!)"]
    return re.compile(rf"\.(?:(?P<ends>{'|'.join(ends or never)})|{'|'.join(no_ends or never)})")


def _after_words(words: Sequence[str]) -> list[str]:
    lengths = sorted(set(map(len, words)))  # a lookbehind has a fixed length
    return [rf"(?<=\b(?:{'|'.join(w for w in words if len(w) == n)})\.)(?=\s)" for n in lengths]


def _continues(masked: str, stop: int, end: int, *, has_marks: bool) -> bool:
    """Return whether a sentence continues after a boundary of sentencex.

    It continues with a lower-case letter, except after a bare full stop, about which sentencex knows more.
    """
    first = masked[end]
    if first in _DASHES:
        after_dash = _NO_DASH.search(masked, end)
        return after_dash is not None and after_dash[0].islower()
    return first in _NEVER_FIRST or (first.islower() and (has_marks or masked[stop - 1] != "."))


@functools.cache
def load_splitter(name: str, where: str = "splitter") -> Splitter:
    """Import a function by its name "package.module:function", also from the current directory."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        what, remedy = f"{name}: not the name of a function", "Give package.module:function"
        raise InputError(what, where=where, remedy=remedy)
    path = sys.path.copy()
    sys.path.insert(0, os.getcwd())
    try:
        function: Splitter = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:  # the user's code may raise anything on import
        raise InputError(f"{name}: {type(error).__name__}: {error}", where=where) from error
    finally:
        sys.path[:] = path
    if not callable(function):
        raise InputError(f"{name}: {function_name} is not a function", where=where)
    return function


def hash_splitter(name: str, where: str = "splitter") -> str | None:
    """Return a hash of the source file of the function, or None without one."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(load_splitter(name, where)))
    except TypeError:  # a built-in function, or a callable object
        file = None
    return None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]


def split_with_function(text: str, name: str, where: str = "splitter") -> list[Span]:
    """Return the sentences or words that the user's function finds, without the white space around them."""
    function = load_splitter(name, where)
    unit = "sentence" if where == "splitter" else "word"
    spans: list[Span] = []
    position = 0
    try:
        for sentence in (*function(text), (len(text), len(text))):
            start, end = _find(sentence, text, position)
            if skipped := text[position:start].strip():
                raise ValueError(f"{skipped[:_EXCERPT_CHARACTERS]!r} is in no {unit}")
            if stripped := text[start:end].strip():
                first = text.index(stripped, start)
                spans.append((first, first + len(stripped)))
            position = end
    except Exception as error:
        what = f"{name}: {type(error).__name__}: {error}, with the text {text[:_EXCERPT_CHARACTERS]!r}"
        remedy = f"It takes a text and returns all its {unit}s in order, as strings or as (start, end)"
        raise RunError(what, where=where, remedy=remedy) from error
    return spans


def _find(sentence: str | Span, text: str, position: int) -> Span:
    """Return the span of a sentence at or after a position."""
    if isinstance(sentence, str):
        start = text.find(sentence, position)
        if start < 0:
            what = f"{sentence[:_EXCERPT_CHARACTERS]!r} is not in the text after character {position}"
            raise ValueError(what)
        return start, start + len(sentence)
    start, end = int(sentence[0]), int(sentence[1])
    if not position <= start <= end <= len(text):
        raise ValueError(f"({start}, {end}) is not between {position} and {len(text)}")
    return start, end
