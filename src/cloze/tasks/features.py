"""From texts and sentences to features: token sequences of limited length, truncated or cut into windows.

Shapes: P tokens of a text or document, W words to tag.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.choices import LongTexts
from cloze.data.batch import collate
from cloze.data.reading.tagged_text import Sentence, TaggedText
from cloze.errors import InputError
from cloze.tasks.task_batch import TaskBatch
from cloze.tokenization.tokenizer import Tokenizer, TruncationSide
from cloze.tokenization.unknown import NONE_UNKNOWN, UnknownWords, count_unknown

Target: TypeAlias = int | float | list[int]
Integers: TypeAlias = npt.NDArray[np.int64]
IDENTITY = ("id", "text", "pair", "prompt", "question")
"""Columns of predictions that say which example they are for."""


@dataclass(frozen=True, slots=True)
class TextSequence:
    """The tokens of a text or a pair, with [CLS] and [SEP]."""

    input_ids: list[int]
    token_type_ids: list[int]
    is_truncated: bool


@dataclass(frozen=True, eq=False, slots=True)
class TextFeature:
    """The sequences that one output is computed from, and the target where it is known."""

    sequences: tuple[TextSequence, ...]
    target: Target | None

    @property
    def input_ids(self) -> list[int]:
        """The ids of the tokens of all sequences."""
        return list(chain.from_iterable(sequence.input_ids for sequence in self.sequences))

    @property
    def num_tokens(self) -> int:
        """Tokens of all sequences."""
        return sum(len(sequence.input_ids) for sequence in self.sequences)

    @property
    def is_truncated(self) -> bool:
        """Whether any sequence was truncated."""
        return any(sequence.is_truncated for sequence in self.sequences)


TextFeatures: TypeAlias = Sequence[TextFeature]


def pack(features: TextFeatures, targets: npt.NDArray[Any]) -> TaskBatch:
    """Pack the sequences of features in the given order."""
    sequences = [sequence for feature in features for sequence in feature.sequences]
    batch = collate([s.input_ids for s in sequences], [s.token_type_ids for s in sequences])
    return TaskBatch.extend(
        batch, targets=targets, counts=tuple(len(feature.sequences) for feature in features)
    )


@dataclass(frozen=True, slots=True)
class Losses:
    """What is lost of examples when they are read."""

    truncated: int = 0
    """Examples with a truncated text."""
    unknown: UnknownWords = NONE_UNKNOWN

    def __add__(self, other: "Losses") -> "Losses":
        return Losses(self.truncated + other.truncated, self.unknown + other.unknown)


def input_values(example: Any) -> dict[str, Any]:
    """Return the id of an example, else its row, if it has one, and its texts, which identify a prediction."""
    if isinstance(example, TaggedText):
        return {"text": example.text_and_offsets()[0]}
    values = {name: getattr(example, name, None) for name in ("id", "row", *IDENTITY[1:])}
    if values["id"] is not None:
        del values["row"]
    return {name: value for name, value in values.items() if value is not None}


def count_losses(examples: Sequence[Any], features: Sequence[Sequence[Any]], tokenizer: Tokenizer) -> Losses:
    """Return what is lost of examples in their features."""
    truncated, texts, ids = 0, [], []
    for example, of_example in zip(examples, features, strict=True):
        truncated += any(feature.is_truncated for feature in of_example)
        if any(tokenizer.unknown_id in feature.input_ids for feature in of_example):
            values = input_values(example).items()
            texts.append(" ".join(value for name, value in values if name not in ("id", "row")))
            ids.append(set().union(*(feature.input_ids for feature in of_example)))
    return Losses(truncated, replace(count_unknown(tokenizer, texts, ids), texts=len(examples)))


def encode_text(
    tokenizer: Tokenizer,
    text: str,
    pair: str | None = None,
    *,
    max_seq_length: int,
    long_texts: LongTexts = "truncate",
    truncation_side: TruncationSide = "right",
) -> list[TextSequence]:
    """Tokenize a text or a pair into one sequence, or into windows if it is too long and `long_texts` is "windows".

    Truncation removes tokens from one side of the longer text first. Windows overlap by half. In a pair the longer text
    is cut into windows; the shorter one is repeated in each and limited to half of the tokens.

    Source: google-research/bert run_classifier.py:557 @eedf571 (truncation).
    """
    encoding = tokenizer.encode(text, pair)
    is_long = len(encoding) > max_seq_length
    if not is_long or long_texts == "truncate":
        if is_long:
            encoding = tokenizer.encode(
                text, pair, max_length=max_seq_length, truncation_side=truncation_side
            )
        return [TextSequence(encoding.input_ids, encoding.token_type_ids, is_long)]
    if pair is None:
        ids = encoding.input_ids[1:-1]
        windows = half_overlapping(len(ids), max_seq_length - 2)
        return [TextSequence(*tokenizer.join(ids[window], None), is_truncated=False) for window in windows]
    a, b = (tokenizer.encode(part).input_ids[1:-1] for part in (text, pair))
    size = max_seq_length - tokenizer.template(is_pair=True).num_special
    shorter, longer = (a, b) if len(a) <= len(b) else (b, a)
    kept = shorter[: size // 2]
    is_truncated = len(kept) < len(shorter)
    parts = [longer[window] for window in half_overlapping(len(longer), size - len(kept))]
    pairs = [(kept, part) if shorter is a else (part, kept) for part in parts]
    return [TextSequence(*tokenizer.join(*texts), is_truncated) for texts in pairs]


def encode_choices(
    tokenizer: Tokenizer, prompt: str, choices: Sequence[str], *, max_seq_length: int, long_texts: LongTexts
) -> list[list[TextSequence]]:
    """Tokenize a prompt, or each of its windows, with every choice."""
    sequences = [
        encode_text(tokenizer, prompt, choice, max_seq_length=max_seq_length)[0] for choice in choices
    ]
    if long_texts == "truncate" or not any(sequence.is_truncated for sequence in sequences):
        return [sequences]
    size = max_seq_length - tokenizer.template(is_pair=True).num_special
    prompt_ids, *choice_ids = (tokenizer.encode(text).input_ids[1:-1] for text in (prompt, *choices))
    max_choice = max(size // 2, size - len(prompt_ids))
    windows = half_overlapping(len(prompt_ids), size - min(max(map(len, choice_ids)), max_choice))
    return [
        [
            TextSequence(*tokenizer.join(prompt_ids[window], ids[:max_choice]), len(ids) > max_choice)
            for ids in choice_ids
        ]
        for window in windows
    ]


def half_overlapping(num_tokens: int, size: int) -> list[slice]:
    """Cut a text into windows of `size` tokens that overlap by half.

    >>> half_overlapping(7, size=4)
    [slice(0, 4, None), slice(2, 6, None), slice(4, 7, None)]
    """
    return sliding_windows(num_tokens, size, max(size // 2, 1))


def sliding_windows(num_tokens: int, size: int, stride: int) -> list[slice]:
    """Cut a text into windows of `size` tokens, each `stride` tokens after the one before.

    Source: google-research/bert run_squad.py:301 @eedf571.

    Differs: an empty text has one empty window instead of none.
    """
    if size < 1:
        raise InputError("the model takes too few tokens to read any of the text", where="max_seq_length")
    windows = [slice(0, min(num_tokens, size))]
    while windows[-1].stop < num_tokens:
        start = windows[-1].start + min(size, stride)
        windows.append(slice(start, min(start + size, num_tokens)))
    return windows


def max_context_windows(windows: Sequence[slice]) -> npt.NDArray[np.int64]:
    """Return for each token the index of the window with the most context around it, [P].

    The context is the distance to the nearer end of the window. Ties go to the longer window, then to the first.

    >>> max_context_windows(sliding_windows(7, size=4, stride=2)).tolist()
    [0, 0, 0, 1, 1, 2, 2]

    Source: google-research/bert run_squad.py:429 @eedf571.
    """
    best_P = np.zeros(windows[-1].stop, np.int64)
    best_score_P = np.full(windows[-1].stop, -np.inf)
    # one by one: a table of all windows by all tokens is too large for a novel
    for index, window in enumerate(windows):
        left = np.arange(window.stop - window.start)
        score = np.minimum(left, left[::-1]) + 0.01 * len(left)
        is_better = score > best_score_P[window]
        best_score_P[window] = np.where(is_better, score, best_score_P[window])
        best_P[window] = np.where(is_better, index, best_P[window])
    return best_P


@dataclass(frozen=True, eq=False, slots=True)
class TaggingFeature:
    """The tokens of a sentence or a window of it, with context, and the words to tag."""

    input_ids: Integers
    positions: Integers
    """First tokens of the words to tag, [W]."""
    targets: Integers | None
    """Classes of these words, [W], where they are known."""
    is_truncated: ClassVar[bool] = False
    """Every word is in a window."""

    @property
    def num_tokens(self) -> int:
        """Tokens, [CLS] and [SEP] included."""
        return len(self.input_ids)


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
