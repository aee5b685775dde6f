"""Split text into words and punctuation marks, as annotators do."""

import unicodedata
from collections.abc import Iterator

from cloze.tokenization.unicode import is_chinese

_CLITICS = ("'s", "’s")
_NAME_PREFIXES = "@#"  # part of the name of a person or a topic


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first character of each word and the one after its last.

    Words end at white space. Chinese characters are words, and so are punctuation marks and symbols around a word, but
    not those within ("10,000", "well-known") and not the period of an abbreviation.

    >>> text = "(#bert, by @ada, # 1)"
    >>> [text[start:end] for start, end in word_spans(text)]
    ['(', '#bert', ',', 'by', '@ada', ',', '#', '1', ')']
    """
    start = None
    for i, character in enumerate([*text, " "]):
        is_word = is_chinese(character)
        if start is not None and (character.isspace() or is_word):
            yield from _split_punctuation(text, start, i)
            start = None
        if is_word:
            yield i, i + 1
        elif start is None and not character.isspace():
            start = i


def _split_punctuation(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a word and the punctuation around it."""
    while start < end and _is_punctuation(text[start]):
        if text[start] in _NAME_PREFIXES and end - start > 1 and not _is_punctuation(text[start + 1]):
            break
        yield start, start + 1
        start += 1
    last = end
    while last - start > 1 and _is_punctuation(text[last - 1]):
        word = text[start : last - 1]
        # the period of an initial, or of letters with periods
        if text[last - 1] == "." and word[-1].isalpha() and (len(word) == 1 or word[-2] == "."):
            break
        last -= 1
    if text[start:last].lower().endswith(_CLITICS) and last - start > 2:
        yield start, last - 2
        yield last - 2, last
    elif start < last:
        yield start, last
    yield from ((i, i + 1) for i in range(last, end))


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"
