"""Sentence splitting: the rules of `sentencex` for many languages, a few corrections, or a function of the user's.

The library's rules know terminators, abbreviations and numbers. They take what stands in quotation marks for one
sentence, however long, and a mark without a partner, an apostrophe or an inch, pairs with one far away. So the rules
are shown the text without its quotation marks (`_shown`), and the marks go with the sentence that they touch.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import sentencex

from cloze.errors import InputError
from cloze.text.characters import replace_lone_surrogates
from cloze.text.splitters import Span, spans_of_function

# fmt: off
LANGUAGES = (
    "am", "ar", "bg", "bn", "ca", "da", "de", "el", "en", "es", "fi", "fr", "gu", "hi", "hy", "it",
    "ja", "kk", "kn", "ml", "mr", "my", "nl", "pa", "pl", "pt", "ru", "sk", "ta", "te", "uk", "zh",
)
# fmt: on
"""The languages whose rules and abbreviations are known; Chinese needs nothing but its full stop."""

# fmt: off
_WITHOUT_CAPITALS = frozenset(
    ("am", "ar", "bn", "gu", "hi", "ja", "kn", "ml", "mr", "my", "pa", "ta", "te", "zh")
)
# fmt: on
"""Here nothing says whether a sentence goes on after a quotation, so that the library's rules for them stand."""

_QUOTATION_MARKS = '"“”„‟«»‹›‘'
_LOOSE_APOSTROPHES: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {mark: re.compile(rf"{mark}(?:(?<!\w{mark})|(?!\w))") for mark in "'’"}
)
_BRACKETS_OF_SENTENCES: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "()": re.compile(r"\)(?<=[.!?]\))"),
        "[]": re.compile(r"\](?<=[.!?]\])"),
        "（）": re.compile(r"）(?<=[。！？]）)"),
    }
)
_WIDE_STOPS = "。！？．｡"
"""Before an East Asian letter they end a sentence in every language. The library takes time that grows with the square
of a text without spaces and line breaks."""
_PART, _LONGEST_PART = (
    500,
    20_000,
)  # characters that it is given at once; the longest where a quotation stays open
_OPENING, _CLOSING = "“‘「『（(《〈【", "”’」』）)》〉】"
_MARKS = re.compile(
    rf"(?P<opening>[{_OPENING}])|(?P<closing>[{_CLOSING}])|(?P<both>\")|[{_WIDE_STOPS}](?=[぀-ヿ㐀-鿿])"
)
_LIKE_A_NUMBER = re.compile(r"([。！？।॥؟۔])[0-9a-z]")
"""Where the library takes a terminator without a space behind it for the point of a number or a name."""
_NEVER_FIRST = frozenset(".,;:!?…)]}%，。、；：！？）")
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
"""Behind an initial the library steps one byte over a space, and falls into the middle of one that has several."""
_DASHES = "—– -"
_NO_DASH = re.compile(f"[^{_DASHES}]")
_LONGEST_NUMBER = 5
_NUMBER = re.compile(r"[(\"“]?(?:\d+|\w)\.\)?")

_WORDS: Mapping[str, str] = MappingProxyType(
    {
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
)
"""Words that the library takes for abbreviations (me. for Maine, mag. for magister) and that mostly end a sentence."""

_ABBREVIATIONS: Mapping[str, str] = MappingProxyType(
    {
        "de": "Abb Aufl Bd Ew Frl Hrn Lieut geb gest hl inkl königl",
        "en": "Bp Chas Geo Jas Jos Lieut Robt Sergt Ste Thos Wm",
        "fr": "Mgr Mme St",
    }
)
"""Abbreviations that the library does not know."""

_PRONOUN = r"(?<=[a-z] I\.)(?=\s\W*[A-Z][a-z])"  # said I. The; but I. M. Pei
_ANSWER = r"(?<=\bNo\.)(?=\s\W*(?:[A-Z][a-z]|I\b))"  # No. I think; but No. 7 and No. V
_ENDS: Mapping[str, tuple[str, ...]] = MappingProxyType({"en": (_PRONOUN, _ANSWER)})

_INITIAL = r"(?<=\b[A-ZÀ-ÖØ-ÞĄ-ŽА-ЯЁІЇЄҐ]\.)(?=\s)"  # M. Dupont
_ORDINAL = r"(?<=\b\d\.)(?=\s)|(?<=\b\d\d\.)(?=\s)"  # im 19. Jahrhundert
_GOES_ON: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "de": (_ORDINAL,),
        **dict.fromkeys(("bg", "ca", "da", "es", "fr", "kk", "pl", "pt", "ru", "sk", "uk"), (_INITIAL,)),
    }
)


def check_language(language: str) -> None:
    """Refuse a language without rules, which the library would take for English without a word.

    Raises:
        InputError: it is none of `LANGUAGES`.
    """
    if language not in LANGUAGES:
        remedy = f"Choose one of {', '.join(LANGUAGES)}"
        raise InputError(f"no sentence rules for {language!r}", where="language", remedy=remedy)


def sentence_spans(text: str, *, language: str = "en", splitter: str | None = None) -> list[Span]:
    """Return (start, end) of every sentence in characters of the text, without the white space around it.

    Spans are in order and disjoint; what they leave out is white space.

    >>> sentence_spans("Mr. Hyde came.  He left. ")
    [(0, 14), (16, 24)]

    Args:
        text: a paragraph: a line break within it ends no sentence, but a blank line does.
        language: whose rules to follow.
        splitter: "package.module:function" instead of the rules; see `cloze.text.splitters`.

    Raises:
        InputError: the language is none of `LANGUAGES`, or there is no such function.
        RunError: the function fails, or returns anything but the sentences of the text.
    """
    return _spans(replace_lone_surrogates(text), language, splitter)


