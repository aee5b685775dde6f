"""Measurements of the training instances drawn from a data set, next to the values that the paper asks for."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from cloze.data.audit_text import Distribution, distribution_of
from cloze.data.batch import PretrainingBatch
from cloze.data.dataset import Documents
from cloze.data.instances.instances import DynamicInstances
from cloze.data.instances.masking import num_predictions
from cloze.data.shards import Integers
from cloze.errors import InputError
from cloze.progress import Progress

_LABELS: Mapping[int, Literal["IsNext", "NotNext"]] = {0: "IsNext", 1: "NotNext"}


@dataclass(frozen=True, slots=True)
class Measure:
    """A measurement, and its expected value if there is one."""

    name: str
    measured: float
    unit: Literal["share", "tokens"]
    expected: float | None = None
    tolerance: float = 0.0
    """Deviation that chance or rounding explains."""

    @property
    def holds(self) -> bool:
        """Whether the measurement is as expected."""
        return self.expected is None or abs(self.measured - self.expected) <= self.tolerance + 1e-9


@dataclass(frozen=True, slots=True)
class InstanceStats:
    """The instances of one length in the first epoch."""

    max_seq_length: int
    max_predictions_per_seq: int | None
    instances: int
    sampled: int
    skipped_documents: int
    """Documents of one sentence, which has no next one."""
    lengths: Distribution
    measures: tuple[Measure, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the model reads it, and the one to predict there."""

    read: str
    target: str | None


@dataclass(frozen=True, slots=True)
class InstanceExample:
    """An instance as text."""

    position: int
    label: Literal["IsNext", "NotNext"] | None
    documents: tuple[int, ...]
    """The document of each segment, by its number in the data set from 0."""
    segments: tuple[tuple[Token, ...], ...]
    """Without [CLS] and [SEP]."""


@dataclass(frozen=True, slots=True)
class _Sequences:
    """One value per sampled instance."""

    tokens: Integers
    b_tokens: Integers
    predictions: Integers
    labels: Integers


