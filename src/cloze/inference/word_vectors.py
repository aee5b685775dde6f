"""The vectors of the tokens of a long text, and of its words: means over their tokens.

Shapes: L tokens of a text, W words, D width of a vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.tasks.features import max_context_windows
from cloze.tokenization.tokenizer import Encoding, Tokenizer

Vectors: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: characters `start` to `end` (exclusive)."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WordVectors:
    """The words of a text with their vectors."""

    words: tuple[Word, ...]
    vectors: Vectors
    """[W, D]."""
    is_truncated: bool
    """Whether the text is longer than `max_seq_length`."""


def join_windows(hidden_of_window: Sequence[Vectors], windows: Sequence[slice]) -> Vectors:
    """Return the vector of each token from the window with the most context around it, [L, D].

    Args:
        hidden_of_window: [CLS], tokens and [SEP] of each window; [CLS] and [SEP] are taken from the first and the last.
        windows: the places of their tokens in the text.
    """
    if len(windows) == 1:
        return hidden_of_window[0]
    inner = [
        hidden_of_window[number][1 + place - windows[number].start]
        for place, number in enumerate(max_context_windows(windows))
    ]
    return np.stack([hidden_of_window[0][0], *inner, hidden_of_window[-1][-1]])


def pool_words(
    hidden: Vectors, encoding: Encoding, tokenizer: Tokenizer, *, prompt_length: int
) -> tuple[list[tuple[int, int]], Vectors]:
    """Return the places of the words after the prompt, and the mean over the tokens of each, [W, D].

    Args:
        hidden: the vectors of the tokens without [CLS] and [SEP], [L, D]; those of a truncated text are fewer.
        prompt_length: characters of the prompt; places are counted from its end.
    """
    count = len(hidden)
    starts_word_L = ~tokenizer.is_continuation[encoding.input_ids[1 : count + 1]]
    starts_word_L[:1] = True  # byte-level tokenizers mark the space before a word alone
    first_W = np.flatnonzero(starts_word_L)
    offsets_L2 = np.array(encoding.offsets[1 : count + 1]).reshape(-1, 2) - prompt_length
    starts, ends = offsets_L2[first_W, 0], offsets_L2[np.append(first_W, count)[1:] - 1, 1]
    in_text = np.flatnonzero(starts >= 0)
    places = zip(starts[in_text].tolist(), ends[in_text].tolist(), strict=True)
    return list(places), _means_of_parts(hidden, first_W)[in_text]


def _means_of_parts(hidden: Vectors, starts: npt.NDArray[Any]) -> Vectors:
    """Return the mean of each part of some token vectors, [W, D].

    Args:
        hidden: token vectors, [L, D].
        starts: the first token of each part, [W], the first of them 0.
    """
    if not len(starts):
        return np.empty((0, hidden.shape[1]), np.float32)
    sums_WD: Vectors = np.add.reduceat(hidden, starts)
    lengths_W = np.diff(starts, append=len(hidden)).astype(np.float32)
    return sums_WD / lengths_W[:, None]
