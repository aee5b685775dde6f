"""Exact duplicates equal those that a set finds, and are removed from shards."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpora
from cloze.data.build.duplicates import DuplicateCounts, drop_from_shard, find_duplicates, text_digest
from cloze.data.shards import Shard, to_offsets

FEW_TEXTS = st.lists(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12), max_size=5)


@pytest.mark.parametrize("per_round", [1, 3, 1000])
@given(arrays=FEW_TEXTS)
def test_duplicates_are_those_that_a_set_finds(per_round, arrays):
    digests = [np.array([text_digest([str(n)]) for n, _ in array], np.uint64) for array in arrays]
    among = [np.array([counts for _, counts in array], np.bool_) for array in arrays]
    seen: set[int] = set()

    def is_duplicate(n: int) -> bool:
        known = n in seen
        seen.add(n)
        return known

    expected = [[counts and is_duplicate(n) for n, counts in array] for array in arrays]
    masks = find_duplicates(digests, among, digests_per_round=per_round)
    assert [mask.tolist() for mask in masks] == expected


def test_a_digest_depends_on_text_and_lines():
    texts = (["a b"], ["a", "b"], ["ab"], ["a b "], ["\ud800"], ["日本"])
    assert len({text_digest(text) for text in texts}) == len(texts)
    # printf 'one\ntwo' | b2sum -l 64; data sets contain it, so it must not change
    by_b2sum = "bb4549a9d91e839c"
    assert text_digest(["one", "two"]) == int.from_bytes(bytes.fromhex(by_b2sum), "little")


DOCUMENTS = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(
            st.tuples(st.sampled_from(["short", "long", "gone"]), st.integers(1, 3)), min_size=1, max_size=5
        ),
    ),
    max_size=8,
)


@given(documents=DOCUMENTS)
@pytest.mark.slow
def test_documents_and_paragraphs_are_dropped_from_a_shard(documents):
    """Documents are (dropped, paragraphs), and paragraphs (short, long, or long and dropped; sentences)."""
    number = iter(range(1, 1000))
    rows = [
        (gone, [(kind, [[next(number)] * n for n in range(1, size + 1)]) for kind, size in paragraphs])
        for gone, paragraphs in documents
    ]
    digests = np.arange(len(rows), dtype=np.uint64) + 7
    left = [
        [] if gone else [(kind, sentences) for kind, sentences in paragraphs if kind != "gone"]
        for gone, paragraphs in rows
    ]
    stays = np.array(list(map(bool, left)), np.bool_)
    all_paragraphs = [kind for _, paragraphs in rows for kind, _ in paragraphs if kind != "short"]
    found = drop_from_shard(
        shard_of([paragraphs for _, paragraphs in rows], digests),
        np.array([gone for gone, _ in rows], np.bool_),
        np.array([kind == "gone" for kind in all_paragraphs], np.bool_),
    )
    expected = shard_of([paragraphs for paragraphs in left if paragraphs], digests[stays])
    for field in Shard.__dataclass_fields__:
        assert getattr(found, field).tolist() == getattr(expected, field).tolist(), field


def shard_of(documents: list, digests_of_documents: np.ndarray) -> Shard:
    """Make a shard in which the digest of a paragraph is its first token."""
    rows = [[sentence for _, some in paragraphs for sentence in some] for paragraphs in documents]
    starts, ends, digests, counts = [], [], [], []
    place = 0
    for paragraphs in documents:
        for kind, some in paragraphs:
            if kind != "short":
                starts.append(place)
                ends.append(place + len(some))
                digests.append(some[0][0])
            place += len(some)
        counts.append(sum(kind != "short" for kind, _ in paragraphs))
    return replace(
        corpora.shard_of(rows, digests_of_documents),
        paragraph_offsets=to_offsets(counts),
        paragraph_digests=np.array(digests, np.uint64),
        paragraph_starts=np.array(starts, np.int64),
        paragraph_ends=np.array(ends, np.int64),
    )


def test_counts_add_up():
    one = DuplicateCounts(1, 2, 3)
    assert one + one == DuplicateCounts(2, 4, 6)
    assert list(one.describe("document")) == [
        "dropped 1 duplicate document (3 tokens)",
        "kept 2 duplicate documents",
    ]
    assert list(DuplicateCounts().describe("document")) == []
