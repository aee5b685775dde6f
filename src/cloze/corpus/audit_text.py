"""What a split of a data set holds: its size, lengths, copies, and what of it stands in the other split."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cloze.corpus.hashing import mix
from cloze.corpus.store import Dataset, Documents, Split
from cloze.progress import Progress
from cloze.text.tokenizer import Tokenizer

LONG_SENTENCE = 20
"""Pieces from which on a sentence that stands twice is hardly there by chance."""

_PIECES_AT_ONCE = 1 << 17
_MOST_REPEATED = 10
_EXCERPT_PIECES = 40
_QUANTILES = {"least": 0.0, "5%": 0.05, "25%": 0.25, "median": 0.5, "75%": 0.75, "95%": 0.95, "most": 1.0}

Integers = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is."""

    documents: int
    sentences: int
    words: int
    """Pieces that begin a word, punctuation and [UNK] included."""
    pieces: int
    fertility: float
    """Pieces a word."""
    unknown_share: float
    """Of the pieces, those that are [UNK]."""
    vocab_size: int
    pieces_in_use: int
    """Of the vocabulary, those that occur."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of whole numbers: a mean, quantiles, and counts in bins."""

    mean: float
    quantiles: dict[str, int]
    bin_starts: tuple[int, ...]
    bin_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Copies:
    """Texts that stand in the split more than once."""

    of: str
    number: int
    """Of all such texts."""
    copies: int
    """Of these, those that stood there before."""
    share_of_pieces: float
    """Of the pieces of all such texts, those in copies."""
    most_repeated: tuple[tuple[str, int], ...]
    """Beginnings, and how often each stands there."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of the sentences and the documents of a split, in its order; where a sentence begins is counted over all."""

    sentence_starts: Integers
    sentence_pieces: Integers
    document_starts: Integers
    document_pieces: Integers
    document_sentences: Integers


def measure_lengths(documents: Documents) -> Lengths:
    """Return how long the sentences and documents of a split are, and where they begin."""
    first, count = documents.first_sentence, documents.end_sentence - documents.first_sentence
    sentences = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
    bounds = documents.sentence_offsets
    return Lengths(
        sentence_starts=bounds[sentences],
        sentence_pieces=bounds[sentences + 1] - bounds[sentences],
        document_starts=bounds[first],
        document_pieces=bounds[documents.end_sentence] - bounds[first],
        document_sentences=count,
    )


def count_pieces(lengths: Lengths, piece_counts: Integers, tokenizer: Tokenizer) -> Counts:
    """Count a split, given its lengths and how often each piece occurs in it."""
    pieces, words = int(piece_counts.sum()), int(piece_counts[~tokenizer.is_continuation].sum())
    return Counts(
        documents=len(lengths.document_pieces),
        sentences=len(lengths.sentence_pieces),
        words=words,
        pieces=pieces,
        fertility=pieces / max(words, 1),
        unknown_share=int(piece_counts[tokenizer.unk_id]) / max(pieces, 1),
        vocab_size=tokenizer.vocab_size,
        pieces_in_use=int((piece_counts > 0).sum()),
    )


def magnitudes(most: int) -> Integers:
    """Return 1, 2, 3, 4, 6, 8, 11, 16, 23, 32 and so on, each about 1.4 of the one before, up to `most`."""
    halves = np.arange(2 * most.bit_length())
    return np.unique(np.rint(2 ** (halves / 2)).astype(np.int64).clip(max=most))


def spread(values: Integers) -> Distribution:
    """Count lengths of every magnitude."""
    return distribution_of(values, magnitudes(int(values.max())))


def distribution_of(values: Integers, bin_starts: Integers) -> Distribution:
    """Describe whole numbers, counted in bins that begin at `bin_starts`; what begins above the most is left out."""
    most = int(values.max())
    bin_starts = bin_starts[bin_starts <= most]
    quantiles = np.quantile(values, list(_QUANTILES.values()), method="lower").astype(int)
    return Distribution(
        mean=float(values.mean()),
        quantiles=dict(zip(_QUANTILES, quantiles.tolist(), strict=True)),
        bin_starts=tuple(bin_starts.tolist()),
        bin_counts=tuple(np.histogram(values, [*bin_starts, most + 1])[0].tolist()),
    )


