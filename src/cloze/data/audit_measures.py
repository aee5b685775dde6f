"""Measurements of a data set: its text, and the training instances drawn from it beside the values of the paper."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cloze.data.batch import PretrainingBatch
from cloze.data.dataset import Documents
from cloze.data.hashing import mix
from cloze.data.instances.instances import DynamicInstances
from cloze.data.instances.masking import num_predictions
from cloze.data.shards import Digests, Integers
from cloze.errors import InputError
from cloze.progress import Progress
from cloze.tokenization.tokenizer import Tokenizer

LONG_SENTENCE = 20
"""Sentences of at least this many tokens are rarely equal by chance."""

_MAX_REPEATED = 10
_EXCERPT_TOKENS = 40
_QUANTILES = {"least": 0.0, "5%": 0.05, "25%": 0.25, "median": 0.5, "75%": 0.75, "95%": 0.95, "most": 1.0}
_LABELS: Mapping[int, Literal["IsNext", "NotNext"]] = {0: "IsNext", 1: "NotNext"}


@dataclass(frozen=True, slots=True)
class SplitCounts:
    """The size of a split."""

    documents: int
    sentences: int
    words: int
    """Tokens that begin a word, including punctuation and [UNK]."""
    tokens: int
    fertility: float
    """Tokens per word."""
    unknown_share: float
    """Share of the tokens that are [UNK]."""
    vocab_size: int
    tokens_in_use: int
    """Tokens of the vocabulary that occur."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Mean, quantiles and a histogram of integers."""

    mean: float
    quantiles: dict[str, int]
    bin_starts: tuple[int, ...]
    bin_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DuplicateTexts:
    """Sentences or documents that occur in the split more than once."""

    of: str
    number: int
    """Of all such texts."""
    copies: int
    """Number of texts that occurred before."""
    share_of_tokens: float
    """Share of the tokens of all such texts that copies have."""
    most_repeated: tuple[tuple[str, int], ...]
    """Beginnings, and how often each occurs."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Starts and lengths of the sentences and documents of a split. Starts count the tokens of all splits."""

    sentence_starts: Integers
    sentence_tokens: Integers
    document_starts: Integers
    document_tokens: Integers
    document_sentences: Integers


def measure_lengths(documents: Documents) -> Lengths:
    """Return the starts and lengths of the sentences and documents of a split."""
    first, count = documents.first_sentence, documents.end_sentence - documents.first_sentence
    sentences = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
    bounds = documents.sentence_offsets
    return Lengths(
        sentence_starts=bounds[sentences],
        sentence_tokens=bounds[sentences + 1] - bounds[sentences],
        document_starts=bounds[first],
        document_tokens=bounds[documents.end_sentence] - bounds[first],
        document_sentences=count,
    )


def count_split(lengths: Lengths, token_counts: Integers, tokenizer: Tokenizer) -> SplitCounts:
    """Count a split from its lengths and the frequency of each token in it."""
    tokens, words = int(token_counts.sum()), int(token_counts[~tokenizer.is_continuation].sum())
    unknown_id = tokenizer.unknown_id
    return SplitCounts(
        documents=len(lengths.document_tokens),
        sentences=len(lengths.sentence_tokens),
        words=words,
        tokens=tokens,
        fertility=tokens / max(words, 1),
        unknown_share=0.0 if unknown_id is None else int(token_counts[unknown_id]) / max(tokens, 1),
        vocab_size=tokenizer.vocab_size,
        tokens_in_use=int((token_counts > 0).sum()),
    )


def log_bins(maximum: int) -> Integers:
    """Return 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, …: powers of the square root of 2, rounded, up to `maximum`."""
    halves = np.arange(2 * maximum.bit_length())
    return np.unique(np.rint(2 ** (halves / 2)).astype(np.int64).clip(max=maximum))


def log_distribution(values: Integers) -> Distribution:
    """Describe integers with a histogram of logarithmic bins."""
    return distribution_of(values, log_bins(int(values.max())))


