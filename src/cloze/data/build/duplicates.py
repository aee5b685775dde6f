"""Exact duplicates of documents and long paragraphs, found by 64-bit digests of their text.

The first occurrence is kept. Among a hundred million texts, two different ones have the same digest with probability
1 in 3,700.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.data.build.cleaning import Counts
from cloze.data.shards import Digests, Shard, to_offsets
from cloze.tables import format_count

LONG_PARAGRAPH_CHARACTERS = 100
"""About twenty words. Shorter paragraphs repeat by nature: headings, "He said nothing."."""
_DIGESTS_PER_ROUND = 1 << 22  # sorted together, in some 100 MB
Mask: TypeAlias = npt.NDArray[np.bool_]


def text_digest(lines: Iterable[str]) -> int:
    """Return a 64-bit digest of a text.

    >>> text_digest(["one", "two"]) == text_digest(["one two"])
    False
    """
    text = "\n".join(lines).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def text_digests(texts: Iterable[Iterable[str]]) -> Digests:
    """Return the digest of each text."""
    return np.fromiter(map(text_digest, texts), np.uint64)


@dataclass(frozen=True, slots=True)
class DuplicateCounts(Counts):
    """Numbers of duplicates."""

    dropped: int = 0
    kept: int = 0
    """In text that came as sentences, or because the step was skipped."""
    tokens: int = 0

    def describe(self, unit: str) -> Iterator[str]:
        """Yield a line each for dropped and kept duplicates, if any; `unit` is what one of them is."""
        if self.dropped:
            duplicates = format_count(self.dropped, f"duplicate {unit}")
            yield f"dropped {duplicates} ({format_count(self.tokens, 'token')})"
        if self.kept:
            yield f"kept {format_count(self.kept, f'duplicate {unit}')}"


def find_duplicates(
    digests: Sequence[Digests], among: Sequence[Mask], *, digests_per_round: int = _DIGESTS_PER_ROUND
) -> list[Mask]:
    """Return for each digest whether it occurs earlier, in the same array or in one before it.

    Digests outside of `among` are not compared. They may be memory-mapped: besides a
    byte per digest, memory is needed for about `digests_per_round` only.
    """
    duplicates = [np.zeros(len(array), np.bool_) for array in digests]
    rounds = -(-sum(map(len, digests)) // digests_per_round)
    for number in range(rounds):  # each round takes the digests in one range
        low, high = number * 2**64 // rounds, (number + 1) * 2**64 // rounds - 1
        places = [
            np.flatnonzero(mask & (array >= np.uint64(low)) & (array <= np.uint64(high)))
            for array, mask in zip(digests, among, strict=True)
        ]
        values = np.concatenate([array[chosen] for array, chosen in zip(digests, places, strict=True)])
        order = np.argsort(values, kind="stable")
        repeated = order[1:][values[order[1:]] == values[order[:-1]]]
        is_duplicate = np.zeros(len(values), np.bool_)
        is_duplicate[repeated] = True
        ends = np.cumsum([len(chosen) for chosen in places])[:-1]
        for mask, chosen, repeats in zip(duplicates, places, np.split(is_duplicate, ends), strict=True):
            mask[chosen[repeats]] = True
    return duplicates


def drop_from_shard(shard: Shard, documents: Mask, paragraphs: Mask) -> Shard:
    """Return a copy of a shard without some documents [D] and paragraphs [Q], and without emptied documents."""
    document_of_sentence = np.repeat(np.arange(len(documents)), shard.sentences_per_document)
    kept_S = ~documents[document_of_sentence]
    for start, end in zip(shard.paragraph_starts[paragraphs], shard.paragraph_ends[paragraphs], strict=True):
        kept_S[start:end] = False
    lengths_S = np.diff(shard.sentence_offsets)
    sentences_D = np.bincount(document_of_sentence[kept_S], minlength=len(documents))
    kept_D = sentences_D > 0
    document_of_paragraph = np.repeat(np.arange(len(documents)), np.diff(shard.paragraph_offsets))
    kept_Q = kept_D[document_of_paragraph] & ~paragraphs
    paragraphs_D = np.bincount(document_of_paragraph[kept_Q], minlength=len(documents))
    new_number_S = to_offsets(kept_S)
    return Shard(
        token_ids=shard.token_ids[np.repeat(kept_S, lengths_S)],
        sentence_offsets=to_offsets(lengths_S[kept_S]),
        document_offsets=to_offsets(sentences_D[kept_D]),
        document_digests=shard.document_digests[kept_D],
        paragraph_offsets=to_offsets(paragraphs_D[kept_D]),
        paragraph_digests=shard.paragraph_digests[kept_Q],
        paragraph_starts=new_number_S[shard.paragraph_starts[kept_Q]],
        paragraph_ends=new_number_S[shard.paragraph_ends[kept_Q]],
    )
