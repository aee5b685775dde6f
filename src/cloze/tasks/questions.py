"""Questions on paragraphs: their reader, and a paragraph's tokens with the mapping between tokens and characters.

Shapes: P tokens of the paragraph, L tokens of a sequence.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.data.reading.columns import Column
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.source import ReadOptions
from cloze.data.reading.squad import Excerpt
from cloze.data.reading.tables import Row
from cloze.tasks.texts import ID, GoldAnswers, RowReader
from cloze.tokenization.google_tokenizer import GoogleTokenizer, split_words
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.unicode import replace_lone_surrogates

Integers = npt.NDArray[np.int32]

_WORD = re.compile("[^ \t\r\n\u202f]+")  # the white space of Google's reader, not of its tokenizer


@dataclass(frozen=True, eq=False, slots=True)
class OffsetContext:
    """The tokens of a paragraph, [P], with character offsets: from `starts`, [P], to `ends`, [P]."""

    text: str
    input_ids: Integers
    starts: Integers
    ends: Integers

    @classmethod
    def create(cls, text: str, tokenizer: Tokenizer) -> Self:
        """Tokenize a paragraph."""
        encoding = tokenizer.encode(text)
        starts, ends = np.array(encoding.offsets[1:-1], np.int32).reshape(-1, 2).T
        return cls(text, np.array(encoding.input_ids[1:-1], np.int32), starts, ends)

    def token_span(self, answer: Excerpt) -> tuple[int, int]:
        """Return the first and the last token of an answer; the last is before the first if it has no token."""
        first = np.searchsorted(self.ends, answer.start, side="right")
        last = np.searchsorted(self.starts, answer.end, side="left") - 1
        return int(first), int(last)

    def excerpt(self, first: int, last: int) -> Excerpt:
        """Return the characters of the tokens, with accents that were stripped from the last one."""
        start, end = int(self.starts[first]), int(self.ends[last])
        while end < len(self.text) and unicodedata.category(self.text[end]) == "Mn":
            end += 1
        return Excerpt(self.text[start:end], start, end)


@dataclass(frozen=True, eq=False, slots=True)
class GoogleContext:
    """The tokens of a paragraph, [P], with the index of their word. An answer is searched for in the text of its words.

    Source: google-research/bert run_squad.py:227, 396, 927 @eedf571.
    """

    text: str
    input_ids: Integers
    words: tuple[tuple[int, int], ...]
    """First character of each word and the one after its last."""
    word_of_token: Integers
    tokenizer: GoogleTokenizer

    @classmethod
    def create(cls, text: str, tokenizer: Tokenizer) -> Self:
        """Tokenize each word of a paragraph."""
        words = tuple(match.span() for match in _WORD.finditer(text))
        ids = [tokenizer.google_tokenizer.ids(text[start:end]) for start, end in words]
        word_of_token = np.repeat(np.arange(len(words), dtype=np.int32), list(map(len, ids)))
        input_ids = np.array(list(chain.from_iterable(ids)), np.int32)
        return cls(text, input_ids, words, word_of_token, tokenizer.google_tokenizer)

    def token_span(self, answer: Excerpt) -> tuple[int, int]:
        """Return the tokens of the answer's words, narrowed to those that equal the tokenized answer if any do."""
        starts = [start for start, _ in self.words]
        first_word = bisect_right(starts, answer.start) - 1
        last_word = bisect_left(starts, answer.end) - 1
        first = int(np.searchsorted(self.word_of_token, first_word))
        last = int(np.searchsorted(self.word_of_token, last_word + 1)) - 1
        answer_ids = self.tokenizer.ids(answer.text)
        ids = self.input_ids[first : last + 1].tolist()
        for start in range(len(ids)):
            for end in range(len(ids), start, -1):
                if ids[start:end] == answer_ids:
                    return first + start, first + end - 1
        return first, last

    def excerpt(self, first: int, last: int) -> Excerpt:
        """Return the part of the words, joined by spaces, that reads as the tokens do, else all of them."""
        words = self.words[self.word_of_token[first] : self.word_of_token[last] + 1]
        joined = " ".join(self.text[start:end] for start, end in words)
        # a space has the position after its word
        position = [i for start, end in words for i in range(start, end + 1)]
        tokens = [self.tokenizer.tokens[i] for i in self.input_ids[first : last + 1]]
        detokenized = " ".join(" ".join(tokens).replace(" ##", "").replace("##", "").split())
        start, end = _find(detokenized, joined, self.tokenizer)
        return Excerpt(joined[start:end], position[start], position[end - 1] + 1)


