"""Tokenize many texts: split them into words with numpy on bytes, and tokenize each distinct word once.

A word here is a string that the tokenizer treats independently of its context: an ASCII punctuation mark, a Chinese
character, or the characters between two of these or spaces. BERT's cleaning keeps spaces as boundaries, and no later
step looks across a boundary. Text has few distinct words.

Shapes: N bytes, W words.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import tokenizers

from cloze.tokenization.unicode import replace_lone_surrogates

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

BATCH_CHARACTERS = 1 << 21
"""Characters to process at once; bounds the memory of a call."""

_IS_SPACE = np.isin(np.arange(256), list(b" \t\n\r"))
_IS_MARK = np.isin(np.arange(256), list(b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))
_IS_INNER = ~(_IS_SPACE | _IS_MARK)


def batch_texts(texts: Iterable[str], max_characters: int = BATCH_CHARACTERS) -> Iterator[list[str]]:
    """Group texts into lists of about so many characters; a longer text is in a list of its own."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if characters >= max_characters:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


class WordIndex:
    """Numbers distinct words, from 0 in order of occurrence; Chinese characters are words if `split_chinese`."""

    def __init__(self, *, split_chinese: bool) -> None:
        self._split_chinese = split_chinese
        self._numbers: dict[str, int] = {}
        self.words: list[str] = []
        """By number."""

    def number(self, texts: Sequence[str]) -> tuple[Integers, Integers]:
        """Return the number of every word [W], and the end of each text among them; lone surrogates are U+FFFD."""
        import pyarrow as pa  # one text does not need it

        try:
            encoded = [text.encode() for text in texts]
        except UnicodeEncodeError:
            encoded = [replace_lone_surrogates(text).encode() for text in texts]
        raw = np.frombuffer(b"\n".join(encoded), np.uint8)
        starts, lengths = _split_words(raw, split_chinese=self._split_chinese)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw[~_IS_SPACE[raw]])]
        words = pa.Array.from_buffers(pa.large_string(), len(lengths), buffers).dictionary_encode()
        distinct = []
        for word in words.dictionary.to_pylist():
            number = self._numbers.get(word)
            if number is None:
                number = self._numbers[word] = len(self.words)
                self.words.append(word)
            distinct.append(number)
        # `to_numpy` imports pandas where it is installed, which takes up to seconds
        numbers = np.array(distinct, np.int64)[np.from_dlpack(words.indices)]
        text_ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1) - 1
        return numbers, np.searchsorted(starts, text_ends)


def _split_words(text: Bytes, *, split_chinese: bool) -> tuple[Integers, Integers]:
    """Return the first byte and the length of every word."""
    is_first, is_last = _IS_MARK[text], _IS_MARK[text]
    is_inner = _IS_INNER[text]
    is_first[:1] |= is_inner[:1]
    is_first[1:] |= is_inner[1:] & ~is_inner[:-1]
    is_last[-1:] |= is_inner[-1:]
    is_last[:-1] |= is_inner[:-1] & ~is_inner[1:]
    if split_chinese:
        # U+3400 to U+4DBF and U+4E00 to U+9FFF, the two blocks that every version of the tokenizer splits, have three
        # bytes in UTF-8, and the first is E3 to E9
        leads = np.flatnonzero((text >= 0xE3) & (text <= 0xE9))
        second, third = text[leads + 1].astype(np.int64), text[leads + 2].astype(np.int64)
        character = (text[leads] & 0x0F).astype(np.int64) << 12 | (second & 0x3F) << 6 | third & 0x3F
        is_between = (character > 0x4DBF) & (character < 0x4E00)
        chinese = leads[(character >= 0x3400) & (character <= 0x9FFF) & ~is_between]
        is_first[chinese] = True
        is_last[chinese + 2] = True
        before, after = chinese[chinese > 0] - 1, chinese[chinese < len(text) - 3] + 3
        is_last[before] |= is_inner[before]
        is_first[after] |= is_inner[after]
    starts = np.flatnonzero(is_first)
    return starts, np.flatnonzero(is_last) - starts + 1


class WordCache:
    """Remembers the ids of all words, up to a bound of words or characters; then it is cleared.

    Args:
        max_words: distinct words to remember; a million take about 600 MB.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        max_words: int = 1_000_000,
        max_characters: int = 30_000_000,
        batch_characters: int = BATCH_CHARACTERS,
    ) -> None:
        self._backend = backend
        self._model = backend.model
        self._lowercase = backend.normalizer.lowercase
        self._max_words, self._max_characters = max_words, max_characters
        self._batch_characters = batch_characters
        self._clear()

    def _clear(self) -> None:
        self._index = WordIndex(split_chinese=self._backend.normalizer.handle_chinese_chars)
        self.num_characters = 0
        """Characters of all words that are remembered."""
        self._starts = self._lengths = np.empty(0, np.int64)
        self._ids = np.empty(0, np.uint32)

    def ids(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Return the ids of all texts end to end, and the number of ids of each text."""
        ids, lengths = [np.empty(0, np.uint32)], [np.empty(0, np.int64)]
        for batch in batch_texts(texts, self._batch_characters):
            if len(self._index.words) > self._max_words or self.num_characters > self._max_characters:
                self._clear()
            numbers, text_ends = self._index.number(batch)
            self._add(self._index.words[len(self._starts) :])
            word_lengths = self._lengths[numbers]
            ends = np.concatenate([[0], np.cumsum(word_lengths)])
            # For every id, the distance from its place in the result to its place in the cache.
            shift = np.repeat(self._starts[numbers] - ends[:-1], word_lengths)
            ids.append(self._ids[shift + np.arange(len(shift))])
            lengths.append(np.diff(ends[text_ends], prepend=0))
        return np.concatenate(ids), np.concatenate(lengths)

    def _add(self, words: Sequence[str]) -> None:
        self.num_characters += sum(map(len, words))
        ids = [self._tokenize(word) for word in words]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        flat = np.fromiter(chain.from_iterable(ids), np.uint32, int(lengths.sum()))
        starts = len(self._ids) + np.cumsum(lengths) - lengths
        self._starts = np.concatenate([self._starts, starts])
        self._lengths = np.concatenate([self._lengths, lengths])
        self._ids = np.concatenate([self._ids, flat])

    def _tokenize(self, word: str) -> list[int]:
        if word.isascii() and word.isalnum():  # nothing to clean, which saves two thirds of the time
            return [token.id for token in self._model.tokenize(word.lower() if self._lowercase else word)]
        ids: list[int] = self._backend.encode(word, add_special_tokens=False).ids
        return ids
