"""Instances from documents: what is in a batch, and that nothing depends on who asks when."""

import numpy as np
import pytest

from cloze.data.batch import DataPosition
from cloze.data.instances.instances import DynamicInstances, micro_batches, take
from cloze.data.instances.masking import MaskingConfig
from cloze.data.instances.pairs import PairsConfig
from cloze.errors import InputError
from corpora import instances_of


@pytest.fixture
def draw(documents, tokenizer):
    def make(**changes) -> DynamicInstances:
        settings = {"max_seq_length": 64, "max_predictions_per_seq": None, "seed": 1, "phase": 0}
        settings |= {"pairs": PairsConfig(), "masking": MaskingConfig(), "documents": documents} | changes
        return DynamicInstances(tokenizer=tokenizer, **settings)

    return make


def test_the_masking_rate_decreases_over_a_run(draw):
    source = draw(masking=MaskingConfig(initial_masked_lm_prob=0.3))
    positions = np.arange(100)
    early, half, end = (source.batch(0, positions, progress=progress) for progress in (0.0, 0.5, 1.0))
    tokens = len(end.input_ids)
    shares = [len(batch.masked_lm_ids) / tokens for batch in (early, half, end)]
    assert shares == pytest.approx([0.3, 0.225, 0.15], abs=0.01)
    constant = draw().batch(0, positions)
    for ours, theirs in ((end, constant), (source.batch(0, positions), constant)):
        assert instances_of(ours) == instances_of(theirs)
    assert [row[0] for row in instances_of(early)] == [row[0] for row in instances_of(end)]
    assert set(end.masked_lm_positions) < set(early.masked_lm_positions)


def test_micro_batches_hold_every_instance_once_and_no_more_tokens_than_allowed(draw):
    source = draw()
    positions = np.arange(10, 110)
    batches = list(micro_batches(source, 0, positions, 500))
    assert all(len(batch.input_ids) <= 500 for batch in batches)
    assert sum(len(batch.input_ids) for batch in batches[:-1]) > 0.85 * 500 * (len(batches) - 1)
    rows = [row for batch in batches for row in instances_of(batch)]
    assert sorted(rows) == sorted(instances_of(source.batch(0, positions)))
    lengths = [len(row[0]) for row in rows]
    assert lengths == sorted(lengths, reverse=True)


def test_an_instance_over_the_limit_is_a_batch(draw):
    assert len(list(micro_batches(draw(), 0, np.arange(5), 1))) == 5


def test_take_continues_in_the_next_epoch(draw):
    source = draw()
    sizes = [source.num_instances(epoch) for epoch in range(3)]
    parts, position = take(source, DataPosition(0, 0, sizes[0] - 2), 2 + sizes[1] + 3)
    assert [epoch for epoch, _ in parts] == [0, 1, 2]
    assert parts[0][1].tolist() == [sizes[0] - 2, sizes[0] - 1]
    assert parts[1][1].tolist() == list(range(sizes[1]))
    assert parts[2][1].tolist() == [0, 1, 2]
    assert position == DataPosition(0, 2, 3)
    assert take(source, DataPosition(0, 0, sizes[0] - 1), 1)[1] == DataPosition(0, 1, 0)


def test_take_from_an_empty_source_is_refused(draw, make_documents):
    nothing = draw(documents=make_documents([]), pairs=PairsConfig(next_sentence=False))
    with pytest.raises(InputError, match="makes no instance"):
        take(nothing, DataPosition(), 1)


def test_plans_are_kept_until_they_are_used(draw):
    plans = {}
    first, second = (draw(phase=phase, plans=plans) for phase in (0, 1))
    length = first.num_instances(0)
    parts, _ = take(first, DataPosition(index=length - 2), 4)
    assert [key for key, _ in parts] == [0, 1]
    assert sorted(plans) == [(0, 0), (0, 1)]
    for source, epoch, kept in ((first, 0, [(0, 0), (0, 1)]), (first, 1, [(0, 1)]), (second, 0, [(1, 0)])):
        source.batch(epoch, np.arange(2))
        assert sorted(plans) == kept


@pytest.fixture(scope="module")
def many_documents(make_documents):
    return make_documents([[[5 + n % 100] * 9, [6] * 9] for n in range(3000)])


@pytest.mark.parametrize(
    ("max_block_tokens", "num_blocks"), [(2**27, 1), (54_000, 1), (53_999, 2), (20_000, 2), (1, 2)]
)
def test_blocks_have_a_token_limit_but_1024_documents(draw, many_documents, max_block_tokens, num_blocks):
    assert draw(documents=many_documents, max_block_tokens=max_block_tokens).num_blocks == num_blocks


def test_epochs_are_read_block_by_block_from_any_position(draw, many_documents):
    source = draw(documents=many_documents, max_block_tokens=30_000)
    positions, read = [DataPosition()], []
    while positions[-1].epoch < 2:
        parts, after = take(source, positions[-1], 700)
        read += [(block, index) for block, indices in parts for index in indices.tolist()]
        positions.append(after)
    sizes = [source.num_instances(block) for block in range(5)]
    every = [(block, index) for block, size in enumerate(sizes) for index in range(size)]
    assert read == every[: len(read)]
    assert sum(sizes[:2]) == sum(sizes[2:4]) == 3000
    blocks = {(position.epoch, position.block) for position in positions}
    assert blocks == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)}
    resumed = draw(documents=many_documents, max_block_tokens=30_000)  # plans nothing before its block
    parts, _ = take(resumed, positions[4], 700)
    assert {block for _, block in resumed.plans} == {1, 2}
    for block, indices in parts:
        assert instances_of(resumed.batch(block, indices)) == instances_of(source.batch(block, indices))
    first, second = (instances_of(source.batch(block, np.arange(1000))) for block in (0, 1))
    assert [row[3] for row in first] != [row[3] for row in second]  # masked positions


@pytest.mark.parametrize(("targets", "side"), [("next", 1), ("previous", -1)])
def test_causal_targets_are_adjacent_tokens(draw, tokenizer, targets, side):
    hidden, plain = draw(), draw(targets=targets)
    positions = np.arange(40)
    batch, masked = plain.batch(0, positions), hidden.batch(0, positions)
    assert (batch.cu_seqlens == masked.cu_seqlens).all()
    original = masked.input_ids.copy()
    original[masked.masked_lm_positions] = masked.masked_lm_ids
    assert (batch.input_ids == original).all()  # nothing is hidden
    asked = batch.masked_lm_positions + side
    assert (batch.masked_lm_ids == original[asked]).all()
    special = np.isin(original, [tokenizer.cls_id, tokenizer.sep_id])
    assert (asked == np.flatnonzero(~special)).all()
    sequence = np.searchsorted(batch.cu_seqlens, asked, side="right")
    assert (sequence == np.searchsorted(batch.cu_seqlens, batch.masked_lm_positions, side="right")).all()
    assert (np.diff(batch.masked_lm_positions) > 0).all()
