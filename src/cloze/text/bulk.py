"""The bulk path: a corpus tokenized by looking up each chunk between spaces.

Text repeats itself, and BERT's tokenizer treats what stands between two spaces by itself: its cleaning keeps
spaces as boundaries, and no later step looks across one. The library tokenizes each distinct chunk once;
the ids of the corpus are gathered with numpy.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice

import numpy as np
import numpy.typing as npt
import tokenizers

from cloze.text.characters import replace_lone_surrogates, split_at_spaces

_CHARACTERS_A_SLICE = 1 << 22  # what is split at a time: bounds the memory of a call
_CHARACTERS_KEPT = 1 << 23  # of distinct chunks: about a million of them in English, some 150 MB


@dataclass
class _Known:
    """Chunks by number, and for each number where its ids stand in `pieces`."""

    index: defaultdict[str, int] = field(default_factory=lambda: defaultdict(count().__next__))
    starts: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    lengths: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    pieces: npt.NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    characters: int = 0


class ChunkCache:
    """Remembers the ids of every chunk seen, up to a bound, after which it forgets all and starts again.

    Args:
        library: a tokenizer without special pieces, whose normalizer cleans text as BERT's does.
    """

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self._library = library
        self._known = _Known()

    def ids(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Return the ids of all texts end to end, and how many each text has."""
        pieces, lengths = [np.empty(0, np.uint32)], [np.empty(0, np.int64)]
        for some in _slices(texts):
            some_pieces, some_lengths = self._ids_of_slice(some)
            pieces.append(some_pieces)
            lengths.append(some_lengths)
        return np.concatenate(pieces), np.concatenate(lengths)

    def _ids_of_slice(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        if self._known.characters > _CHARACTERS_KEPT:
            self._known = _Known()
        known = self._known
        chunks = [split_at_spaces(text) for text in texts]
        chunks_in_text = np.fromiter(map(len, chunks), np.int64, len(chunks))
        number = int(chunks_in_text.sum())
        # The index numbers a new chunk by itself; `_learn` then tokenizes those that came.
        index = np.fromiter(map(known.index.__getitem__, chain.from_iterable(chunks)), np.int64, number)
        self._learn()

        lengths = known.lengths[index]
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if number else 0
        shift = np.repeat(known.starts[index] - (ends - lengths), lengths)
        pieces = known.pieces[shift + np.arange(total)]
        ends_of_texts = np.concatenate([[0], ends])[np.cumsum(chunks_in_text)]
        return pieces, np.diff(ends_of_texts, prepend=0)

    def _learn(self) -> None:
        """Tokenize the chunks that the index has and the tables have not."""
        known = self._known
        new = list(islice(known.index, len(known.starts), None))
        if not new:
            return
        known.characters += sum(map(len, new))
        clean = [replace_lone_surrogates(chunk) for chunk in new]
        ids = [encoding.ids for encoding in self._library.encode_batch_fast(clean, add_special_tokens=False)]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        starts = len(known.pieces) + np.cumsum(lengths) - lengths
        flat = np.fromiter(chain.from_iterable(ids), np.uint32, int(lengths.sum()))
        known.starts = np.concatenate([known.starts, starts])
        known.lengths = np.concatenate([known.lengths, lengths])
        known.pieces = np.concatenate([known.pieces, flat])


def _slices(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    start, characters = 0, 0
    for end, text in enumerate(texts, start=1):
        characters += len(text)
        if characters >= _CHARACTERS_A_SLICE or end == len(texts):
            yield texts[start:end]
            start, characters = end, 0
