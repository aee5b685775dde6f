"""Instances packed end to end, and the sources that they are read from.

A source is a pure function: the same (epoch, positions) give the same batch, in whatever order they are asked for.

Shapes: T tokens in the packed batch, B sequences, P masked positions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cloze.corpus.hashing import mix, uniform
from cloze.corpus.masking import MaskingConfig, mask_tokens
from cloze.corpus.pairs import EpochPlan, PairsConfig, plan_epoch
from cloze.corpus.store import Documents
from cloze.errors import InputError
from cloze.text.tokenizer import Tokenizer

Integers = npt.NDArray[np.int64]

_FRONT_OF_A, _FRONT_OF_B, _MASKS = 11, 12, 13  # which of an instance's random numbers is meant


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Instances end to end, the longest first, so that equal lengths are neighbours.

    Shapes:
        input_ids, token_type_ids, position_ids [T]; cu_seqlens [B+1] int32, where each sequence begins, and T.
        masked_lm_positions [P], indices into the T tokens; masked_lm_ids [P], the pieces that stood there.
        next_sentence_labels [B], 0 = IsNext, 1 = NotNext.
    """

    input_ids: Integers
    token_type_ids: Integers
    position_ids: Integers
    cu_seqlens: npt.NDArray[np.int32]
    masked_lm_positions: Integers
    masked_lm_ids: Integers
    next_sentence_labels: Integers


class InstanceSource(Protocol):
    """Where training instances come from."""

    def num_instances(self, epoch: int) -> int:
        """Return how many instances an epoch has."""

    def lengths(self, epoch: int, positions: Integers) -> Integers:
        """Return the tokens of each instance."""

    def batch(self, epoch: int, positions: Integers) -> PackedBatch:
        """Return the instances at these positions of an epoch."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The next instance to read."""

    epoch: int = 0
    position: int = 0


def take(source: InstanceSource, cursor: Cursor, count: int) -> tuple[list[tuple[int, Integers]], Cursor]:
    """Return the next `count` instances as (epoch, positions), over the end of epochs, and the cursor after them."""
    parts: list[tuple[int, Integers]] = []
    epoch, position = cursor.epoch, cursor.position
    while count:
        available = source.num_instances(epoch)
        if available == 0:
            raise InputError("makes no instance", where="corpus", remedy="Give more text")
        taken = min(count, available - position)
        parts.append((epoch, np.arange(position, position + taken)))
        count -= taken
        position += taken
        if position == available:
            epoch, position = epoch + 1, 0
    return [part for part in parts if len(part[1])], Cursor(epoch, position)


def micro_batches(
    source: InstanceSource, epoch: int, positions: Integers, max_tokens: int
) -> Iterator[PackedBatch]:
    """Cut instances into batches of at most `max_tokens` tokens, like lengths together."""
    lengths = source.lengths(epoch, positions)
    order = np.argsort(-lengths, kind="stable")
    start = tokens = 0
    for i, length in enumerate(lengths[order].tolist()):
        if i > start and tokens + length > max_tokens:
            yield source.batch(epoch, positions[order[start:i]])
            start, tokens = i, 0
        tokens += length
    if start < len(order):
        yield source.batch(epoch, positions[order[start:]])


