"""Tokenize many texts: each distinct word once, and the ids of texts by numpy."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import tokenizers

from cloze.tokenization.word_index import BATCH_CHARACTERS, WordIndex, batch_texts


class WordCache:
    """Remembers the ids of all words, up to a bound; then it is cleared.

    Args:
        backend: a tokenizer without special tokens, whose normalizer cleans text as BERT's does.
        max_words: distinct words to remember; a million take about 600 MB.
        max_characters: their characters, for text without spaces.
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
            batch_ids, batch_lengths = self._ids_of_batch(batch)
            ids.append(batch_ids)
            lengths.append(batch_lengths)
        return np.concatenate(ids), np.concatenate(lengths)

    def _ids_of_batch(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        if len(self._index.words) > self._max_words or self.num_characters > self._max_characters:
            self._clear()
        numbers, text_ends = self._index.number(texts)
        self._add(self._index.words[len(self._starts) :])
        lengths = self._lengths[numbers]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        # For every id, the distance from its place in the result to its place in the cache.
        shift = np.repeat(self._starts[numbers] - ends[:-1], lengths)
        return self._ids[shift + np.arange(len(shift))], np.diff(ends[text_ends], prepend=0)

    def _add(self, words: Sequence[str]) -> None:
        """Tokenize new words and append their ids."""
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