def digest_sentences(documents: Documents, lengths: Lengths, progress: Progress) -> Digests:
    """Return 64 bits for each sentence, the same for the same pieces."""
    ends = np.cumsum(lengths.sentence_pieces)
    digests = np.empty(len(ends), np.uint64)
    start = 0
    with progress.bar("comparing sentences", total=int(ends[-1]), unit="pieces") as bar:
        while start < len(ends):
            read = ends[start - 1] if start else 0
            end = max(start + 1, int(np.searchsorted(ends, read + _PIECES_AT_ONCE, side="right")))
            pieces = lengths.sentence_pieces[start:end]
            text = documents.gather(lengths.sentence_starts[start:end], pieces)
            place = np.arange(len(text)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
            digests[start:end] = mix(_sums(mix((place << 32) | text), pieces))
            bar.advance(len(text))
            start = end
    return digests


def _sums(values: Digests, counts: Integers) -> Digests:
    """Add up runs of so many values, modulo 2**64."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    ends = np.cumsum(counts)
    sums: Digests = total[ends] - total[ends - counts]
    return sums


def find_copies(
    documents: Documents, lengths: Lengths, sentence_digests: Digests, tokenizer: Tokenizer
) -> tuple[Copies, ...]:
    """Find sentences, long sentences and whole documents that stand in a split more than once."""
    counts = lengths.document_sentences
    place = np.arange(len(sentence_digests)) - np.repeat(np.cumsum(counts) - counts, counts)
    document_digests = mix(_sums(mix(place, after=sentence_digests), counts))

    def find(of: str, digests: Digests, starts: Integers, pieces: Integers) -> Copies:
        _, first, times = np.unique(digests, return_index=True, return_counts=True)
        repeated = [i for i in np.argsort(-times, kind="stable")[:_MOST_REPEATED].tolist() if times[i] > 1]
        return Copies(
            of=of,
            number=len(digests),
            copies=len(digests) - len(first),
            share_of_pieces=1 - int(pieces[first].sum()) / max(int(pieces.sum()), 1),
            most_repeated=tuple(
                (_beginning(documents, tokenizer, starts[first[i]], pieces[first[i]]), int(times[i]))
                for i in repeated
            ),
        )

    starts, pieces = lengths.sentence_starts, lengths.sentence_pieces
    is_long = pieces >= LONG_SENTENCE
    return (
        find("sentences", sentence_digests, starts, pieces),
        find(
            f"sentences of {LONG_SENTENCE} pieces or more",
            sentence_digests[is_long],
            starts[is_long],
            pieces[is_long],
        ),
        find("documents", document_digests, lengths.document_starts, lengths.document_pieces),
    )


def _beginning(documents: Documents, tokenizer: Tokenizer, start: int, pieces: int) -> str:
    text = tokenizer.decode(documents.read(start, start + min(pieces, _EXCERPT_PIECES)).tolist())
    return text + " …" if pieces > _EXCERPT_PIECES else text


def held_out_seen(
    dataset: Dataset, split: Split, lengths: Lengths, digests: Digests, progress: Progress
) -> float | None:
    """Return the share of the long held-out sentences that training reads, too; None where nothing is held out.

    `lengths` and `digests` are those of `split`; those of the other one are taken here.
    """
    documents = dataset.split("validation" if split == "train" else "train")
    if not len(documents):
        return None
    other = measure_lengths(documents)
    other_digests = digest_sentences(documents, other, progress)
    here = digests[lengths.sentence_pieces >= LONG_SENTENCE]
    there = other_digests[other.sentence_pieces >= LONG_SENTENCE]
    training, held_out = (here, there) if split == "train" else (there, here)
    return float(np.isin(held_out, training).mean()) if len(held_out) else None
