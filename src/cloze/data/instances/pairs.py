"""The plan of a block of an epoch: which sentence pairs are its instances, from the lengths of the sentences alone.

The plan is a pure function of seed, phase, block and lengths. Each of the blocks of an epoch has a random share of the
documents, so that memory and time before a step do not grow with the text.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from cloze.config import Range, Settings
from cloze.data.batch import Integers
from cloze.data.hashing import mix, uniform
from cloze.data.shards import JoinedOffsets, to_offsets
from cloze.errors import InputError
from cloze.tables import format_count

_IS_SHORT, _SHORT_TARGET, _SPLIT, _LABEL, _PARTNER, _ORDER, _BLOCK = range(7)  # keys of random numbers
_MAX_SWAP_DISTANCE = 64  # in the order of lengths


@dataclass(frozen=True, kw_only=True, slots=True)
class PairsConfig(Settings):
    """How documents are divided into instances."""

    next_sentence: bool = True
    """Make pairs; otherwise an instance is one segment without a next-sentence label."""
    short_seq_prob: Annotated[float, Range("[0, 1]")] = 0.1
    """Share of the instances with a shorter target length, drawn uniformly from 2 to the maximum."""


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The instances of a block in reading order. Spans are (start, end) in tokens of the data set.

    Shapes:
        a_start, a_end, b_start, b_end, next_sentence_labels [K]; B is empty without pairs.
    """

    a_start: Integers
    a_end: Integers
    b_start: Integers
    b_end: Integers
    next_sentence_labels: Integers
    num_skipped_documents: int
    """Documents of one sentence, which have no second one."""

    def __len__(self) -> int:
        return len(self.a_start)


