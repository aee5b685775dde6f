"""From running text to sentences of words, as the makers of tagged data cut it."""

import unicodedata
from collections.abc import Iterator

from cloze.tasks.conll import Sentence
from cloze.text.reference import is_chinese
from cloze.text.sentences import sentence_spans

Span = tuple[int, int]

_CLITICS = ("'s", "’s")
_BEFORE_NAMES = "@#"  # of people and topics: with their name they are one word


def read_text(text: str, *, language: str = "en") -> tuple[Sentence, ...]:
    """Cut a text into sentences and these into words, which know their characters in the text.

    >>> [sentence.words for sentence in read_text("Is it J. Smith (of the U.S.)? It's me.")]
    [('Is', 'it', 'J.', 'Smith', '(', 'of', 'the', 'U.S.', ')', '?'), ('It', "'s", 'me', '.')]
    """
    sentences = []
    for start, end in sentence_spans(text, language=language):
        spans = [(start + first, start + last) for first, last in word_spans(text[start:end])]
        words = tuple(text[first:last] for first, last in spans)
        if words:
            sentences.append(Sentence(words, offsets=tuple(spans)))
    return tuple(sentences)


def word_spans(text: str) -> Iterator[Span]:
    """Yield the first character of each word and the one after its last.

    Words end at white space; Chinese characters are words, and so are the punctuation marks and symbols around a word,
    but not those within ("10,000", "well-known") and not the full stop of an abbreviation.
    """
    start = None
    for i, character in enumerate([*text, " "]):
        stands_alone = is_chinese(character)
        if start is not None and (character.isspace() or stands_alone):
            yield from _without_marks(text, start, i)
            start = None
        if stands_alone:
            yield i, i + 1
        elif start is None and not character.isspace():
            start = i


def _without_marks(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield a word between white space, and the marks around it."""
    while start < end and _is_mark(text[start]):
        if text[start] in _BEFORE_NAMES and end - start > 1 and not _is_mark(text[start + 1]):
            break
        yield start, start + 1
        start += 1
    last = end
    while last - start > 1 and _is_mark(text[last - 1]):
        if text[last - 1] == "." and _is_abbreviation(text[start : last - 1]):
            break
        last -= 1
    if text[start:last].lower().endswith(_CLITICS) and last - start > 2:
        yield start, last - 2
        yield last - 2, last
    elif start < last:
        yield start, last
    yield from ((i, i + 1) for i in range(last, end))


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _is_abbreviation(word: str) -> bool:
    """Whether the full stop after it belongs to it: an initial, or letters with full stops."""
    return word[-1].isalpha() and (len(word) == 1 or word[-2] == ".")
