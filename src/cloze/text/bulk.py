"""The bulk path: a corpus tokenized by looking up each chunk between spaces.

Text repeats itself, and BERT's tokenizer treats what stands between two spaces by itself: its cleaning keeps
spaces as boundaries, and no later step looks across one. So each distinct chunk is tokenized once, and the
ids of the corpus are gathered with numpy. A new chunk is cut further where the tokenizer is sure to cut it
(at ASCII punctuation and around Chinese characters), and the library is asked for each distinct part once.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice

import numpy as np
import numpy.typing as npt
import tokenizers

from cloze.text.characters import replace_lone_surrogates, split_at_spaces

_CHARACTERS_A_SLICE = 1 << 22  # of text gathered at a time: bounds the memory of a call
_CHARACTERS_KEPT = 1 << 23  # of distinct chunks: about a million of them in English, some 200 MB

_PUNCTUATION = r"!-/:-@\[-`{-~"
_CHINESE = r"\u3400-\u4dbf\u4e00-\u9fff"  # the blocks that every version of the tokenizer knows


class ChunkCache:
    """Remembers the ids of every chunk seen, up to a bound, after which it forgets all and starts again.

    Args:
        library: a tokenizer without special pieces, whose normalizer cleans text as BERT's does.
    """

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self._library = library
        alone = _PUNCTUATION + (_CHINESE if library.normalizer.handle_chinese_chars else "")
        self._cut = re.compile(f"[{alone}]|[^{alone}]+").findall
        self._known = _Known(_IdsOfParts(library))

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
            self._known = _Known(_IdsOfParts(self._library))
        known = self._known
        chunks_in_text: list[int] = []
        chunks = chain.from_iterable(_chunks_of(texts, chunks_in_text))
        # The index numbers a new chunk by itself; `_learn` then tokenizes those that came.
        index = np.fromiter(map(known.index.__getitem__, chunks), np.int64)
        self._learn()
        lengths = known.lengths[index]
        ends = np.cumsum(lengths)
        shift = np.repeat(known.starts[index] - (ends - lengths), lengths)
        pieces = known.pieces[shift + np.arange(len(shift))]
        return pieces, np.diff(ends[np.cumsum(chunks_in_text) - 1], prepend=0)

    def _learn(self) -> None:
        """Tokenize the chunks that the index has and the tables have not."""
        known = self._known
        new = list(islice(known.index, len(known.starts), None))
        known.characters += sum(map(len, new))
        ids_of = known.parts.__getitem__
        ids = [list(chain.from_iterable(map(ids_of, self._cut(chunk)))) for chunk in new]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        flat = np.fromiter(chain.from_iterable(ids), np.uint32, int(lengths.sum()))
        starts = len(known.pieces) + np.cumsum(lengths) - lengths
        known.starts = np.concatenate([known.starts, starts])
        known.lengths = np.concatenate([known.lengths, lengths])
        known.pieces = np.concatenate([known.pieces, flat])


class _IdsOfParts(dict[str, list[int]]):
    """Parts of chunks and their ids; the library is asked for a part when it is first looked up."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self._library = library
        self._model = library.model
        self._lowercase = library.normalizer.lowercase

    def __missing__(self, part: str) -> list[int]:
        if part.isascii() and part.isalnum():  # a plain word: nothing to clean, a third of the time
            word = part.lower() if self._lowercase else part
            ids = [token.id for token in self._model.tokenize(word)]
        else:
            ids = self._library.encode(replace_lone_surrogates(part), add_special_tokens=False).ids
        self[part] = ids
        return ids


@dataclass
class _Known:
    """Chunks by number, and for each number where its ids stand in `pieces`."""

    parts: _IdsOfParts
    index: defaultdict[str, int] = field(default_factory=lambda: defaultdict(count().__next__))
    starts: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    lengths: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    pieces: npt.NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    characters: int = 0


def _chunks_of(texts: Sequence[str], chunks_in_text: list[int]) -> Iterator[list[str]]:
    """Split one text at a time, so that few strings are alive at once, and note how many chunks it had."""
    for text in texts:
        chunks = split_at_spaces(text)
        chunks_in_text.append(len(chunks))  # one at least, if only an empty one
        yield chunks


def _slices(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    start, characters = 0, 0
    for end, text in enumerate(texts, start=1):
        characters += len(text)
        if characters >= _CHARACTERS_A_SLICE or end == len(texts):
            yield texts[start:end]
            start, characters = end, 0