@dataclass(slots=True)
class DrawnInstances:
    """Pairs and masks drawn when they are read, anew each epoch, from the documents of a data set."""

    documents: Documents
    tokenizer: Tokenizer
    max_seq_length: int
    max_predictions_per_seq: int | None
    pairs: PairsConfig
    masking: MaskingConfig
    seed: int
    phase: int
    _is_continuation: npt.NDArray[np.bool_] = field(init=False)
    _plans: dict[int, EpochPlan] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._is_continuation = self.tokenizer.is_continuation

    def plan(self, epoch: int) -> EpochPlan:
        """Return the plan of an epoch. Two are kept: a step may end one epoch and begin the next."""
        if epoch not in self._plans:
            if len(self._plans) == 2:
                del self._plans[next(iter(self._plans))]
            self._plans[epoch] = plan_epoch(
                self.documents.first_sentence,
                self.documents.end_sentence,
                self.documents.sentence_offsets,
                self.pairs,
                max_seq_length=self.max_seq_length,
                seed=self.seed,
                phase=self.phase,
                epoch=epoch,
            )
        return self._plans[epoch]

    def num_instances(self, epoch: int) -> int:
        """Return how many instances an epoch has."""
        return len(self.plan(epoch))

    def lengths(self, epoch: int, positions: Integers) -> Integers:
        """Return the tokens of each instance, special ones included."""
        a_length, b_length = self._kept_lengths(self.plan(epoch), positions)
        return a_length + b_length + self._num_special

    @property
    def _num_special(self) -> int:
        return 3 if self.pairs.next_sentence else 2

    def _kept_lengths(self, plan: EpochPlan, positions: Integers) -> tuple[Integers, Integers]:
        """Cut the longer of A and B, piece by piece, until both fit; at equal lengths B is cut."""
        a_length = (plan.a_end - plan.a_start)[positions]
        b_length = (plan.b_end - plan.b_start)[positions]
        room = self.max_seq_length - self._num_special
        if not self.pairs.next_sentence:
            return np.minimum(a_length, room), b_length
        kept_a = np.minimum(a_length, np.maximum(room - b_length, room - room // 2))
        return kept_a, np.minimum(b_length, room - kept_a)

    def batch(self, epoch: int, positions: Integers) -> PackedBatch:
        """Return the instances at these positions: pairs of the epoch's plan, cut to length and masked.

        Differs: Google removes each surplus piece from the front or the back by the toss of a coin; here the number
        removed from the front is drawn at once, evenly from none to all.
        """
        plan = self.plan(epoch)
        kept_a, kept_b = self._kept_lengths(plan, positions)
        order = np.argsort(-(kept_a + kept_b), kind="stable")
        positions, kept_a, kept_b = positions[order], kept_a[order], kept_b[order]
        key = partial(mix, self.seed, self.phase, epoch, positions)
        a_start = _start(plan.a_start[positions], plan.a_end[positions], kept_a, key(_FRONT_OF_A))
        b_start = _start(plan.b_start[positions], plan.b_end[positions], kept_b, key(_FRONT_OF_B))
        lengths_B = kept_a + kept_b + self._num_special
        cu_seqlens = np.concatenate([[0], np.cumsum(lengths_B)])
        input_ids_T = np.full(cu_seqlens[-1], self.tokenizer.sep_id, np.int64)
        token_type_ids_T = np.zeros(cu_seqlens[-1], np.int64)
        maskable_T = np.zeros(cu_seqlens[-1], np.bool_)
        input_ids_T[cu_seqlens[:-1]] = self.tokenizer.cls_id
        for at, end, a, a_len, b, b_len in zip(
            cu_seqlens[:-1].tolist(),
            cu_seqlens[1:].tolist(),
            a_start.tolist(),
            kept_a.tolist(),
            b_start.tolist(),
            kept_b.tolist(),
            strict=True,
        ):
            segment_b = at + a_len + 2
            input_ids_T[at + 1 : segment_b - 1] = self.documents.read(a, a + a_len)
            maskable_T[at + 1 : segment_b - 1] = True
            if self.pairs.next_sentence:
                input_ids_T[segment_b : end - 1] = self.documents.read(b, b + b_len)
                maskable_T[segment_b : end - 1] = True
                token_type_ids_T[segment_b:end] = 1
        masked_T, masked_lm_positions, masked_lm_ids = mask_tokens(
            input_ids_T,
            cu_seqlens,
            maskable_T,
            key(_MASKS),
            self.masking,
            max_predictions_per_seq=self.max_predictions_per_seq,
            is_continuation=self._is_continuation,
            mask_id=self.tokenizer.mask_id,
        )
        return PackedBatch(
            masked_T,
            token_type_ids_T,
            np.arange(len(masked_T)) - np.repeat(cu_seqlens[:-1], lengths_B),
            cu_seqlens.astype(np.int32),
            masked_lm_positions,
            masked_lm_ids,
            plan.next_sentence_labels[positions],
        )


def _start(start: Integers, end: Integers, kept: Integers, key: npt.NDArray[np.uint64]) -> Integers:
    """Choose how much of the surplus goes from the front; the rest goes from the back."""
    surplus = end - start - kept
    return start + (uniform(key) * (surplus + 1)).astype(np.int64)
