"""Instances packed end to end, and the sources that they are read from.

A source is a pure function: the same (epoch, positions, progress) give the same batch, in whatever order they
are asked for.

Shapes: T tokens in the packed batch, B sequences, P masked positions, S segments of a sequence (A and B, or one).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cloze.corpus.hashing import mix, uniform
from cloze.corpus.masking import MaskingConfig, Targets, mask_tokens, neighbours
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
        masked_lm_positions [P], indices into the T tokens; masked_lm_ids [P], the pieces that stood there (or that
        stand beside them, where the neighbours are predicted).
        next_sentence_labels [B], 0 = IsNext, 1 = NotNext.
    """

    input_ids: Integers
    token_type_ids: Integers
    position_ids: Integers
    cu_seqlens: npt.NDArray[np.int32]
    masked_lm_positions: Integers
    masked_lm_ids: Integers
    next_sentence_labels: Integers

    def sequences(self, start: int, end: int) -> "PackedBatch":
        """Return the sequences from `start` to `end` as a batch that views this one."""
        first_token, last_token = self.cu_seqlens[start], self.cu_seqlens[end]
        first, last = np.searchsorted(self.masked_lm_positions, [first_token, last_token])
        return PackedBatch(
            self.input_ids[first_token:last_token],
            self.token_type_ids[first_token:last_token],
            self.position_ids[first_token:last_token],
            self.cu_seqlens[start : end + 1] - first_token,
            self.masked_lm_positions[first:last] - first_token,
            self.masked_lm_ids[first:last],
            self.next_sentence_labels[start:end],
        )


class InstanceSource(Protocol):
    """Where training instances come from."""

    def num_instances(self, epoch: int) -> int:
        """Return how many instances an epoch has."""

    def batch(self, epoch: int, positions: Integers, *, progress: float = 1.0) -> PackedBatch:
        """Return the instances at these positions of an epoch, masked as when a share `progress` of a run is over."""


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
    source: InstanceSource, epoch: int, positions: Integers, max_tokens: int, *, progress: float = 1.0
) -> Iterator[PackedBatch]:
    """Cut instances into batches of at most `max_tokens` tokens, like lengths together."""
    batch = source.batch(epoch, positions, progress=progress)
    bounds = batch.cu_seqlens
    start = 0
    while start < len(positions):
        fitting = int(np.searchsorted(bounds, bounds[start] + max_tokens, side="right")) - 1
        end = max(start + 1, fitting)
        yield batch.sequences(start, end)
        start = end


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
    targets: Targets = "masked"
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

    @property
    def _num_segments(self) -> int:
        return 2 if self.pairs.next_sentence else 1

    def _kept_lengths(self, plan: EpochPlan, positions: Integers) -> tuple[Integers, Integers]:
        """Cut the longer of A and B, piece by piece, until both fit; at equal lengths B is cut."""
        a_length = plan.a_end[positions] - plan.a_start[positions]
        b_length = plan.b_end[positions] - plan.b_start[positions]
        room = self.max_seq_length - self._num_segments - 1
        kept_a = np.minimum(a_length, np.maximum(room - b_length, room - room // 2))
        return kept_a, np.minimum(b_length, room - kept_a)

    def batch(self, epoch: int, positions: Integers, *, progress: float = 1.0) -> PackedBatch:
        """Return the instances at these positions: pairs of the epoch's plan, cut to length and masked.

        Differs: Google removes each surplus piece from the front or the back by the toss of a coin; here the number
        removed from the front is drawn at once, evenly from none to all.
        """
        plan = self.plan(epoch)
        kept_a, kept_b = self._kept_lengths(plan, positions)
        order = np.argsort(-(kept_a + kept_b), kind="stable")
        positions, kept_a, kept_b = positions[order], kept_a[order], kept_b[order]
        random_B = mix(self.seed, self.phase, epoch, positions)
        front_a, front_b = mix(_FRONT_OF_A, after=random_B), mix(_FRONT_OF_B, after=random_B)
        a_start = _start(plan.a_start[positions], plan.a_end[positions], kept_a, front_a)
        b_start = _start(plan.b_start[positions], plan.b_end[positions], kept_b, front_b)
        segments = self._num_segments
        starts_BS = np.column_stack([a_start, b_start])[:, :segments]
        kept_BS = np.column_stack([kept_a, kept_b])[:, :segments]

        tokens_BS = kept_BS + 1  # with its [SEP]
        tokens_BS[:, 0] += 1  # with [CLS]
        ends_BS = np.cumsum(tokens_BS).reshape(tokens_BS.shape)
        cu_seqlens = np.concatenate([[0], ends_BS[:, -1]])
        is_text_T = np.ones(cu_seqlens[-1], np.bool_)
        is_text_T[cu_seqlens[:-1]] = False
        is_text_T[ends_BS - 1] = False
        input_ids_T = np.full(len(is_text_T), self.tokenizer.sep_id, np.int64)
        input_ids_T[cu_seqlens[:-1]] = self.tokenizer.cls_id
        input_ids_T[is_text_T] = self.documents.gather(starts_BS.ravel(), kept_BS.ravel())
        if self.targets == "masked":
            masked_T, masked_lm_positions, masked_lm_ids = mask_tokens(
                input_ids_T,
                cu_seqlens,
                is_text_T,
                mix(_MASKS, after=random_B),
                self.masking.at(progress),
                max_predictions_per_seq=self.max_predictions_per_seq,
                is_continuation=self._is_continuation,
                mask_id=self.tokenizer.mask_id,
            )
        else:
            masked_T = input_ids_T
            masked_lm_positions, masked_lm_ids = neighbours(input_ids_T, is_text_T, self.targets)
        return PackedBatch(
            masked_T,
            np.repeat(np.tile(np.arange(segments), len(positions)), tokens_BS.ravel()),
            np.arange(len(masked_T)) - np.repeat(cu_seqlens[:-1], np.diff(cu_seqlens)),
            cu_seqlens.astype(np.int32),
            masked_lm_positions,
            masked_lm_ids,
            plan.next_sentence_labels[positions],
        )


def _start(start: Integers, end: Integers, kept: Integers, key: npt.NDArray[np.uint64]) -> Integers:
    """Choose how much of the surplus goes from the front; the rest goes from the back."""
    surplus = end - start - kept
    return start + (uniform(key) * (surplus + 1)).astype(np.int64)
