"""Exact duplicates: documents and long paragraphs that stand twice, told by 64-bit digests of their text.

The first occurrence stays. Among a hundred million texts, two different ones have the same digest once in 3,700 times.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.corpus.store import Digests, Shard, offsets_of

LONG_PARAGRAPH_CHARACTERS = 100
"""About twenty words. A shorter paragraph may well be written twice: a heading, "He said nothing."."""
_DIGESTS_AT_ONCE = 1 << 22  # sorted together, in some 100 MB
MAX_EXAMPLES = 3
Mask: TypeAlias = npt.NDArray[np.bool_]


def digest_of(lines: Iterable[str]) -> int:
    """Return 64 bits that tell a text from every other.

    >>> digest_of(["one", "two"]) == digest_of(["one two"])
    False
    """
    text = "\n".join(lines).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Repeat:
    """A document or paragraph that stood before."""

    where: str
    first: str
    """Where it stood before."""
    text: str
    """Its beginning, in pieces."""


@dataclass(frozen=True, slots=True)
class RepeatCounts:
    """What was found twice."""

    dropped: int = 0
    kept: int = 0
    """In text that came as sentences, or with the step left out."""
    pieces: int = 0
    """Of what was dropped."""
    examples: tuple[Repeat, ...] = ()

    def __add__(self, other: "RepeatCounts") -> "RepeatCounts":
        return RepeatCounts(
            self.dropped + other.dropped,
            self.kept + other.kept,
            self.pieces + other.pieces,
            (self.examples + other.examples)[:MAX_EXAMPLES],
        )

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> "RepeatCounts":
        """Return what `asdict` was made of."""
        examples = tuple(Repeat(**example) for example in table["examples"])
        return cls(table["dropped"], table["kept"], table["pieces"], examples)

    def in_words(self, things: str) -> list[str]:
        """Say in a line or two what was found of `things`, nothing if that is nothing."""
        told = []
        if self.dropped:
            told.append(f"{self.dropped:,} {things} stood before and were dropped ({self.pieces:,} pieces)")
        if self.kept:
            told.append(f"{self.kept:,} {things} stood before and were kept all the same")
        return told


def find_repeats(digests: Sequence[Digests], among: Sequence[Mask]) -> list[Mask]:
    """Say of each digest whether it stood before, in the same array or in one before it.

    Beside a byte a digest this needs memory for a few millions of them, however many there are.

    Args:
        digests: in the order of the text; may be mapped from disk.
        among: which of them are looked at; the others neither repeat anything nor are repeated.
    """
    repeats = [np.zeros(len(each), np.bool_) for each in digests]
    starts = np.cumsum([0, *map(len, digests)])
    rounds = -(-int(starts[-1]) // _DIGESTS_AT_ONCE)
    # each round takes the digests of one range, which are about as many in all of them
    for number in range(rounds):
        low, high = number * 2**64 // rounds, (number + 1) * 2**64 // rounds - 1
        chosen = [
            np.flatnonzero(mask & (each >= np.uint64(low)) & (each <= np.uint64(high)))
            for each, mask in zip(digests, among, strict=True)
        ]
        values = np.concatenate([each[places] for each, places in zip(digests, chosen, strict=True)])
        order = np.argsort(values, kind="stable")
        again = order[1:][values[order[1:]] == values[order[:-1]]]
        is_repeat = np.zeros(len(values), np.bool_)
        is_repeat[again] = True
        ends = np.cumsum([len(places) for places in chosen])[:-1]
        for mask, places, found in zip(repeats, chosen, np.split(is_repeat, ends), strict=True):
            mask[places[found]] = True
    return repeats


def without(shard: Shard, documents: Mask, paragraphs: Mask) -> Shard:
    """Return a shard without some of its documents and paragraphs, and without documents of which nothing is left.

    Args:
        shard: what is copied.
        documents: [D], those to leave out.
        paragraphs: [Q], those to leave out.
    """
    document_of_sentence = np.repeat(np.arange(len(documents)), shard.sentences_of_documents)
    kept_S = ~documents[document_of_sentence]
    for start, end in zip(shard.paragraph_starts[paragraphs], shard.paragraph_ends[paragraphs], strict=True):
        kept_S[start:end] = False
    lengths_S = np.diff(shard.sentence_offsets)
    sentences_D = np.bincount(document_of_sentence[kept_S], minlength=len(documents))
    kept_D = sentences_D > 0
    document_of_paragraph = np.repeat(np.arange(len(documents)), np.diff(shard.paragraph_offsets))
    kept_Q = kept_D[document_of_paragraph] & ~paragraphs
    paragraphs_D = np.bincount(document_of_paragraph[kept_Q], minlength=len(documents))
    new_number_S = offsets_of(kept_S)
    return Shard(
        pieces=shard.pieces[np.repeat(kept_S, lengths_S)],
        sentence_offsets=offsets_of(lengths_S[kept_S]),
        document_offsets=offsets_of(sentences_D[kept_D]),
        document_digests=shard.document_digests[kept_D],
        paragraph_offsets=offsets_of(paragraphs_D[kept_D]),
        paragraph_digests=shard.paragraph_digests[kept_Q],
        paragraph_starts=new_number_S[shard.paragraph_starts[kept_Q]],
        paragraph_ends=new_number_S[shard.paragraph_ends[kept_Q]],
    )
