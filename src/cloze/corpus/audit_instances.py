"""The instances that training will draw from a data set, beside what the paper says they should be."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from cloze.corpus.audit_text import Distribution, Integers, distribution_of
from cloze.corpus.batches import DrawnInstances, PackedBatch
from cloze.corpus.masking import predictions_due
from cloze.corpus.store import Documents
from cloze.errors import InputError
from cloze.progress import Progress

_INSTANCES_AT_ONCE = 1024
_LABELS: Mapping[int, Literal["IsNext", "NotNext"]] = {0: "IsNext", 1: "NotNext"}


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure, and what it should be if it should be anything."""

    name: str
    measured: float
    unit: Literal["share", "pieces"]
    expected: float | None = None
    tolerance: float = 0.0
    """How far chance or rounding may take it."""

    @property
    def holds(self) -> bool:
        """Whether the figure is what it should be."""
        return self.expected is None or abs(self.measured - self.expected) <= self.tolerance + 1e-9


@dataclass(frozen=True, slots=True)
class Drawn:
    """The instances of one length, as the training's first epoch draws them."""

    max_seq_length: int
    max_predictions_per_seq: int | None
    instances: int
    sampled: int
    skipped_documents: int
    """Of one sentence, which has no next."""
    lengths: Distribution
    measures: tuple[Measure, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """A piece as the model reads it, and what it is to predict there."""

    read: str
    target: str | None


@dataclass(frozen=True, slots=True)
class Shown:
    """An instance for a person to read."""

    position: int
    label: Literal["IsNext", "NotNext"] | None
    documents: tuple[int, ...]
    """From which each segment comes, by number in the data set, from 0."""
    segments: tuple[tuple[Token, ...], ...]
    """Without [CLS] and [SEP]."""


def measure_instances(source: DrawnInstances, sample: int, progress: Progress) -> Drawn:
    """Draw the first instances of the first epoch, at most `sample` of them, and judge them and its plan.

    Raises:
        InputError: there is no instance, or pairs are asked for and fewer than two documents have two sentences.
    """
    sampled = min(sample, source.num_instances(0))
    if not sampled:
        raise InputError("makes no instance", where="corpus", remedy="Give more text")
    rows, hidden, kept = [], 0, 0
    with progress.bar(f"drawing {source.max_seq_length} tokens", total=sampled, unit="instances") as bar:
        for start in range(0, sampled, _INSTANCES_AT_ONCE):
            positions = np.arange(start, min(start + _INSTANCES_AT_ONCE, sampled))
            batch = source.batch(0, positions)
            read = batch.input_ids[batch.masked_lm_positions]
            hidden += int((read == source.tokenizer.mask_id).sum())
            kept += int((read == batch.masked_lm_ids).sum())
            rows.append(_describe_sequences(batch))
            bar.advance(len(positions))
    sequences = _Sequences(*np.concatenate(rows, axis=1))
    measures = _judge_lengths(source, sequences)
    if source.pairs.next_sentence:
        measures += _judge_pairs(source, sequences)
    measures += _judge_masks(source, sequences, hidden, kept)
    step = max(1, source.max_seq_length // 16)
    return Drawn(
        max_seq_length=source.max_seq_length,
        max_predictions_per_seq=source.max_predictions_per_seq,
        instances=source.num_instances(0),
        sampled=sampled,
        skipped_documents=source.plan(0).num_skipped_documents,
        lengths=distribution_of(sequences.tokens, np.arange(1, source.max_seq_length + 1, step)),
        measures=tuple(measures),
    )


@dataclass(frozen=True, slots=True)
class _Sequences:
    """Of the sampled instances, in any order."""

    tokens: Integers
    b_pieces: Integers
    predictions: Integers
    labels: Integers


def _describe_sequences(batch: PackedBatch) -> Integers:
    """Return the fields of `_Sequences`, one a row."""
    starts = batch.cu_seqlens[:-1]
    return np.stack(
        [
            np.diff(batch.cu_seqlens),
            np.add.reduceat(batch.token_type_ids, starts) - 1,
            np.diff(np.searchsorted(batch.masked_lm_positions, batch.cu_seqlens)),
            batch.next_sentence_labels,
        ]
    )


def _judge_lengths(source: DrawnInstances, sequences: _Sequences) -> list[Measure]:
    plan, room = source.plan(0), source.max_seq_length
    number, special = len(sequences.tokens), 3 if source.pairs.next_sentence else 2
    planned = int((plan.a_end - plan.a_start + plan.b_end - plan.b_start)[:number].sum())
    kept = int(sequences.tokens.sum()) - special * number
    return [
        Measure("places filled", float(sequences.tokens.mean()) / room, "share"),
        Measure("sequences of full length", float((sequences.tokens == room).mean()), "share"),
        Measure("pieces cut off to fit", 1 - kept / planned, "share"),
    ]


def _judge_pairs(source: DrawnInstances, sequences: _Sequences) -> list[Measure]:
    """Measure labels and partners on the whole plan, lengths on the sample."""
    plan, documents = source.plan(0), source.documents
    starts = documents.sentence_offsets[documents.first_sentence]
    is_random = plan.next_sentence_labels == 1
    document_a, document_b = (np.searchsorted(starts, s, side="right") for s in (plan.a_start, plan.b_start))
    own = document_a == document_b
    follows = plan.a_end == plan.b_start
    number = len(sequences.tokens)
    chance = math.sqrt(source.max_seq_length / number)  # of so many lengths, each a little uneven

    def guess(lengths: Integers) -> float:
        cells = np.zeros((int(lengths.max()) + 1, 2), np.int64)
        np.add.at(cells, (lengths, sequences.labels), 1)
        return float(cells.max(axis=1).sum()) / number

    return [
        Measure("pairs with a random B (NotNext)", float(is_random.mean()), "share", 0.5, 1 / len(plan)),
        Measure("random Bs from the document of A", _share(own[is_random]), "share", 0.0),
        Measure("other Bs that follow their A", _share(follows[~is_random]), "share", 1.0),
        Measure("labels guessed right from the length", guess(sequences.tokens), "share", 0.5, chance),
        Measure("labels guessed right from B's length", guess(sequences.b_pieces), "share", 0.5, chance),
    ]


def _judge_masks(source: DrawnInstances, sequences: _Sequences, hidden: int, kept: int) -> list[Measure]:
    config, most, vocab_size = source.masking, source.max_predictions_per_seq, source.tokenizer.vocab_size
    number = int(sequences.predictions.sum())
    quota = predictions_due(sequences.tokens, config, most)
    uncapped = predictions_due(sequences.tokens, config, None)
    # A random piece is any of the vocabulary: [MASK], too, and the one that stood there.
    same = config.random_token_prob / vocab_size
    to_mask, to_random = config.mask_token_prob, config.random_token_prob

    def replaced(name: str, count: int, prob: float) -> Measure:
        tolerance = 4 * math.sqrt(prob * (1 - prob) / number)
        return Measure(f"of these, {name}", count / number, "share", prob, tolerance)

    # Whole numbers are predicted; and words may not fill what they were given.
    rounding, unfilled = 0.5, 0.5 if config.whole_word else 0.0
    length, mean = float(sequences.tokens.mean()), float(sequences.predictions.mean())
    return [
        Measure(
            "places predicted", mean / length, "share", config.masked_lm_prob, (rounding + unfilled) / length
        ),
        Measure("predictions a sequence", mean, "pieces", float(quota.mean()), unfilled),
        Measure("sequences with fewer for the cap's sake", float((quota < uncapped).mean()), "share"),
        replaced("replaced by [MASK]", hidden, to_mask + same),
        replaced("replaced by a random piece", number - hidden - kept, to_random - 2 * same),
        replaced("left as they are", kept, 1 - to_mask - to_random + same),
    ]


def _share(flags: npt.NDArray[np.bool_]) -> float:
    return float(flags.mean()) if len(flags) else 0.0


def show_instances(source: DrawnInstances, every: Documents, count: int) -> Iterator[Shown]:
    """Yield the first instances of the first epoch in full; `every` numbers the documents of both splits."""
    plan, pieces = source.plan(0), source.tokenizer.pieces
    document_starts = every.sentence_offsets[every.first_sentence]
    for position in range(min(count, len(plan))):
        batch = source.batch(0, np.array([position]))
        targets = dict(zip(batch.masked_lm_positions.tolist(), batch.masked_lm_ids.tolist(), strict=True))
        tokens = [
            Token(pieces[piece], pieces[targets[place]] if place in targets else None)
            for place, piece in enumerate(batch.input_ids.tolist())
        ]
        first_of_b = int((batch.token_type_ids == 0).sum())
        segments, starts = [tokens[1 : first_of_b - 1]], [plan.a_start[position]]
        if source.pairs.next_sentence:
            segments.append(tokens[first_of_b:-1])
            starts.append(plan.b_start[position])
        yield Shown(
            position,
            _LABELS[int(plan.next_sentence_labels[position])] if source.pairs.next_sentence else None,
            tuple((np.searchsorted(document_starts, starts, side="right") - 1).tolist()),
            tuple(map(tuple, segments)),
        )