def split_sentences(text: str, *, language: str = "en", splitter: str | None = None) -> list[str]:
    """Return the sentences of a text; the arguments and errors are those of `sentence_spans`.

    >>> split_sentences("“Why?” he asked. “It was late. I slept.”")
    ['“Why?” he asked.', '“It was late.', 'I slept.”']

    Differs: a lone surrogate comes out as U+FFFD.
    """
    text = replace_lone_surrogates(text)
    return [text[start:end] for start, end in _spans(text, language, splitter)]


def _spans(text: str, language: str, splitter: str | None) -> list[Span]:
    if splitter is not None:
        return spans_of_function(text, splitter)
    check_language(language)
    if not text.isascii():
        text = _WIDE_SPACE.sub(" ", text)
    shown = _shown(text, language)
    spans: list[Span] = []
    start = end = 0
    for segment in _segments(shown, language):
        stop = end + len(segment.rstrip())
        end += len(segment)
        if end == len(text):
            stop = len(text.rstrip())
        else:
            gap = text[stop:end]
            has_marks = gap != " " and gap != shown[stop:end]
            if not shown[end].isupper() and _goes_on(shown, stop, end, has_marks=has_marks):
                continue
            if has_marks:
                stop = _behind_the_marks(text, stop, end, language)
        sentence = text[start:stop].lstrip()
        if len(sentence) <= _LONGEST_NUMBER and end < len(text) and _NUMBER.fullmatch(sentence):
            continue  # the number of what follows in a list
        if sentence and spans and not any(map(str.isalnum, sentence)):
            start, _ = spans.pop()  # a dash or a mark alone is no sentence
            sentence = text[start:stop]
        if sentence:
            spans.append((stop - len(sentence), stop))
        start = stop
    return spans


def _segments(shown: str, language: str) -> Iterator[str]:
    """Yield what the library takes for sentences, with the white space behind them."""
    for part in _parts(shown) if any(stop in shown for stop in _WIDE_STOPS) else (shown,):
        yield from sentencex.segment(language, part)


def _parts(shown: str) -> Iterator[str]:
    """Cut a long text at full stops before a letter, outside of quotations and brackets where these are closed."""
    start = opened = 0
    between_equal_marks = False
    for mark in _MARKS.finditer(shown):
        if mark["opening"]:
            opened += 1
        elif mark["closing"]:
            opened = max(opened - 1, 0)
        elif mark["both"]:
            between_equal_marks = not between_equal_marks
        elif mark.end() - start >= (_LONGEST_PART if opened or between_equal_marks else _PART):
            yield shown[start : mark.end()]
            start, opened, between_equal_marks = mark.end(), 0, False
    yield shown[start:]


def _shown(text: str, language: str) -> str:
    """Return the text as the rules are to see it, character by character."""
    if language in _WITHOUT_CAPITALS:
        return _without_brackets_of_sentences(_LIKE_A_NUMBER.sub(r"\1A", text))
    shown = text
    for mark in '"' if text.isascii() else _QUOTATION_MARKS:
        shown = shown.replace(mark, " ")
    for apostrophe, where_loose in _LOOSE_APOSTROPHES.items():
        if apostrophe in shown:
            shown = where_loose.sub(" ", shown)
    shown = _without_brackets_of_sentences(shown.replace("…", "."))
    return _full_stops(language).sub(_made_plain, shown)


def _without_brackets_of_sentences(shown: str) -> str:
    """Blank the brackets around whole sentences, within which the library would see none."""
    for bracket, where_closing in _BRACKETS_OF_SENTENCES.items():
        if bracket[1] not in shown:
            continue
        characters = list(shown)
        opened: list[int] = []
        seen = 0
        for closing in where_closing.finditer(shown):
            place = closing.start()
            opened += [at for at in range(seen, place) if characters[at] == bracket[0]]
            seen = place
            if opened:
                characters[opened.pop()] = characters[place] = " "
        shown = "".join(characters)
    return shown


@functools.cache
def _full_stops(language: str) -> re.Pattern[str]:
    """What finds the full stops that the library would take wrongly. It begins with one: that is fast."""
    ends = [*_after_words(_WORDS.get(language, "").split()), *_ENDS.get(language, ())]
    goes_on = [*_after_words(_ABBREVIATIONS.get(language, "").split()), *_GOES_ON.get(language, ())]
    never = ["(?!)"]
    return re.compile(rf"\.(?:(?P<ends>{'|'.join(ends or never)})|{'|'.join(goes_on or never)})")


def _after_words(words: Sequence[str]) -> list[str]:
    lengths = sorted(set(map(len, words)))  # what looks back must know how far
    return [rf"(?<=\b(?:{'|'.join(w for w in words if len(w) == n)})\.)(?=\s)" for n in lengths]


def _made_plain(full_stop: re.Match[str]) -> str:
    """Return a mark in place of a full stop that says whether a sentence ends there."""
    return "!" if full_stop.lastgroup else ","


def _behind_the_marks(text: str, stop: int, end: int, language: str) -> int:
    """Return where a sentence ends whose terminator ends at `stop`: the marks that touch it belong to it."""
    if language == "fr":
        stop = max(stop, text.find("»", stop, end))
    while stop < end and not text[stop].isspace() and text[stop] not in "([（":
        stop += 1
    return stop


def _goes_on(shown: str, stop: int, end: int, *, has_marks: bool) -> bool:
    """Whether a sentence goes on behind a boundary of the library.

    In small letters it does, but for those behind a bare full stop: of them the library knows more.
    """
    first = shown[end]
    if first in _DASHES:
        behind = _NO_DASH.search(shown, end)
        return behind is not None and behind[0].islower()
    return first in _NEVER_FIRST or (first.islower() and (has_marks or shown[stop - 1] != "."))