Context: TypeAlias = OffsetContext | GoogleContext


def _find(detokenized: str, text: str, tokenizer: GoogleTokenizer) -> tuple[int, int]:
    """Return the characters of a text that read as `detokenized`; the whole text if they cannot be aligned."""
    words = split_words(text, lowercase=tokenizer.lowercase, strip_accents=tokenizer.strip_accents)
    tokenized = " ".join(words)
    start = tokenized.find(detokenized)
    text_positions = [i for i, character in enumerate(text) if character != " "]
    tokenized_positions = [i for i, character in enumerate(tokenized) if character != " "]
    if start == -1 or not detokenized or len(text_positions) != len(tokenized_positions):
        return 0, len(text)
    first = bisect_left(tokenized_positions, start)
    last = bisect_left(tokenized_positions, start + len(detokenized) - 1)
    return text_positions[first], text_positions[last] + 1


@dataclass(frozen=True, eq=False, slots=True)
class SpanFeature:
    """`[CLS] question [SEP] window [SEP]`, and the answer's tokens."""

    input_ids: Integers
    token_type_ids: npt.NDArray[np.int8]
    context: Context
    window: slice
    """Tokens of the paragraph."""
    target: tuple[int, int]
    """First and last token of an answer; [CLS], 0, if none is wholly in the window."""
    is_truncated: bool
    """Whether the question was truncated."""

    @property
    def num_tokens(self) -> int:
        """L."""
        return len(self.input_ids)

    @property
    def first_token(self) -> int:
        """Index of the window's first token in the sequence."""
        window_length: int = self.window.stop - self.window.start
        return self.num_tokens - window_length - 1


@dataclass(eq=False, slots=True)
class Paragraph:
    """A text, tokenized once for all of its questions."""

    text: str
    _context: tuple[Tokenizer, bool, Context] | None = field(default=None, init=False, repr=False)

    def context(self, tokenizer: Tokenizer, *, original: bool) -> Context:
        """Return the tokens; `original` is Google's method."""
        if self._context is None or self._context[0] is not tokenizer or self._context[1] is not original:
            kind = GoogleContext if original else OffsetContext
            self._context = tokenizer, original, kind.create(self.text, tokenizer)
        return self._context[2]


@dataclass(frozen=True, slots=True)
class SpanQuestion:
    """An example: a question on a paragraph, and its answers where they are known."""

    id: str
    question: str
    paragraph: Paragraph
    answers: tuple[Excerpt, ...] = ()
    """Accepted answers; empty if the paragraph has no answer."""
    where: str = "question"
    """File and place in it."""


Questions: TypeAlias = Sequence[SpanQuestion]


@dataclass(frozen=True, kw_only=True)
class QuestionReader(RowReader[SpanQuestion]):
    """A question with its paragraph a row, or SQuAD's file."""

    def __post_init__(self) -> None:
        if self.clean is not None:
            raise ValueError("clean would move the characters that answers count")

    def columns(self) -> tuple[Column, ...]:
        return Column("question"), Column("context"), ID

    def options(self, answer: GoldAnswers, *, labeled: bool) -> ReadOptions:
        return replace(super().options(answer, labeled=labeled), reader="questions")

    def example(self, row: Row, gold: Any) -> SpanQuestion:
        """Return the question of a row, and its answers; without an id it has its place."""
        question, context = (replace_lone_surrogates(row.required(key)) for key in ("question", "context"))
        identifier = as_text(row.cells.get("id")) or row.where
        return SpanQuestion(identifier, question, _paragraph(context), gold or (), row.where)

    def group(self, example: SpanQuestion) -> Hashable:
        return example.paragraph.text

    def key(self, example: SpanQuestion) -> Hashable:
        return example.question, example.paragraph.text


@lru_cache(maxsize=1)
def _paragraph(text: str) -> Paragraph:
    """Return the paragraph of a text, which consecutive questions share, so that it is tokenized once."""
    return Paragraph(text)