def plan_block(
    first_sentence: Integers,
    end_sentence: Integers,
    sentence_offsets: JoinedOffsets | Integers,
    config: PairsConfig,
    *,
    max_seq_length: int,
    seed: int,
    phase: int,
    block: int,
    num_blocks: int = 1,
) -> BlockPlan:
    """Divide documents into chunks, split each into A and B, and exchange the Bs of half of the chunks.

    Args:
        first_sentence: [D], the first sentence of each document.
        end_sentence: [D], the sentence after each document's last.
        sentence_offsets: [S+1], the first token of each sentence, and the number of tokens.
        max_seq_length: including [CLS] and [SEP].
        phase: from 0.
        block: from 0, counted through all epochs.
        num_blocks: blocks of an epoch; of each `num_blocks` documents that follow each other a block has one.

    Source: Devlin et al. 2019, 3.1 (task 2); google-research/bert create_pretraining_data.py:207-339 @eedf571.

    Differs: Google draws the label of each pair independently, and uses a random B for chunks of one sentence, which
        gives about 54% random pairs; here exactly half of the pairs of a block are random. Google's random B begins
        anywhere in another document, and the displaced text is used again; here chunks exchange Bs of about the same
        length with chunks of other documents, so that every sentence is read once per epoch, and the length of a pair
        does not reveal its label. (With few large documents, some Bs are read twice and some not at all.)
    """
    key = mix(seed, phase, block)
    min_sentences = 2 if config.next_sentence else 1
    max_tokens = max_seq_length - 3 if config.next_sentence else max_seq_length - 2
    document = np.flatnonzero(end_sentence - first_sentence >= min_sentences)
    skipped = len(first_sentence) - len(document)
    group = np.arange(0, len(document), num_blocks)
    shift = mix(seed, phase, block // num_blocks, _BLOCK, group) % np.uint64(num_blocks)
    chosen = group + (shift.astype(np.int64) + block) % num_blocks
    document = document[chosen[chosen < len(document)]]
    # offsets of the sentences of these documents, one after another, each document with the end of its last sentence
    num_bounds = end_sentence[document] - first_sentence[document] + 1
    bounds = to_offsets(num_bounds)
    sentence = np.repeat(first_sentence[document] - bounds[:-1], num_bounds) + np.arange(bounds[-1])
    offsets = sentence_offsets[sentence]
    document, start, end = _cut(document, bounds, sentence, offsets, config, key, min_sentences, max_tokens)
    order = np.argsort(mix(key, _ORDER, np.arange(len(start))), kind="stable")
    if not config.next_sentence:
        nothing = np.zeros(len(start), np.int64)
        return BlockPlan(offsets[start][order], offsets[end][order], nothing, nothing, nothing, skipped)
    if len(np.unique(document)) < 2:
        documents = format_count(len(first_sentence), "document")
        what = (
            f"the text has {documents}, {skipped:,} of one sentence; next-sentence pairs need two with more"
        )
        remedy = "Give more documents, or do without pairs: `pairs.next_sentence=false`"
        raise InputError(what, remedy=remedy)
    middle = start + 1 + (uniform(key, _SPLIT, np.arange(len(start))) * (end - start - 1)).astype(np.int64)
    partner, label = _exchange(document, offsets[end] - offsets[middle], key)
    return BlockPlan(
        offsets[start][order],
        offsets[middle][order],
        offsets[middle[partner]][order],
        offsets[end[partner]][order],
        label[order],
        skipped,
    )


def _cut(
    document: Integers,
    bounds: Integers,
    sentence: Integers,
    offsets: Integers,
    config: PairsConfig,
    key: npt.NDArray[np.uint64],
    min_sentences: int,
    max_tokens: int,
) -> tuple[Integers, Integers, Integers]:
    """Divide each document into chunks of whole sentences that just reach their target length.

    Pass k over the arrays finds the k-th chunk of every document that has one.
    """
    position, last = bounds[:-1], bounds[1:] - 1
    chunks: list[tuple[Integers, Integers, Integers]] = []
    while len(document):
        short = uniform(key, _IS_SHORT, sentence[position]) < config.short_seq_prob
        shorter = 2 + (uniform(key, _SHORT_TARGET, sentence[position]) * (max_tokens - 1)).astype(np.int64)
        target = np.where(short, shorter, max_tokens)
        end = np.searchsorted(offsets, offsets[position] + target)
        end = np.minimum(np.maximum(end, position + min_sentences), last)
        end = np.where(last - end < min_sentences, last, end)  # a rest too small for a chunk joins this one
        chunks.append((document, position, end))
        has_more = end < last
        document, position, last = document[has_more], end[has_more], last[has_more]
    if not chunks:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    documents, starts, ends = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    order = np.argsort(starts)
    return documents[order], starts[order], ends[order]


def _exchange(
    document: Integers, b_length: Integers, key: npt.NDArray[np.uint64]
) -> tuple[Integers, Integers]:
    """Label half of the chunks NotNext; return the chunk whose B each one gets, and its label (0 = IsNext)."""
    chunks = np.arange(len(document))
    rank = np.argsort(mix(key, _LABEL, chunks), kind="stable")
    label = np.zeros(len(chunks), np.int64)
    label[rank[: len(chunks) // 2]] = 1
    exchanging = np.flatnonzero(label)
    exchanging = exchanging[np.lexsort((mix(key, _PARTNER, exchanging), b_length[exchanging]))]
    donor = _swap_same_document(np.roll(exchanging, -1), document[exchanging], document)
    for number in np.unique(document[donor[document[donor] == document[exchanging]]]):
        stuck = np.flatnonzero((document[exchanging] == number) & (document[donor] == number))
        # the nearest length of B in other documents than this dominant one, whose Bs are read more than once
        others = np.flatnonzero(document != number)
        others = others[np.argsort(b_length[others], kind="stable")]
        nearest = np.searchsorted(b_length[others], b_length[exchanging[stuck]])
        donor[stuck] = others[np.minimum(nearest, len(others) - 1)]
    partner = chunks.copy()
    partner[exchanging] = donor
    return partner, label


def _swap_same_document(donor: Integers, recipient_document: Integers, document: Integers) -> Integers:
    """Swap donors of about the same length until as few chunks as possible get a B of their own document.

    `donor` is ordered by the lengths of the Bs; `document` is that of every chunk.
    """
    donor = donor.copy()
    for distance in range(1, min(_MAX_SWAP_DISTANCE, len(donor))):
        is_same = document[donor] == recipient_document
        if not is_same.any():
            break
        near, far = recipient_document[:-distance], recipient_document[distance:]
        donor_near, donor_far = document[donor[:-distance]], document[donor[distance:]]
        can_swap = (is_same[:-distance] | is_same[distance:]) & (donor_far != near) & (donor_near != far)
        # A swap moves two donors; of two swaps that share one, the second waits for another round.
        can_swap[distance:] &= ~can_swap[:-distance].copy()
        first = np.flatnonzero(can_swap)
        donor[first], donor[first + distance] = donor[first + distance], donor[first]
    return donor
