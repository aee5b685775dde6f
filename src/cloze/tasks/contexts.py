"""A text that questions are asked about: from characters to pieces, and from pieces back to characters.

There are two ways. By offsets, where every piece knows the characters it was made of; and Google's, which does
not know them and looks for the pieces of an answer in the text of the words around them.
"""

import re
import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cloze.text.reference import ReferenceTokenizer, split_words
from cloze.text.tokenizer import Tokenizer

Integers = npt.NDArray[np.int32]

_WORD = re.compile("[^ \t\r\n\u202f]+")  # the white space of Google's reader, not of its tokenizer


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some characters of a text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, eq=False, slots=True)
class Context(ABC):
    """The pieces of a text, [P]."""

    text: str
    input_ids: Integers

    @abstractmethod
    def pieces_of(self, answer: Excerpt) -> tuple[int, int]:
        """Return the first and the last piece of an answer; they are the wrong way round where it has none."""

    @abstractmethod
    def excerpt(self, first: int, last: int) -> Excerpt:
        """Return what stands in the text from one piece to another."""


@dataclass(frozen=True, eq=False, slots=True)
class OffsetContext(Context):
    """A text whose pieces know the characters they were made of: from `starts`, [P], to `ends`, [P]."""

    starts: Integers
    ends: Integers

    def pieces_of(self, answer: Excerpt) -> tuple[int, int]:
        """Return the pieces that have a character of the answer."""
        first = np.searchsorted(self.ends, answer.start, side="right")
        last = np.searchsorted(self.starts, answer.end, side="left") - 1
        return int(first), int(last)

    def excerpt(self, first: int, last: int) -> Excerpt:
        """Return the characters of the pieces, and accents that were taken off the last one."""
        start, end = int(self.starts[first]), int(self.ends[last])
        while end < len(self.text) and unicodedata.category(self.text[end]) == "Mn":
            end += 1
        return Excerpt(self.text[start:end], start, end)


@dataclass(frozen=True, eq=False, slots=True)
class GoogleContext(Context):
    """A text whose pieces know the word they were made of.

    Source: google-research/bert run_squad.py:227, 396, 927 @eedf571.
    """

    words: tuple[tuple[int, int], ...]
    """The first character of each word, and the one after its last."""
    word_of_piece: Integers
    tokenizer: ReferenceTokenizer

    def pieces_of(self, answer: Excerpt) -> tuple[int, int]:
        """Return all pieces of the answer's words, but only those that read as the answer does where some do."""
        starts = [start for start, _ in self.words]
        first_word = bisect_right(starts, answer.start) - 1
        last_word = bisect_left(starts, answer.end) - 1
        first = int(np.searchsorted(self.word_of_piece, first_word))
        last = int(np.searchsorted(self.word_of_piece, last_word + 1)) - 1
        wanted = self.tokenizer.ids(answer.text)
        ids = self.input_ids[first : last + 1].tolist()
        for start in range(len(ids)):
            for end in range(len(ids), start, -1):
                if ids[start:end] == wanted:
                    return first + start, first + end - 1
        return first, last

    def excerpt(self, first: int, last: int) -> Excerpt:
        """Return the part of the words, one space apart, that reads as the pieces do, else all of them."""
        words = self.words[self.word_of_piece[first] : self.word_of_piece[last] + 1]
        joined = " ".join(self.text[start:end] for start, end in words)
        place = [i for start, end in words for i in range(start, end + 1)]  # a space's: after its word
        pieces = [self.tokenizer.pieces[i] for i in self.input_ids[first : last + 1]]
        read = " ".join(" ".join(pieces).replace(" ##", "").replace("##", "").split())
        start, end = _find(read, joined, lowercase=self.tokenizer.lowercase)
        return Excerpt(joined[start:end], place[start], place[end - 1] + 1)


def _find(read: str, text: str, *, lowercase: bool) -> tuple[int, int]:
    """Return where a text, once tokenized, reads as `read`; all of it where that cannot be told."""
    tokenized = " ".join(split_words(text, lowercase=lowercase))
    start = tokenized.find(read)
    not_spaces = [i for i, character in enumerate(text) if character != " "]
    tokenized_not_spaces = [i for i, character in enumerate(tokenized) if character != " "]
    if start == -1 or not read or len(not_spaces) != len(tokenized_not_spaces):
        return 0, len(text)
    first = bisect_left(tokenized_not_spaces, start)
    last = bisect_left(tokenized_not_spaces, start + len(read) - 1)
    return not_spaces[first], not_spaces[last] + 1


@dataclass(eq=False, slots=True)
class Paragraph:
    """A text, tokenized once for all the questions on it."""

    text: str
    _context: tuple[Tokenizer, bool, Context] | None = field(default=None, init=False, repr=False)

    def context(self, tokenizer: Tokenizer, *, original: bool) -> Context:
        """Return its pieces; `original` is Google's way."""
        if self._context is None or self._context[0] is not tokenizer or self._context[1] is not original:
            context = (
                _tokenize_words(self.text, tokenizer.reference)
                if original
                else _tokenize(self.text, tokenizer)
            )
            self._context = tokenizer, original, context
        return self._context[2]


def _tokenize(text: str, tokenizer: Tokenizer) -> OffsetContext:
    encoding = tokenizer.encode(text)
    offsets = np.array(encoding.offsets[1:-1], np.int32).reshape(-1, 2)
    return OffsetContext(text, np.array(encoding.input_ids[1:-1], np.int32), offsets[:, 0], offsets[:, 1])


def _tokenize_words(text: str, tokenizer: ReferenceTokenizer) -> GoogleContext:
    words = tuple(match.span() for match in _WORD.finditer(text))
    ids_of_word = [tokenizer.ids(text[start:end]) for start, end in words]
    return GoogleContext(
        text,
        np.array([i for ids in ids_of_word for i in ids], np.int32),
        words,
        np.repeat(np.arange(len(words), dtype=np.int32), [len(ids) for ids in ids_of_word]),
        tokenizer,
    )
