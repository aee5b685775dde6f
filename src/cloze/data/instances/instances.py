"""Pre-training instances: sources that return a batch by block and positions.

A source is a pure function: the same block, positions and progress give the same batch, in any order. Blocks are
counted through all epochs; an epoch of up to 134 million tokens is one block.

Shapes: T tokens in the packed batch, B sequences, P masked positions, S segments of a sequence (A and B, or one).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.data.batch import DataPosition, Integers, PretrainingBatch
from cloze.data.dataset import Documents
from cloze.data.hashing import mix, uniform
from cloze.data.instances.masking import MaskingConfig, Targets, mask_tokens
from cloze.data.instances.pairs import BlockPlan, PairsConfig, plan_block
from cloze.errors import InputError
from cloze.tokenization.tokenizer import Tokenizer

BlockPlans: TypeAlias = dict[tuple[int, int], BlockPlan]
"""Plans by phase and block. The sources of all phases of a run share one table, since only one of them is in use."""

_FRONT_OF_A, _FRONT_OF_B, _MASKS = 11, 12, 13  # keys of the random numbers of an instance
_MIN_BLOCK_DOCUMENTS = 1024


class InstanceSource(Protocol):
    """A source of training instances."""

    @property
    def num_blocks(self) -> int:
        """Blocks of an epoch."""

    def num_instances(self, block: int) -> int:
        """Return the number of instances of a block."""

    def batch(self, block: int, positions: Integers, *, progress: float = 1.0) -> PretrainingBatch:
        """Return instances of a block, masked at the rates for a share `progress` of the run."""


def take(
    source: InstanceSource, position: DataPosition, count: int
) -> tuple[list[tuple[int, Integers]], DataPosition]:
    """Return the next `count` instances as (block, indices), across blocks, and the position after them."""
    parts: list[tuple[int, Integers]] = []
    block, index = position.epoch * source.num_blocks + position.block, position.index
    if index and index >= source.num_instances(block):
        raise InputError(
            f"position {index:,} is beyond the instances of block {block}", where="training state"
        )
    while count:
        available = source.num_instances(block)
        if available == 0:
            raise InputError("makes no instance", where="corpus", remedy="Give more text")
        taken = min(count, available - index)
        parts.append((block, np.arange(index, index + taken)))
        count -= taken
        index += taken
        if index == available:
            block, index = block + 1, 0
    epoch, block = divmod(block, source.num_blocks)
    position = replace(position, epoch=epoch, block=block, index=index)
    return [part for part in parts if len(part[1])], position


def micro_batches(
    source: InstanceSource, block: int, positions: Integers, max_tokens: int, *, progress: float = 1.0
) -> Iterator[PretrainingBatch]:
    """Split instances into batches of at most `max_tokens` tokens, with similar lengths together."""
    batch = source.batch(block, positions, progress=progress)
    bounds = batch.cu_seqlens
    start = 0
    while start < len(positions):
        last = int(np.searchsorted(bounds, bounds[start] + max_tokens, side="right")) - 1
        end = max(start + 1, last)
        yield batch.sequences(start, end)
        start = end


@dataclass(slots=True)
class DynamicInstances:
    """Pairs and masks drawn on reading from the documents of a data set, different in each epoch."""

    documents: Documents
    tokenizer: Tokenizer
    max_seq_length: int
    max_predictions_per_seq: int | None
    pairs: PairsConfig
    masking: MaskingConfig
    seed: int
    phase: int
    targets: Targets = "masked"
    plans: BlockPlans = field(default_factory=dict)
    max_block_tokens: int = 2**27
    """An epoch of more tokens has several blocks, unless its documents are few. Instances depend on it."""
    num_blocks: int = field(init=False)

    def __post_init__(self) -> None:
        num_blocks = -(-self.documents.num_tokens // self.max_block_tokens)
        num_usable = int((self.documents.num_sentences > self.pairs.next_sentence).sum())
        self.num_blocks = max(1, min(num_blocks, num_usable // _MIN_BLOCK_DOCUMENTS))

    def plan(self, block: int) -> BlockPlan:
        """Return the plan of a block, which is kept until a batch of a later block or phase is drawn."""
        if (self.phase, block) not in self.plans:
            self.plans[self.phase, block] = plan_block(
                self.documents.first_sentence,
                self.documents.end_sentence,
                self.documents.sentence_offsets,
                self.pairs,
                max_seq_length=self.max_seq_length,
                seed=self.seed,
                phase=self.phase,
                block=block,
                num_blocks=self.num_blocks,
            )
        return self.plans[self.phase, block]

    def num_instances(self, block: int) -> int:
        """Return the number of instances of a block."""
        return len(self.plan(block))

    def batch(self, block: int, positions: Integers, *, progress: float = 1.0) -> PretrainingBatch:
        """Return the instances at these positions: pairs of the block's plan, truncated and masked.

        Source: Devlin et al. 2019, 5.1 ("trained using a standard left-to-right language model"), of adjacent tokens.

        Differs: Google removes each surplus token from the front or the back at random; here the number removed from
        the front is drawn at once, uniformly from none to all.
        """
        plan = self.plan(block)
        for earlier in [key for key in self.plans if key < (self.phase, block)]:
            del self.plans[earlier]
        segments = 2 if self.pairs.next_sentence else 1
        max_tokens = self.max_seq_length - segments - 1
        a_length = plan.a_end[positions] - plan.a_start[positions]
        b_length = plan.b_end[positions] - plan.b_start[positions]
        # the longer of A and B is truncated, token by token, until both fit; at equal lengths B is
        kept_a = np.minimum(a_length, np.maximum(max_tokens - b_length, max_tokens - max_tokens // 2))
        kept_b = np.minimum(b_length, max_tokens - kept_a)
        order = np.argsort(-(kept_a + kept_b), kind="stable")
        positions, kept_a, kept_b = positions[order], kept_a[order], kept_b[order]
        random_B = mix(self.seed, self.phase, block, positions)
        front_a, front_b = mix(_FRONT_OF_A, after=random_B), mix(_FRONT_OF_B, after=random_B)
        a_start = _start(plan.a_start[positions], plan.a_end[positions], kept_a, front_a)
        b_start = _start(plan.b_start[positions], plan.b_end[positions], kept_b, front_b)
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
        input_ids_T[is_text_T], continues = self.documents.gather(starts_BS.ravel(), kept_BS.ravel())
        continues_T = None
        if continues is not None:
            continues_T = np.zeros(len(is_text_T), np.bool_)
            continues_T[is_text_T] = continues
        if self.targets == "masked":
            masked_T, masked_lm_positions, masked_lm_ids = mask_tokens(
                input_ids_T,
                cu_seqlens,
                is_text_T,
                mix(_MASKS, after=random_B),
                self.masking.at(progress),
                max_predictions_per_seq=self.max_predictions_per_seq,
                is_continuation=self.tokenizer.is_continuation,
                mask_id=self.tokenizer.mask_id,
                continues_T=continues_T,
            )
        else:
            # in the same sequence, which begins with [CLS] and ends with [SEP]
            text_P = np.flatnonzero(is_text_T)
            masked_T, masked_lm_ids = input_ids_T, input_ids_T[text_P]
            masked_lm_positions = text_P + (-1 if self.targets == "next" else 1)
        return PretrainingBatch.from_flat(
            masked_T,
            np.repeat(np.tile(np.arange(segments), len(positions)), tokens_BS.ravel()),
            np.diff(cu_seqlens).tolist(),
            masked_lm_positions=masked_lm_positions,
            masked_lm_ids=masked_lm_ids,
            next_sentence_labels=plan.next_sentence_labels[positions],
        )


def _start(start: Integers, end: Integers, kept: Integers, key: npt.NDArray[np.uint64]) -> Integers:
    """Return new starts: a random part of the surplus is removed from the front, the rest from the back."""
    surplus = end - start - kept
    return start + (uniform(key) * (surplus + 1)).astype(np.int64)
