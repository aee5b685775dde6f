"""From sentences to token sequences, with the positions of the words to tag.

Shapes: P tokens of a document, W words to tag.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.data.reading.tagged_text import Sentence
from cloze.errors import InputError
from cloze.tasks.features import half_overlapping, max_context_windows
from cloze.tokenization.tokenizer import Tokenizer

Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class TaggingFeature:
    """The tokens of a sentence or a window of it, with context, and the words to tag."""

    input_ids: Integers
    positions: Integers
    """First tokens of the words to tag, [W]."""
    targets: Integers | None
    """Classes of these words, [W], where they are known."""

    @property
    def num_tokens(self) -> int:
        """Tokens, [CLS] and [SEP] included."""
        return len(self.input_ids)

    @property
    def is_truncated(self) -> bool:
        """Always false: every word is in a window."""
        return False


def tagging_features(
    sentences: Sequence[Sentence], targets: Integers | None, tokenizer: Tokenizer, *, max_seq_length: int
) -> list[TaggingFeature]:
    """Tokenize the sentences of a document, each with as much of the others as fits; a long one is cut into windows.

    `targets` are the classes of all words. A word that the tokenizer removes becomes [UNK].
    """
    words = [word for sentence in sentences for word in sentence.words]
    ids, lengths = tokenizer.word_ids(words)
    ids_P = ids.astype(np.int64)
    if not lengths.all():
        if tokenizer.unknown_id is None:
            word = words[int(lengths.argmin())]
            raise InputError(f"the word {word!r} has no token", where="tokenizer", remedy="Leave it out")
        ids_P = np.insert(ids_P, np.cumsum(lengths)[lengths == 0], tokenizer.unknown_id)
        lengths = np.maximum(lengths, 1)
    first_tokens = np.cumsum(lengths) - lengths
    bounds = np.append(first_tokens, len(ids_P))
    ends = list(accumulate(len(sentence.words) for sentence in sentences))
    features = []
    for first_word, end_word in zip([0, *ends], ends, strict=False):
        start, end = int(bounds[first_word]), int(bounds[end_word])
        for window, tagged in _windows(start, end, len(ids_P), max_seq_length - 2):
            first, last = np.searchsorted(first_tokens, (tagged.start, tagged.stop))
            if first < last:
                input_ids = np.concatenate([[tokenizer.cls_id], ids_P[window], [tokenizer.sep_id]])
                positions = first_tokens[first:last] - window.start + 1
                of_words = None if targets is None else targets[first:last]
                features.append(TaggingFeature(input_ids, positions, of_words))
    return features


def _windows(start: int, end: int, num_tokens: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Yield windows of a document in which the tokens from `start` to `end` are tagged, and which of them.

    If they fit into one window, it is filled up with context on both sides.
    """
    if end - start <= size:
        first = min(max(start - (size - (end - start)) // 2, 0), max(num_tokens - size, 0))
        yield slice(first, min(first + size, num_tokens)), slice(start, end)
        return
    windows = half_overlapping(end - start, size)
    best_P = max_context_windows(windows)
    for index, window in enumerate(windows):
        tagged = np.flatnonzero(best_P == index)
        if len(tagged):
            first, end_tagged = start + int(tagged[0]), start + int(tagged[-1]) + 1
            yield slice(start + window.start, start + window.stop), slice(first, end_tagged)
