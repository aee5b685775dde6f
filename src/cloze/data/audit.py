"""Measure a data set and the training instances drawn from it, and compare with the expected values.

Counts, lengths and copies are measured over a whole split, pairs over the whole plan of an epoch, and masks on its
first instances, which are a fair sample because the order of an epoch is random.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from cloze import file_io
from cloze.data.audit_measures import (
    Distribution,
    DuplicateTexts,
    InstanceExample,
    InstanceStats,
    SplitCounts,
    count_split,
    digest_sentences,
    find_copies,
    held_out_seen,
    log_bins,
    log_distribution,
    measure_instances,
    measure_lengths,
    show_instances,
)
from cloze.data.dataset import REPORT_FILE, Dataset, Split
from cloze.data.instances.instances import DynamicInstances
from cloze.data.instances.masking import MaskingConfig, describe_whole_words
from cloze.data.instances.pairs import PairsConfig
from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from cloze.tokenization.loading import load_tokenizer

_MIN_SEQ_LENGTH = 8
_NUM_FREQUENT = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditConfig:
    """Settings of the audit and of the training that it measures. Defaults are those of the paper."""

    split: Split = "train"
    seq_lengths: tuple[int, ...] = (128, 512)
    """Of the phases of the training, in order."""
    max_predictions_per_seq: int | None = None
    """None: `masking.masked_lm_prob` of each length, rounded up."""
    pairs: PairsConfig = field(default_factory=PairsConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    seed: int = 12345
    sample: int = 100_000
    """Maximum number of instances of each length on which masks are measured."""
    shown: int = 20
    """Number of instances of the first length to show."""
    batch_instances: int = 1024
    """Instances drawn at a time."""
    batch_tokens: int = 1 << 17
    """Tokens read at a time to compare sentences."""

    def __post_init__(self) -> None:
        if not self.seq_lengths or min(self.seq_lengths) < _MIN_SEQ_LENGTH:
            what = f"sequences of {', '.join(map(str, self.seq_lengths)) or 'no'} tokens"
            raise InputError(what, where="seq_lengths", remedy=f"Choose {_MIN_SEQ_LENGTH} or more")
        if self.sample < 1:
            what = f"a sample of {self.sample} instances"
            raise InputError(what, where="sample", remedy="Choose one or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """All measurements."""

    dataset: str
    split: Split
    counts: SplitCounts
    sentence_tokens: Distribution
    document_sentences: Distribution
    document_tokens: Distribution
    largest_share: float
    """Share of the tokens that the largest document has."""
    copies: tuple[DuplicateTexts, ...]
    held_out_seen: float | None
    """Share of the held-out sentences of `LONG_SENTENCE` tokens or more that are in the training split, too."""
    drawn: tuple[InstanceStats, ...]
    frequent_tokens: tuple[tuple[str, int], ...]
    counts_at_ranks: tuple[tuple[int, int], ...]
    """Rank and count of the most frequent token, the second, third, fourth, sixth and so on."""
    shown: tuple[InstanceExample, ...]
    cleaning: Mapping[str, Any] | None
    """The content of `report.json` of the data set."""

    def as_dict(self) -> dict[str, Any]:
        """Return the measurements for JSON."""
        table: dict[str, Any] = asdict(self)
        for drawn, row in zip(self.drawn, table["drawn"], strict=True):
            for measure, entry in zip(drawn.measures, row["measures"], strict=True):
                entry["holds"] = measure.holds
        return table


def audit_dataset(dataset: Dataset, config: AuditConfig, *, progress: Progress = SILENT) -> Audit:
    """Measure a split of a data set and the instances drawn from it, without pairs if they are not possible."""
    documents = dataset.split(config.split)
    if not len(documents):
        what = f"no document in the {config.split} split"
        remedy = "Give more text: of two documents that differ one is held out"
        raise InputError(what, where=dataset.path, remedy=remedy)
    tokenizer, pairs = load_tokenizer(dataset.path), config.pairs
    if not dataset.supports_pairs:
        pairs = replace(pairs, next_sentence=False)
    sources = [
        DynamicInstances(
            documents,
            tokenizer,
            max_seq_length=length,
            max_predictions_per_seq=config.max_predictions_per_seq
            or math.ceil(config.masking.masked_lm_prob * length),
            pairs=pairs,
            masking=config.masking,
            seed=config.seed,
            phase=phase,
        )
        for phase, length in enumerate(config.seq_lengths)
    ]
    drawn = tuple(
        measure_instances(source, config.sample, progress, batch_instances=config.batch_instances)
        for source in sources
    )
    lengths = measure_lengths(documents)
    digests = digest_sentences(documents, lengths, progress, batch_tokens=config.batch_tokens)
    other = dataset.split("validation" if config.split == "train" else "train")
    other_lengths = measure_lengths(other)
    other_digests = digest_sentences(other, other_lengths, progress, batch_tokens=config.batch_tokens)
    here, elsewhere = (lengths, digests), (other_lengths, other_digests)
    token_counts = documents.token_counts(dataset.vocab_size)
    if config.masking.whole_word:
        shares_V = token_counts / max(token_counts.sum(), 1)
        has_words = documents.vocab_size_with_words is not None
        if (words := describe_whole_words(tokenizer.tokens, shares_V, has_words=has_words)) is not None:
            progress.note(words)
    by_count = np.argsort(-token_counts, kind="stable")
    ranks = log_bins(int((token_counts > 0).sum()))
    report = dataset.path / REPORT_FILE
    return Audit(
        dataset=str(dataset.path),
        split=config.split,
        counts=count_split(lengths, token_counts, tokenizer),
        sentence_tokens=log_distribution(lengths.sentence_tokens),
        document_sentences=log_distribution(lengths.document_sentences),
        document_tokens=log_distribution(lengths.document_tokens),
        largest_share=documents.largest_share,
        copies=find_copies(documents, lengths, digests, tokenizer),
        held_out_seen=held_out_seen(*(here, elsewhere) if config.split == "train" else (elsewhere, here)),
        drawn=drawn,
        frequent_tokens=tuple((tokenizer.tokens[i], int(token_counts[i])) for i in by_count[:_NUM_FREQUENT]),
        counts_at_ranks=tuple((int(rank), int(token_counts[by_count[rank - 1]])) for rank in ranks),
        shown=tuple(show_instances(sources[0], dataset.documents, config.shown)),
        cleaning=file_io.read_json(report, remedy="Build the data set again") if report.exists() else None,
    )
