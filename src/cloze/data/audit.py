"""Measure a data set and the training instances drawn from it, beside the values of the paper.

Counts and lengths are measured over a whole split, pairs over the whole plan of an epoch, and masks on its first
instances, which are a fair sample because the order of an epoch is random.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from cloze import file_io
from cloze.arguments import check_integer
from cloze.data.dataset import REPORT_FILE, Dataset, Documents, Split
from cloze.data.instances.instances import DynamicInstances
from cloze.data.instances.masking import MaskingConfig, num_predictions
from cloze.data.instances.pairs import PairsConfig
from cloze.data.shards import Integers
from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from cloze.results import Result
from cloze.tokenization.loading import load_tokenizer

_MIN_SEQ_LENGTH = 8
_NUM_FREQUENT, _NUM_SHOWN = 50, 20
_BATCH_INSTANCES = 1024
_SEED = 12345
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
    vocab_size: int
    tokens_in_use: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """Mean, quantiles and a histogram of integers."""

    mean: float
    quantiles: dict[str, int]
    bin_starts: tuple[int, ...]
    bin_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """A measurement, and its expected value if there is one."""

    name: str
    measured: float
    unit: Literal["share", "tokens"]
    expected: float | None = None
    tolerance: float = 0.0
    """Deviation that chance or rounding explains."""
    holds: bool = field(init=False)

    def __post_init__(self) -> None:
        holds = self.expected is None or abs(self.measured - self.expected) <= self.tolerance + 1e-9
        object.__setattr__(self, "holds", holds)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditConfig:
    """Settings of the audit and of the training that it measures. Defaults are those of the paper."""

    split: Split = "train"
    seq_lengths: tuple[int, ...] = (128, 512)
    """Of the phases of the training, in order."""
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    sample: int = 100_000
    """Maximum number of instances of each length on which masks are measured."""

    def __post_init__(self) -> None:
        if not self.seq_lengths or min(self.seq_lengths) < _MIN_SEQ_LENGTH:
            what = f"sequences of {', '.join(map(str, self.seq_lengths)) or 'no'} tokens"
            raise InputError(what, where="seq_lengths", remedy=f"Choose {_MIN_SEQ_LENGTH} or more")
        check_integer(self.sample, "sample")


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit(Result):
    """All measurements."""

    dataset: str
    split: Split
    counts: SplitCounts
    sentence_tokens: Distribution
    document_sentences: Distribution
    document_tokens: Distribution
    drawn: tuple[InstanceStats, ...]
    frequent_tokens: tuple[tuple[str, int], ...]
    counts_at_ranks: tuple[tuple[int, int], ...]
    """Rank and count of the most frequent token, the second, third, fourth, sixth and so on."""
    shown: tuple[InstanceExample, ...]
    cleaning: Mapping[str, Any] | None


def audit_dataset(dataset: Dataset, config: AuditConfig, *, progress: Progress = SILENT) -> Audit:
    """Measure a split of a data set and the instances drawn from it, without pairs if they are not possible."""
    documents = dataset.split(config.split)
    if not len(documents):
        what = f"no document in the {config.split} split"
        remedy = "Give more text: of two documents that differ one is held out"
        raise InputError(what, where=dataset.path, remedy=remedy)
    tokenizer = load_tokenizer(dataset.path)
    sources = [
        DynamicInstances(
            documents,
            tokenizer,
            max_seq_length=length,
            max_predictions_per_seq=math.ceil(config.masking.masked_lm_prob * length),
            pairs=PairsConfig(next_sentence=dataset.supports_pairs),
            masking=config.masking,
            seed=_SEED,
            phase=phase,
        )
        for phase, length in enumerate(config.seq_lengths)
    ]
    drawn = tuple(_measure_instances(source, config.sample, progress) for source in sources)
    num_sentences = documents.num_sentences
    sentence = np.repeat(documents.first_sentence - np.cumsum(num_sentences) + num_sentences, num_sentences)
    sentence += np.arange(len(sentence))
    sentence_tokens = documents.sentence_offsets[sentence + 1] - documents.sentence_offsets[sentence]
    token_counts = documents.token_counts(dataset.vocab_size)
    tokens, words = int(token_counts.sum()), int(token_counts[~tokenizer.is_continuation].sum())
    unknown = 0 if tokenizer.unknown_id is None else int(token_counts[tokenizer.unknown_id])
    by_count = np.argsort(-token_counts, kind="stable")
    ranked = token_counts[by_count[token_counts[by_count] > 0]]
    report = dataset.path / REPORT_FILE
    return Audit(
        dataset=str(dataset.path),
        split=config.split,
        counts=SplitCounts(
            documents=len(documents),
            sentences=len(sentence_tokens),
            words=words,
            tokens=tokens,
            fertility=tokens / max(words, 1),
            unknown_share=unknown / max(tokens, 1),
            vocab_size=tokenizer.vocab_size,
            tokens_in_use=len(ranked),
        ),
        sentence_tokens=_distribution_of(sentence_tokens),
        document_sentences=_distribution_of(num_sentences),
        document_tokens=_distribution_of(documents.lengths),
        drawn=drawn,
        frequent_tokens=tuple((tokenizer.tokens[i], int(token_counts[i])) for i in by_count[:_NUM_FREQUENT]),
        counts_at_ranks=tuple((rank, int(ranked[rank - 1])) for rank in _log_bins(len(ranked)).tolist()),
        shown=tuple(_show_instances(sources[0], dataset.documents)),
        cleaning=file_io.read_json(report, remedy="Build the data set again") if report.exists() else None,
    )


def _log_bins(maximum: int) -> Integers:
    """Return 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, …: powers of the square root of 2, rounded, up to `maximum`."""
    halves = np.arange(2 * maximum.bit_length())
    return np.unique(np.rint(2 ** (halves / 2)).astype(np.int64).clip(max=maximum))


def _distribution_of(values: Integers, bin_starts: Integers | None = None) -> Distribution:
    """Describe integers with a histogram of bins that begin at `bin_starts`, by default logarithmic ones."""
    maximum = int(values.max())
    bin_starts = _log_bins(maximum) if bin_starts is None else bin_starts[bin_starts <= maximum]
    quantiles = np.quantile(values, list(_QUANTILES.values()), method="lower").astype(int)
    return Distribution(
        mean=float(values.mean()),
        quantiles=dict(zip(_QUANTILES, quantiles.tolist(), strict=True)),
        bin_starts=tuple(bin_starts.tolist()),
        bin_counts=tuple(np.histogram(values, [*bin_starts, maximum + 1])[0].tolist()),
    )


def _measure_instances(source: DynamicInstances, sample: int, progress: Progress) -> InstanceStats:
    """Measure the plan of the first block, and at most `sample` of its first instances."""
    sampled = min(sample, source.num_instances(0))
    if not sampled:
        raise InputError("makes no instance", where="corpus", remedy="Give more text")
    lengths, predicted, masked, kept = [], 0, 0, 0
    with progress.bar(f"drawing {source.max_seq_length} tokens", total=sampled, unit="instances") as bar:
        for start in range(0, sampled, _BATCH_INSTANCES):
            positions = np.arange(start, min(start + _BATCH_INSTANCES, sampled))
            batch = source.batch(0, positions)
            read = batch.input_ids[batch.masked_lm_positions]
            masked += int((read == source.tokenizer.mask_id).sum())
            kept += int((read == batch.masked_lm_ids).sum())
            lengths.append(np.diff(batch.cu_seqlens))
            predicted += len(read)
            bar.advance(len(positions))
    tokens, maximum = np.concatenate(lengths), source.max_seq_length
    plan, special = source.plan(0), 3 if source.pairs.next_sentence else 2
    planned = int((plan.a_end - plan.a_start + plan.b_end - plan.b_start)[:sampled].sum())
    measures = [
        Measure("positions filled", float(tokens.mean()) / maximum, "share"),
        Measure("sequences of full length", float((tokens == maximum).mean()), "share"),
        Measure("tokens cut off to fit", 1 - (int(tokens.sum()) - special * sampled) / planned, "share"),
    ]
    if source.pairs.next_sentence:
        measures += _measure_pairs(source)
    measures += _measure_masks(source, tokens, predicted, masked, kept)
    return InstanceStats(
        max_seq_length=maximum,
        max_predictions_per_seq=source.max_predictions_per_seq,
        instances=sum(replace(source, plans={}).num_instances(block) for block in range(source.num_blocks)),
        sampled=sampled,
        skipped_documents=plan.num_skipped_documents,
        lengths=_distribution_of(tokens, np.arange(1, maximum + 1, max(1, maximum // 16))),
        measures=tuple(measures),
    )


def _measure_pairs(source: DynamicInstances) -> list[Measure]:
    """Measure labels and partners on the whole plan of the first block."""
    plan, documents = source.plan(0), source.documents
    starts = documents.sentence_offsets[documents.first_sentence]
    is_random = plan.next_sentence_labels == 1
    document_a, document_b = (np.searchsorted(starts, s, side="right") for s in (plan.a_start, plan.b_start))
    is_same = (document_a == document_b) & is_random
    follows = plan.a_end == plan.b_start
    same = float(is_same.sum() / max(is_random.sum(), 1))
    return [
        Measure("pairs with a random B (NotNext)", float(is_random.mean()), "share", 0.5, 1 / len(plan)),
        Measure("random Bs from the document of A", same, "share", 0.0),
        Measure("other Bs that follow their A", float(follows[~is_random].mean()), "share", 1.0),
    ]


def _measure_masks(
    source: DynamicInstances, tokens: Integers, predicted: int, masked: int, kept: int
) -> list[Measure]:
    config, vocab_size = source.masking, source.tokenizer.vocab_size
    quota = num_predictions(tokens, config, source.max_predictions_per_seq)
    # A random token is any of the vocabulary, including [MASK] and the original one.
    same = config.random_token_prob / vocab_size
    to_mask, to_random = config.mask_token_prob, config.random_token_prob

    def replaced(name: str, count: int, prob: float) -> Measure:
        tolerance = 4 * math.sqrt(prob * (1 - prob) / predicted)
        return Measure(f"of these, {name}", count / predicted, "share", prob, tolerance)

    # The number of predictions is rounded, and whole words may not fill it.
    rounding, unfilled = 0.5, 0.5 if config.whole_word else 0.0
    length, mean = float(tokens.mean()), predicted / len(tokens)
    tolerance = (rounding + unfilled) / length
    return [
        Measure("positions predicted", mean / length, "share", config.masked_lm_prob, tolerance),
        Measure("predictions per sequence", mean, "tokens", float(quota.mean()), unfilled),
        replaced("replaced by [MASK]", masked, to_mask + same),
        replaced("replaced by a random token", predicted - masked - kept, to_random - 2 * same),
        replaced("left as they are", kept, 1 - to_mask - to_random + same),
    ]


def _show_instances(source: DynamicInstances, all_documents: Documents) -> Iterator[InstanceExample]:
    """Yield the first instances of the first epoch as text; `all_documents` has the documents of both splits."""
    plan, vocabulary = source.plan(0), source.tokenizer.tokens
    document_starts = all_documents.sentence_offsets[all_documents.first_sentence]
    for position in range(min(_NUM_SHOWN, len(plan))):
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
