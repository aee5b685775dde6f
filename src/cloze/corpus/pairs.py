"""Which text makes up an epoch's instances: sentence pairs for next-sentence prediction, planned from lengths alone.

The plan is a pure function of (seed, phase, epoch) and the lengths of the sentences. No text is read for it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cloze.corpus.hashing import mix, uniform
from cloze.errors import InputError

Integers = npt.NDArray[np.int64]

_IS_SHORT, _SHORT_TARGET, _SPLIT, _LABEL, _PARTNER, _ORDER = range(6)  # which draw is meant
_NEIGHBOURS_TRIED = 64  # how far in the order of lengths a chunk looks for another document's B


@dataclass(frozen=True, kw_only=True, slots=True)
class PairsConfig:
    """How documents are cut into instances."""

    next_sentence: bool = True
    """Make pairs; without, an instance is one segment and nothing is learned about what follows what."""
    short_seq_prob: float = 0.1
    """Share of the instances that aim at a shorter length, drawn evenly from 2 to the longest."""

    def __post_init__(self) -> None:
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob {self.short_seq_prob} is not in [0, 1]")


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """An epoch's instances, in the order in which they are read. Spans are (start, end) in pieces of the corpus.

    Shapes:
        a_start, a_end, b_start, b_end, next_sentence_labels [K]; without pairs B is empty.
    """

    a_start: Integers
    a_end: Integers
    b_start: Integers
    b_end: Integers
    next_sentence_labels: Integers
    num_skipped_documents: int
    """Documents of one sentence: they have no second one to follow."""

    def __len__(self) -> int:
        return len(self.a_start)


def plan_epoch(
    first_sentence: Integers,
    end_sentence: Integers,
    sentence_offsets: Integers,
    config: PairsConfig,
    *,
    max_seq_length: int,
    seed: int,
    phase: int,
    epoch: int,
) -> EpochPlan:
    """Cut all documents into chunks, split each into A and B, and give half of the chunks another one's B.

    Args:
        first_sentence: [D], of each document.
        end_sentence: [D], the sentence after each document's last.
        sentence_offsets: [S+1], the first piece of each sentence, and the number of pieces.
        config: lengths and whether to make pairs.
        max_seq_length: with [CLS] and [SEP].
        seed: with `phase` and `epoch`, what the plan is a function of.
        phase: number of the phase.
        epoch: number of the epoch.

    Raises:
        InputError: pairs are asked for and fewer than two documents have two sentences.

    Source: Devlin et al. 2019, 3.1 (task 2); google-research/bert create_pretraining_data.py:207-339 @eedf571.

    Differs: Google draws the label of each pair by itself, and takes a random B where a chunk has one sentence, which
        gives about 54% random pairs; here exactly half of an epoch's pairs are random. Google's random B begins
        anywhere in another document, and the text it displaces is put back; here chunks exchange their Bs with
        chunks of other documents whose B is as long, so every sentence is read once an epoch, and the length of a
        pair does not give its label away. (Of a few large documents, some Bs are read twice and some not.)
    """
    key = mix(seed, phase, epoch)
    least = 2 if config.next_sentence else 1
    room = max_seq_length - 3 if config.next_sentence else max_seq_length - 2
    document, start, end = _cut(first_sentence, end_sentence, sentence_offsets, config, key, least, room)
    skipped = int((end_sentence - first_sentence < least).sum())
    order = np.argsort(mix(key, _ORDER, np.arange(len(start))), kind="stable")
    if not config.next_sentence:
        spans = (sentence_offsets[start][order], sentence_offsets[end][order])
        nothing = np.zeros(len(start), np.int64)
        return EpochPlan(*spans, nothing, nothing, nothing, skipped)
    if len(np.unique(document)) < 2:
        what = f"{len(first_sentence)} documents, {skipped} of one sentence; pairs need two with more"
        remedy = "Give more documents, or do without pairs: --set pairs.next_sentence=false"
        raise InputError(what, where="text", remedy=remedy)
    middle = start + 1 + (uniform(key, _SPLIT, np.arange(len(start))) * (end - start - 1)).astype(np.int64)
    partner, label = _exchange(document, sentence_offsets[end] - sentence_offsets[middle], key)
    return EpochPlan(
        sentence_offsets[start][order],
        sentence_offsets[middle][order],
        sentence_offsets[middle[partner]][order],
        sentence_offsets[end[partner]][order],
        label[order],
        skipped,
    )


def _cut(
    first_sentence: Integers,
    end_sentence: Integers,
    sentence_offsets: Integers,
    config: PairsConfig,
    key: npt.NDArray[np.uint64],
    least: int,
    room: int,
) -> tuple[Integers, Integers, Integers]:
    """Cut each document into chunks of whole sentences that just reach their target length.

    All documents advance together: pass k over the arrays finds the k-th chunk of every document that has one.
    """
    document = np.flatnonzero(end_sentence - first_sentence >= least)
    cursor, last = first_sentence[document], end_sentence[document]
    chunks: list[tuple[Integers, Integers, Integers]] = []
    while len(document):
        short = uniform(key, _IS_SHORT, cursor) < config.short_seq_prob
        shorter = 2 + (uniform(key, _SHORT_TARGET, cursor) * (room - 1)).astype(np.int64)
        target = np.where(short, shorter, room)
        end = np.searchsorted(sentence_offsets, sentence_offsets[cursor] + target)
        end = np.minimum(np.maximum(end, cursor + least), last)
        end = np.where(last - end < least, last, end)  # a rest too small for a chunk joins the one before it
        chunks.append((document, cursor, end))
        going_on = end < last
        document, cursor, last = document[going_on], end[going_on], last[going_on]
    if not chunks:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    documents, starts, ends = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    order = np.argsort(starts)
    return documents[order], starts[order], ends[order]


def _exchange(
    document: Integers, b_length: Integers, key: npt.NDArray[np.uint64]
) -> tuple[Integers, Integers]:
    """Label half of the chunks NotNext and let each of them take the B of another document's chunk.

    Returns:
        For each chunk, the one whose B it takes, and its label: 0 = IsNext, 1 = NotNext.
    """
    chunks = np.arange(len(document))
    rank = np.argsort(mix(key, _LABEL, chunks), kind="stable")
    label = np.zeros(len(chunks), np.int64)
    label[rank[: len(chunks) // 2]] = 1
    exchanging = np.flatnonzero(label)
    exchanging = exchanging[np.lexsort((mix(key, _PARTNER, exchanging), b_length[exchanging]))]
    giver = _part_from_own(np.roll(exchanging, -1), document[exchanging], document)
    for own in np.unique(document[giver[document[giver] == document[exchanging]]]):
        stuck = np.flatnonzero((document[exchanging] == own) & (document[giver] == own))
        giver[stuck] = _foreign_of_like_length(exchanging[stuck], document, b_length)
    partner = chunks.copy()
    partner[exchanging] = giver
    return partner, label


def _part_from_own(giver: Integers, own: Integers, document: Integers) -> Integers:
    """Swap givers of about the same length until nobody is given a B of its own document, as far as that goes.

    Args:
        giver: the chunks whose Bs are given, in the order of the Bs' lengths.
        own: the document of each one's taker.
        document: the document of every chunk.
    """
    giver = giver.copy()
    for distance in range(1, min(_NEIGHBOURS_TRIED, len(giver))):
        clashing = document[giver] == own
        if not clashing.any():
            break
        near, far = own[:-distance], own[distance:]
        given_near, given_far = document[giver[:-distance]], document[giver[distance:]]
        swappable = (clashing[:-distance] | clashing[distance:]) & (given_far != near) & (given_near != far)
        # A swap moves two givers; of two swaps that share one, the second waits for another round.
        swappable[distance:] &= ~swappable[:-distance].copy()
        first = np.flatnonzero(swappable)
        giver[first], giver[first + distance] = giver[first + distance], giver[first]
    return giver


def _foreign_of_like_length(takers: Integers, document: Integers, b_length: Integers) -> Integers:
    """Return for chunks of one document, which holds much of the text, the nearest in length of all others.

    Their Bs are then read more than once an epoch.
    """
    foreign = np.flatnonzero(document != document[takers[0]])
    foreign = foreign[np.argsort(b_length[foreign], kind="stable")]
    place = np.searchsorted(b_length[foreign], b_length[takers])
    return foreign[np.minimum(place, len(foreign) - 1)]
