"""The text of an epoch is complete, and lengths do not reveal the labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from cloze.data.instances.pairs import BlockPlan, PairsConfig, plan_block
from cloze.errors import InputError

DOCUMENTS = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=30), min_size=1, max_size=12)


def plan_of(documents: list[list[int]], config: PairsConfig | None = None, **keys: int) -> BlockPlan:
    ends = np.cumsum([len(document) for document in documents])
    return plan_block(
        ends - [len(document) for document in documents],
        ends,
        sentence_offsets(documents),
        config or PairsConfig(),
        **{"max_seq_length": 64, "seed": 1, "phase": 0, "block": 0, **keys},
    )


def sentence_offsets(documents: list[list[int]]) -> np.ndarray:
    return np.cumsum([0, *(length for document in documents for length in document)])


def document_bounds(documents: list[list[int]]) -> np.ndarray:
    return np.cumsum([0, *(sum(document) for document in documents)])


def document_of(documents: list[list[int]], token: np.ndarray) -> np.ndarray:
    return np.searchsorted(document_bounds(documents), token, side="right")


def random_documents(rng: np.random.Generator, num_documents: int) -> list[list[int]]:
    return [
        np.maximum(1, rng.gamma(2, 12, rng.integers(1, 80)).astype(int)).tolist()
        for _ in range(num_documents)
    ]


@settings(deadline=None)
@given(DOCUMENTS, st.integers(0, 2**31 - 1), st.integers(8, 130), st.sampled_from([0.0, 0.1, 1.0]))
def test_every_pair_is_made_of_whole_sentences_of_the_right_documents(documents, seed, length, short):
    config = PairsConfig(short_seq_prob=short)
    if sum(len(document) > 1 for document in documents) < 2:
        with pytest.raises(InputError, match="Give more documents"):
            plan_of(documents, config, seed=seed, max_seq_length=length)
        return
    plan = plan_of(documents, config, seed=seed, max_seq_length=length)
    assert plan.num_skipped_documents == sum(len(document) < 2 for document in documents)
    assert plan.next_sentence_labels.sum() == len(plan) // 2
    for bound in (plan.a_start, plan.a_end, plan.b_start, plan.b_end):
        assert np.isin(bound, sentence_offsets(documents)).all()
    assert (plan.a_start < plan.a_end).all()
    assert (plan.b_start < plan.b_end).all()
    follows = plan.next_sentence_labels == 0
    assert (plan.b_start == plan.a_end)[follows].all()
    same = document_of(documents, plan.a_start) == document_of(documents, plan.b_start)
    assert (same == follows).all()
    a_order = np.argsort(plan.a_start)
    assert (plan.a_end[a_order][:-1] <= plan.a_start[a_order][1:]).all()


@settings(deadline=None)
@given(DOCUMENTS, st.integers(0, 2**31 - 1), st.integers(8, 130))
def test_without_pairs_every_sentence_is_in_exactly_one_chunk(documents, seed, length):
    plan = plan_of(documents, PairsConfig(next_sentence=False), seed=seed, max_seq_length=length)
    order = np.argsort(plan.a_start)
    assert plan.a_start[order][0] == 0
    assert (plan.a_end[order][:-1] == plan.a_start[order][1:]).all()
    assert plan.a_end[order][-1] == sentence_offsets(documents)[-1]
    assert np.isin(document_bounds(documents)[:-1], plan.a_start).all()
    assert not plan.next_sentence_labels.any()


@pytest.mark.parametrize(("seed", "num_blocks"), [(0, 1), (1, 1), (2, 1), (3, 4), (4, 7)])
def test_every_sentence_is_read_once_per_epoch(seed, num_blocks):
    documents = random_documents(np.random.default_rng(seed), 300)
    plans = [
        plan_of(documents, seed=seed, block=block, num_blocks=num_blocks)
        for block in range(2 * num_blocks, 3 * num_blocks)
    ]
    assert all(plan.next_sentence_labels.sum() == len(plan) // 2 for plan in plans)
    starts, ends = (
        np.concatenate([getattr(plan, f"{segment}_{edge}") for segment in "ab" for plan in plans])
        for edge in ("start", "end")
    )
    order = np.argsort(starts)
    covered = np.zeros(sentence_offsets(documents)[-1], np.int64)
    for start, end in zip(starts[order].tolist(), ends[order].tolist(), strict=True):
        covered[start:end] += 1
    bounds = document_bounds(documents)
    for document, start, end in zip(documents, bounds[:-1], bounds[1:], strict=True):
        assert (covered[start:end] == (len(document) > 1)).all()


def test_a_block_has_one_of_neighboring_documents_and_others_in_each_epoch():
    documents = [[20, 20]] * 300

    def read(block: int) -> list[int]:
        return sorted(document_of(documents, plan_of(documents, block=block, num_blocks=4).a_start).tolist())

    epochs = [[read(4 * epoch + block) for block in range(4)] for epoch in range(2)]
    for blocks in epochs:
        assert sorted(number for block in blocks for number in block) == list(range(1, 301))
        assert [[(number - 1) // 4 for number in block] for block in blocks] == [list(range(75))] * 4
    assert all(len({*first} & {*second}) < 40 for first, second in zip(*epochs, strict=True))


def test_chunks_reach_their_target_and_no_further():
    documents = random_documents(np.random.default_rng(0), 300)
    plan = plan_of(documents, PairsConfig(next_sentence=False, short_seq_prob=0.0))
    offsets, bounds = sentence_offsets(documents), document_bounds(documents)
    length = plan.a_end - plan.a_start
    last_sentence = plan.a_end - offsets[np.searchsorted(offsets, plan.a_end) - 1]
    assert (length - last_sentence < 62).all()
    assert ((length >= 62) | np.isin(plan.a_end, bounds)).all()


def test_a_tenth_of_the_chunks_is_shorter():
    documents = [[1] * 4000 for _ in range(100)]
    plan = plan_of(documents, PairsConfig(next_sentence=False))
    short = (plan.a_end - plan.a_start < 62) & ~np.isin(plan.a_end, document_bounds(documents))
    expected = 0.1 * 60 / 61  # a target drawn from 2..62 may be the longest
    assert abs(short.mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / len(plan))


def test_the_plan_depends_only_on_its_keys():
    documents = random_documents(np.random.default_rng(1), 50)

    def rows(**keys: int) -> list[list[int]]:
        plan = plan_of(documents, **keys)
        return [plan.a_start.tolist(), plan.b_start.tolist(), plan.next_sentence_labels.tolist()]

    assert rows() == rows()
    others = [rows(block=1), rows(phase=1), rows(seed=2)]
    assert all(rows() != other for other in others)
    assert others[0] != others[1]


def test_a_dominant_document_gets_bs_of_others_more_than_once():
    documents = [[10] * 5000, [10] * 12, [7] * 12]
    plan = plan_of(documents)
    random_next = plan.next_sentence_labels == 1
    assert random_next.sum() == len(plan) // 2
    a, b = document_of(documents, plan.a_start), document_of(documents, plan.b_start)
    assert (a != b)[random_next].all()


def lengths_tell(features: np.ndarray, labels: np.ndarray) -> float:
    """Return how well a classifier trained on one half of the pairs tells the labels of the other half."""
    half = len(labels) // 2
    classifier = DecisionTreeClassifier(min_samples_leaf=100, random_state=0)
    classifier.fit(features[:half], labels[:half])
    return roc_auc_score(labels[half:], classifier.predict_proba(features[half:])[:, 1])


def test_lengths_do_not_reveal_the_label():
    rng = np.random.default_rng(2)
    documents = random_documents(rng, 3000)
    plan = plan_of(documents)
    labels = plan.next_sentence_labels
    a, b = plan.a_end - plan.a_start, plan.b_end - plan.b_start
    noise = np.sqrt(4 / (12 * len(plan)))  # standard error of an area under the curve without information
    for feature in (a, b, a + b, a / (a + b)):
        assert abs(roc_auc_score(labels, feature) - 0.5) < 4 * noise
    assert abs(lengths_tell(np.stack([a, b], 1), labels) - 0.5) < 4 * np.sqrt(2) * noise
    # The same measure sees it at once where a random B is any B.
    any_b = np.where(labels == 1, rng.permutation(b), b)
    assert lengths_tell(np.stack([a, any_b], 1), labels) > 0.6
