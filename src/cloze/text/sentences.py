"""Sentence splitting, by the rules of `sentencex`. A lone surrogate comes out as U+FFFD."""

import sentencex

from cloze.errors import InputError
from cloze.text.characters import replace_lone_surrogates

# fmt: off
LANGUAGES = (
    "am", "ar", "bg", "bn", "ca", "da", "de", "el", "en", "es", "fi", "fr", "gu", "hi", "hy", "it",
    "ja", "kk", "kn", "ml", "mr", "my", "nl", "pa", "pl", "pt", "ru", "sk", "ta", "te", "uk", "zh",
)
# fmt: on
"""The languages whose rules and abbreviations are known; Chinese needs nothing but its full stop."""


def check_language(language: str) -> None:
    """Refuse a language without rules, which the library would take for English without a word.

    Raises:
        InputError: it is none of `LANGUAGES`.
    """
    if language not in LANGUAGES:
        remedy = f"Choose one of {', '.join(LANGUAGES)}"
        raise InputError(f"no sentence rules for {language!r}", where="language", remedy=remedy)


def sentence_spans(text: str, *, language: str = "en") -> list[tuple[int, int]]:
    """Return (start, end) of every sentence in characters of the text, without the white space around it.

    >>> sentence_spans("Mr. Hyde came.  He left. ")
    [(0, 14), (16, 24)]

    Raises:
        InputError: the language is none of `LANGUAGES`.
    """
    check_language(language)
    spans = []
    start = 0
    for segment in sentencex.segment(language, replace_lone_surrogates(text)):
        sentence = segment.strip()
        if sentence:
            first = start + segment.index(sentence)
            spans.append((first, first + len(sentence)))
        start += len(segment)
    return spans


def split_sentences(text: str, *, language: str = "en") -> list[str]:
    """Return the sentences of a text.

    >>> split_sentences("Mr. Hyde came.  He left. ")
    ['Mr. Hyde came.', 'He left.']

    Raises:
        InputError: the language is none of `LANGUAGES`.
    """
    check_language(language)
    segments = map(str.strip, sentencex.segment(language, replace_lone_surrogates(text)))
    return [sentence for sentence in segments if sentence]
