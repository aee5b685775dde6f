"""Measurements of the text of a split: counts, lengths, copies, and held-out sentences that training has seen."""

from dataclasses import dataclass

import numpy as np

from cloze.data.dataset import Documents
from cloze.data.hashing import mix
from cloze.data.shards import Digests, Integers
from cloze.progress import Progress
from cloze.tokenization.tokenizer import Tokenizer

LONG_SENTENCE = 20
"""Sentences of at least this many tokens are rarely equal by chance."""

_MAX_REPEATED = 10
_EXCERPT_TOKENS = 40
_QUANTILES = {"least": 0.0, "5%": 0.05, "25%": 0.25, "median": 0.5, "75%": 0.75, "95%": 0.95, "most": 1.0}


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
