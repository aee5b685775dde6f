"""Sentences as the model reads them, which tags their words, and batches of these.

Shapes: W words that are predicted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cloze.model.packed import Packed
from cloze.tasks.conll import Sentence
from cloze.tasks.windows import Window, cut_windows, window_of_most_context
from cloze.text.tokenizer import Tokenizer

Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class TaggingFeature:
    """A sentence or a window of it, with what is around it: the pieces, and which of them stand for a word."""

    input_ids: Integers
    positions: Integers
    """Of the first pieces of the words to be predicted, [W]."""
    targets: Integers | None
    """The classes of these words, [W], where they are known."""

    @property
    def num_tokens(self) -> int:
        """Tokens, [CLS] and [SEP] included."""
        return len(self.input_ids)

    @property
    def is_truncated(self) -> bool:
        """Never: every word is predicted, in one window or another."""
        return False


@dataclass(frozen=True, slots=True)
class TaggingBatch:
    """Sequences end to end, the tokens that stand for words, and the classes of these."""

    packed: Packed
    positions: Tensor
    targets: Tensor
    num_words: tuple[int, ...]
    """Of each sequence."""

    @property
    def num_targets(self) -> int:
        """W."""
        return len(self.targets)

    def to(self, device: torch.device) -> "TaggingBatch":
        """Copy the tensors to a device."""
        return TaggingBatch(
            self.packed.to(device),
            self.positions.to(device, non_blocking=True),
            self.targets.to(device, non_blocking=True),
            self.num_words,
        )


def tagging_features(
    sentences: Sequence[Sentence], targets: Integers | None, tokenizer: Tokenizer, *, max_seq_length: int
) -> list[TaggingFeature]:
    """Tokenize neighbouring sentences, each with as much of the others as fits; a long one is cut into windows.

    A word that the tokenizer makes nothing of stands as [UNK].

    Args:
        sentences: a document.
        targets: the classes of all its words, where they are known.
        tokenizer: whose pieces the model reads.
        max_seq_length: [CLS] and [SEP] included.
    """
    pieces, first_pieces = _tokenize([word for sentence in sentences for word in sentence.words], tokenizer)
    bounds = np.append(first_pieces, len(pieces))
    ends = list(accumulate(len(sentence.words) for sentence in sentences))
    features = []
    for word, end_word in zip([0, *ends], ends, strict=False):
        start, end = int(bounds[word]), int(bounds[end_word])
        for window, own in _windows(start, end, len(pieces), max_seq_length - 2):
            first, last = np.searchsorted(first_pieces, (own.start, own.stop))
            if first < last:
                inner = pieces[window.start : window.start + window.length]
                features.append(
                    TaggingFeature(
                        np.concatenate([[tokenizer.cls_id], inner, [tokenizer.sep_id]]),
                        first_pieces[first:last] - window.start + 1,
                        None if targets is None else targets[first:last],
                    )
                )
    return features


def pack(features: Sequence[TaggingFeature]) -> TaggingBatch:
    """Lay sequences end to end in the order given."""
    lengths = [feature.num_tokens for feature in features]
    starts = [0, *accumulate(lengths)]
    packed = Packed.from_arrays(
        np.concatenate([feature.input_ids for feature in features]),
        np.zeros(starts[-1], np.int64),
        np.concatenate([np.arange(length) for length in lengths]),
        starts,
    )
    positions = [feature.positions + start for feature, start in zip(features, starts[:-1], strict=True)]
    targets = [
        np.zeros_like(feature.positions) if feature.targets is None else feature.targets
        for feature in features
    ]
    return TaggingBatch(
        packed,
        torch.from_numpy(np.concatenate(positions)),
        torch.from_numpy(np.concatenate(targets)),
        tuple(len(feature.positions) for feature in features),
    )


def _tokenize(words: Sequence[str], tokenizer: Tokenizer) -> tuple[Integers, Integers]:
    """Return the pieces of all words, and which is each word's first; a word without pieces gets [UNK]."""
    ids, lengths = tokenizer.ids(words)
    ends = np.cumsum(lengths)
    pieces = np.insert(ids.astype(np.int64), ends[lengths == 0], tokenizer.unk_id)
    lengths = np.maximum(lengths, 1)
    return pieces, np.cumsum(lengths) - lengths


def _windows(start: int, end: int, num_pieces: int, size: int) -> Iterator[tuple[Window, slice]]:
    """Yield what the model sees of a text to predict the pieces from `start` to `end`, and which of them it does.

    What fits is seen at once, with as much around it on both sides as fits, too; where the text is short on one side,
    with more on the other.
    """
    if end - start <= size:
        first = min(max(start - (size - (end - start)) // 2, 0), max(num_pieces - size, 0))
        yield Window(first, min(size, num_pieces)), slice(start, end)
        return
    windows = cut_windows(end - start, size, max(size // 2, 1))
    best_P = window_of_most_context(windows)
    for number, window in enumerate(windows):
        own = np.flatnonzero(best_P == number)
        if len(own):
            yield (
                Window(start + window.start, window.length),
                slice(start + int(own[0]), start + int(own[-1]) + 1),
            )