def measure_instances(
    source: DynamicInstances, sample: int, progress: Progress, *, batch_instances: int
) -> InstanceStats:
    """Measure the plan of the first epoch, and at most `sample` of its first instances."""
    sampled = min(sample, source.num_instances(0))
    if not sampled:
        raise InputError("makes no instance", where="corpus", remedy="Give more text")
    rows, masked, kept = [], 0, 0
    with progress.bar(f"drawing {source.max_seq_length} tokens", total=sampled, unit="instances") as bar:
        for start in range(0, sampled, batch_instances):
            positions = np.arange(start, min(start + batch_instances, sampled))
            batch = source.batch(0, positions)
            read = batch.input_ids[batch.masked_lm_positions]
            masked += int((read == source.tokenizer.mask_id).sum())
            kept += int((read == batch.masked_lm_ids).sum())
            rows.append(_describe_sequences(batch))
            bar.advance(len(positions))
    sequences = _Sequences(*np.concatenate(rows, axis=1))
    measures = _measure_lengths(source, sequences)
    if source.pairs.next_sentence:
        measures += _measure_pairs(source, sequences)
    measures += _measure_masks(source, sequences, masked, kept)
    step = max(1, source.max_seq_length // 16)
    return InstanceStats(
        max_seq_length=source.max_seq_length,
        max_predictions_per_seq=source.max_predictions_per_seq,
        instances=source.num_instances(0),
        sampled=sampled,
        skipped_documents=source.plan(0).num_skipped_documents,
        lengths=distribution_of(sequences.tokens, np.arange(1, source.max_seq_length + 1, step)),
        measures=tuple(measures),
    )


def _describe_sequences(batch: PretrainingBatch) -> Integers:
    """Return the fields of `_Sequences` as rows."""
    starts = batch.cu_seqlens[:-1]
    return np.stack(
        [
            np.diff(batch.cu_seqlens),
            np.add.reduceat(batch.token_type_ids, starts) - 1,
            np.diff(np.searchsorted(batch.masked_lm_positions, batch.cu_seqlens)),
            batch.next_sentence_labels,
        ]
    )


def _measure_lengths(source: DynamicInstances, sequences: _Sequences) -> list[Measure]:
    plan, maximum = source.plan(0), source.max_seq_length
    number, special = len(sequences.tokens), 3 if source.pairs.next_sentence else 2
    planned = int((plan.a_end - plan.a_start + plan.b_end - plan.b_start)[:number].sum())
    kept = int(sequences.tokens.sum()) - special * number
    return [
        Measure("positions filled", float(sequences.tokens.mean()) / maximum, "share"),
        Measure("sequences of full length", float((sequences.tokens == maximum).mean()), "share"),
        Measure("tokens cut off to fit", 1 - kept / planned, "share"),
    ]


def _measure_pairs(source: DynamicInstances, sequences: _Sequences) -> list[Measure]:
    """Measure labels and partners on the whole plan, lengths on the sample."""
    plan, documents = source.plan(0), source.documents
    starts = documents.sentence_offsets[documents.first_sentence]
    is_random = plan.next_sentence_labels == 1
    document_a, document_b = (np.searchsorted(starts, s, side="right") for s in (plan.a_start, plan.b_start))
    is_same = document_a == document_b
    follows = plan.a_end == plan.b_start
    number = len(sequences.tokens)
    chance = math.sqrt(source.max_seq_length / number)  # each length is labeled a little unevenly

    def guess(lengths: Integers) -> float:
        """Return the accuracy of guessing the more frequent label of each length."""
        cells = np.zeros((int(lengths.max()) + 1, 2), np.int64)
        np.add.at(cells, (lengths, sequences.labels), 1)
        return float(cells.max(axis=1).sum()) / number

    return [
        Measure("pairs with a random B (NotNext)", float(is_random.mean()), "share", 0.5, 1 / len(plan)),
        Measure("random Bs from the document of A", _share(is_same[is_random]), "share", 0.0),
        Measure("other Bs that follow their A", _share(follows[~is_random]), "share", 1.0),
        Measure("labels guessed right from the length", guess(sequences.tokens), "share", 0.5, chance),
        Measure("labels guessed right from B's length", guess(sequences.b_tokens), "share", 0.5, chance),
    ]


def _measure_masks(source: DynamicInstances, sequences: _Sequences, masked: int, kept: int) -> list[Measure]:
    config, maximum, vocab_size = source.masking, source.max_predictions_per_seq, source.tokenizer.vocab_size
    number = int(sequences.predictions.sum())
    quota = num_predictions(sequences.tokens, config, maximum)
    unlimited = num_predictions(sequences.tokens, config, None)
    # A random token is any of the vocabulary, including [MASK] and the original one.
    same = config.random_token_prob / vocab_size
    to_mask, to_random = config.mask_token_prob, config.random_token_prob

    def replaced(name: str, count: int, prob: float) -> Measure:
        tolerance = 4 * math.sqrt(prob * (1 - prob) / number)
        return Measure(f"of these, {name}", count / number, "share", prob, tolerance)

    # The number of predictions is rounded, and whole words may not fill it.
    rounding, unfilled = 0.5, 0.5 if config.whole_word else 0.0
    length, mean = float(sequences.tokens.mean()), float(sequences.predictions.mean())
    tolerance = (rounding + unfilled) / length
    return [
        Measure("positions predicted", mean / length, "share", config.masked_lm_prob, tolerance),
        Measure("predictions per sequence", mean, "tokens", float(quota.mean()), unfilled),
        Measure("sequences limited by the maximum", float((quota < unlimited).mean()), "share"),
        replaced("replaced by [MASK]", masked, to_mask + same),
        replaced("replaced by a random token", number - masked - kept, to_random - 2 * same),
        replaced("left as they are", kept, 1 - to_mask - to_random + same),
    ]


def _share(flags: npt.NDArray[np.bool_]) -> float:
    return float(flags.mean()) if len(flags) else 0.0


def show_instances(
    source: DynamicInstances, all_documents: Documents, count: int
) -> Iterator[InstanceExample]:
    """Yield the first instances of the first epoch as text; `all_documents` numbers those of both splits."""
    plan, vocabulary = source.plan(0), source.tokenizer.tokens
    document_starts = all_documents.sentence_offsets[all_documents.first_sentence]
    for position in range(min(count, len(plan))):
        batch = source.batch(0, np.array([position]))
        targets = dict(zip(batch.masked_lm_positions.tolist(), batch.masked_lm_ids.tolist(), strict=True))
        tokens = [
            Token(vocabulary[token_id], vocabulary[targets[place]] if place in targets else None)
            for place, token_id in enumerate(batch.input_ids.tolist())
        ]
        first_of_b = int((batch.token_type_ids == 0).sum())
        segments, starts = [tokens[1 : first_of_b - 1]], [plan.a_start[position]]
        if source.pairs.next_sentence:
            segments.append(tokens[first_of_b:-1])
            starts.append(plan.b_start[position])
        yield InstanceExample(
            position,
            _LABELS[int(plan.next_sentence_labels[position])] if source.pairs.next_sentence else None,
            tuple((np.searchsorted(document_starts, starts, side="right") - 1).tolist()),
            tuple(map(tuple, segments)),
        )