def distribution_of(values: Integers, bin_starts: Integers) -> Distribution:
    """Describe integers with a histogram of bins that begin at `bin_starts`."""
    maximum = int(values.max())
    bin_starts = bin_starts[bin_starts <= maximum]
    quantiles = np.quantile(values, list(_QUANTILES.values()), method="lower").astype(int)
    return Distribution(
        mean=float(values.mean()),
        quantiles=dict(zip(_QUANTILES, quantiles.tolist(), strict=True)),
        bin_starts=tuple(bin_starts.tolist()),
        bin_counts=tuple(np.histogram(values, [*bin_starts, maximum + 1])[0].tolist()),
    )


def digest_sentences(
    documents: Documents, lengths: Lengths, progress: Progress, *, batch_tokens: int
) -> Digests:
    """Return a 64-bit digest of the tokens of each sentence, reading about `batch_tokens` at a time."""
    ends = np.cumsum(lengths.sentence_tokens)
    digests = np.empty(len(ends), np.uint64)
    start = 0
    total = int(lengths.sentence_tokens.sum())
    with progress.bar("comparing sentences", total=total, unit="tokens") as bar:
        while start < len(ends):
            read = ends[start - 1] if start else 0
            end = max(start + 1, int(np.searchsorted(ends, read + batch_tokens, side="right")))
            tokens = lengths.sentence_tokens[start:end]
            text = documents.gather(lengths.sentence_starts[start:end], tokens)
            position = np.arange(len(text)) - np.repeat(np.cumsum(tokens) - tokens, tokens)
            digests[start:end] = mix(_sum_runs(mix((position << 32) | text), tokens))
            bar.advance(len(text))
            start = end
    return digests


def _sum_runs(values: Digests, lengths: Integers) -> Digests:
    """Add up consecutive runs of these lengths, modulo 2**64."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    ends = np.cumsum(lengths)
    sums: Digests = total[ends] - total[ends - lengths]
    return sums


def find_copies(
    documents: Documents, lengths: Lengths, sentence_digests: Digests, tokenizer: Tokenizer
) -> tuple[DuplicateTexts, ...]:
    """Find sentences, long sentences and documents that occur in a split more than once."""
    counts = lengths.document_sentences
    position = np.arange(len(sentence_digests)) - np.repeat(np.cumsum(counts) - counts, counts)
    document_digests = mix(_sum_runs(mix(position, after=sentence_digests), counts))

    def beginning(start: int, tokens: int) -> str:
        text = tokenizer.decode(documents.read(start, start + min(tokens, _EXCERPT_TOKENS)).tolist())
        return text + " …" if tokens > _EXCERPT_TOKENS else text

    def find(of: str, digests: Digests, starts: Integers, tokens: Integers) -> DuplicateTexts:
        _, first, times = np.unique(digests, return_index=True, return_counts=True)
        repeated = [i for i in np.argsort(-times, kind="stable")[:_MAX_REPEATED].tolist() if times[i] > 1]
        return DuplicateTexts(
            of=of,
            number=len(digests),
            copies=len(digests) - len(first),
            share_of_tokens=1 - int(tokens[first].sum()) / max(int(tokens.sum()), 1),
            most_repeated=tuple(
                (beginning(starts[first[i]], tokens[first[i]]), int(times[i])) for i in repeated
            ),
        )

    starts, tokens = lengths.sentence_starts, lengths.sentence_tokens
    is_long = tokens >= LONG_SENTENCE
    long = (sentence_digests[is_long], starts[is_long], tokens[is_long])
    return (
        find("sentences", sentence_digests, starts, tokens),
        find(f"sentences of {LONG_SENTENCE} tokens or more", *long),
        find("documents", document_digests, lengths.document_starts, lengths.document_tokens),
    )


def held_out_seen(train: tuple[Lengths, Digests], held_out: tuple[Lengths, Digests]) -> float | None:
    """Return the share of the long held-out sentences that are in training, too; None if there are none."""
    seen, asked = (
        digests[lengths.sentence_tokens >= LONG_SENTENCE] for lengths, digests in (train, held_out)
    )
    return float(np.isin(asked, seen).mean()) if len(asked) else None


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


class _Sequences(NamedTuple):
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
