"""The batch that models read: sequences end to end, without padding or torch; and positions in the data.

Shapes: T tokens in the batch, B sequences, P masked positions.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.errors import InputError

Integers: TypeAlias = npt.NDArray[np.int64]
Indices: TypeAlias = list[int]
"""Indices of inputs."""
Array: TypeAlias = Any
"""A NumPy array; after `cloze.models.batch.to_device` a tensor."""


@dataclass(frozen=True, slots=True)
class DataPosition:
    """The next instance to read: its index in a block of an epoch. A batch is a pure function of it."""

    phase: int = 0
    epoch: int = 0
    index: int = 0
    block: int = 0


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """Consecutive sequences of equal length: a slice of the batch that views as [count, length]."""

    start: int
    count: int
    length: int

    @property
    def end(self) -> int:
        """The token after the last one of the group."""
        return self.start + self.count * self.length


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Sequences end to end, `[CLS] a b [SEP] [CLS] c [SEP]`; subclasses add targets.

    Shapes:
        input_ids, token_type_ids, position_ids [T] int64; cu_seqlens [B+1] int32, where each sequence starts, and T.
        `length_groups` holds the lengths as Python integers, so that reading one does not wait for the device.
    """

    input_ids: Array
    token_type_ids: Array
    position_ids: Array
    cu_seqlens: Array
    length_groups: tuple[LengthGroup, ...]

    @classmethod
    def from_flat(
        cls, input_ids: Integers, token_type_ids: Integers, lengths: Sequence[int], **fields: Any
    ) -> Self:
        """Return the batch of sequences that are already end to end.

        Shapes: input_ids, token_type_ids [T]; lengths [B], at least 1 each. `fields` has the fields of the subclass.
        """
        cu_seqlens = np.array([0, *accumulate(lengths)], np.int32)
        position_ids = np.arange(len(input_ids)) - cu_seqlens[:-1].repeat(lengths)
        return cls(input_ids, token_type_ids, position_ids, cu_seqlens, group_lengths(lengths), **fields)

    @classmethod
    def extend(cls, batch: "PackedBatch", **fields: Any) -> Self:
        """Return a batch with the fields that this subclass adds."""
        return cls(
            **{field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}, **fields
        )

    @property
    def num_tokens(self) -> int:
        """T."""
        return self.length_groups[-1].end

    @property
    def num_sequences(self) -> int:
        """B."""
        return sum(group.count for group in self.length_groups)

    @property
    def max_seqlen(self) -> int:
        """The length of the longest sequence."""
        return max(group.length for group in self.length_groups)


@dataclass(frozen=True, slots=True)
class MaskedBatch(PackedBatch):
    """Sequences with masked tokens to predict.

    Shapes:
        masked_lm_positions [P], indices into the T tokens.
    """

    masked_lm_positions: Array


@dataclass(frozen=True, slots=True)
class PretrainingBatch(MaskedBatch):
    """Instances end to end, the longest first, so that equal lengths are adjacent.

    Shapes:
        masked_lm_ids [P], the original tokens there, or the next or previous ones if those are predicted.
        next_sentence_labels [B], 0 = IsNext, 1 = NotNext.
    """

    masked_lm_ids: Array
    next_sentence_labels: Array

    def sequences(self, start: int, end: int) -> "PretrainingBatch":
        """Return the sequences from `start` to `end` as a batch that views this one."""
        cu_seqlens = self.cu_seqlens[start : end + 1]
        first_token, end_token = cu_seqlens[0], cu_seqlens[-1]
        first, last = np.searchsorted(self.masked_lm_positions, [first_token, end_token])
        return PretrainingBatch(
            self.input_ids[first_token:end_token],
            self.token_type_ids[first_token:end_token],
            self.position_ids[first_token:end_token],
            cu_seqlens - first_token,
            group_lengths(np.diff(cu_seqlens).tolist()),
            self.masked_lm_positions[first:last] - first_token,
            self.masked_lm_ids[first:last],
            self.next_sentence_labels[start:end],
        )


def collate(
    input_ids: Sequence[npt.ArrayLike], token_type_ids: Sequence[npt.ArrayLike] | None = None
) -> PackedBatch:
    """Return the batch of sequences, in the order given.

    Attention is fastest where sequences of equal length are adjacent.

    Args:
        input_ids: lists or arrays of ids.
        token_type_ids: 0 for segment A, 1 for B; None is segment A throughout.
    """
    ids, lengths = _concatenate(input_ids)
    if not lengths or 0 in lengths:
        raise InputError("an empty sequence", where="input_ids", remedy="Give every sequence a token")
    types = np.zeros(len(ids), np.int64)
    if token_type_ids is not None:
        types, type_lengths = _concatenate(token_type_ids)
        if type_lengths != lengths:
            raise InputError("differs in length from input_ids", where="token_type_ids")
    return PackedBatch.from_flat(ids, types, lengths)


def batch_by_length(num_tokens: Sequence[int], max_tokens: int) -> Iterator[Indices]:
    """Yield the indices of batches of at most `max_tokens` tokens, of similar lengths, the longest first."""
    order = sorted(range(len(num_tokens)), key=num_tokens.__getitem__, reverse=True)
    start = tokens = 0
    for i, index in enumerate(order):
        if i > start and tokens + num_tokens[index] > max_tokens:
            yield order[start:i]
            start, tokens = i, 0
        tokens += num_tokens[index]
    if start < len(order):
        yield order[start:]


def group_lengths(lengths: Iterable[int]) -> tuple[LengthGroup, ...]:
    """Return the groups of equal lengths that follow each other.

    >>> group_lengths([5, 5, 3])
    (LengthGroup(start=0, count=2, length=5), LengthGroup(start=10, count=1, length=3))
    """
    groups: list[LengthGroup] = []
    start = 0
    for length, equal in groupby(lengths):
        groups.append(LengthGroup(start, len(list(equal)), length))
        start = groups[-1].end
    return tuple(groups)


def _concatenate(sequences: Sequence[Any]) -> tuple[Integers, list[int]]:
    ids = np.concatenate(sequences or [[]], dtype=np.int64, casting="unsafe")
    return ids, list(map(len, sequences))
