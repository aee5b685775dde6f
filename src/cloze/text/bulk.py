"""The bulk path: each distinct run of a corpus is tokenized once, and the ids are gathered with numpy."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import tokenizers

from cloze.text.runs import RunIndex, slices

_MAX_RUNS = 1_000_000  # some 600 MB
_MAX_CHARACTERS = 30_000_000  # of these, which are far fewer in most text


class RunCache:
    """Remembers the ids of every run seen, up to a bound, after which it forgets all and starts again.

    Args:
        library: a tokenizer without special pieces, whose normalizer cleans text as BERT's does.
    """

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self._library = library
        self._model = library.model
        self._lowercase = library.normalizer.lowercase
        self._forget()

    def _forget(self) -> None:
        self._index = RunIndex(cut_chinese=self._library.normalizer.handle_chinese_chars)
        self._characters = 0
        self._starts = self._lengths = np.empty(0, np.int64)
        self._pieces = np.empty(0, np.uint32)

    def ids(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Return the ids of all texts end to end, and how many each text has."""
        pieces, lengths = [np.empty(0, np.uint32)], [np.empty(0, np.int64)]
        for some in slices(texts):
            some_pieces, some_lengths = self._ids_of_slice(some)
            pieces.append(some_pieces)
            lengths.append(some_lengths)
        return np.concatenate(pieces), np.concatenate(lengths)

    def _ids_of_slice(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        if len(self._index.runs) > _MAX_RUNS or self._characters > _MAX_CHARACTERS:
            self._forget()
        numbers, text_ends = self._index.number(texts)
        self._learn(self._index.runs[len(self._starts) :])
        lengths = self._lengths[numbers]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        # For every piece, how far it is from where it stands in the result to where it stands in the cache.
        shift = np.repeat(self._starts[numbers] - ends[:-1], lengths)
        return self._pieces[shift + np.arange(len(shift))], np.diff(ends[text_ends], prepend=0)

    def _learn(self, runs: Sequence[str]) -> None:
        """Tokenize runs, and keep their ids at the end of those that are known."""
        self._characters += sum(map(len, runs))
        ids = [self._ids_of(run) for run in runs]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        flat = np.fromiter(chain.from_iterable(ids), np.uint32, int(lengths.sum()))
        starts = len(self._pieces) + np.cumsum(lengths) - lengths
        self._starts = np.concatenate([self._starts, starts])
        self._lengths = np.concatenate([self._lengths, lengths])
        self._pieces = np.concatenate([self._pieces, flat])

    def _ids_of(self, run: str) -> list[int]:
        if run.isascii() and run.isalnum():  # a plain word: nothing to clean, a third of the time
            return [token.id for token in self._model.tokenize(run.lower() if self._lowercase else run)]
        ids: list[int] = self._library.encode(run, add_special_tokens=False).ids
        return ids
