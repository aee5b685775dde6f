"""Instances from documents: what is in a batch, and that nothing depends on who asks when."""

import numpy as np
import pytest

from cloze.corpus.batches import Cursor, DrawnInstances, PackedBatch, micro_batches, take
from cloze.corpus.masking import MaskingConfig
from cloze.corpus.pairs import PairsConfig
from cloze.errors import InputError


@pytest.fixture
def draw(documents, tokenizer):
    def make(**changes) -> DrawnInstances:
        settings = {
            "max_seq_length": 64,
            "max_predictions_per_seq": None,
            "pairs": PairsConfig(),
            "masking": MaskingConfig(),
            "seed": 1,
            "phase": 0,
        }
        return DrawnInstances(documents, tokenizer, **{**settings, **changes})

    return make


def instances_of(batch: PackedBatch) -> list[tuple]:
    """Take a batch apart: (ids before masking, ids, types, predicted positions, label) of each instance."""
    original = batch.input_ids.copy()
    original[batch.masked_lm_positions] = batch.masked_lm_ids
    rows = []
    for i, (start, end) in enumerate(zip(batch.cu_seqlens[:-1], batch.cu_seqlens[1:], strict=True)):
        inside = (batch.masked_lm_positions >= start) & (batch.masked_lm_positions < end)
        rows.append(
            (
                tuple(original[start:end].tolist()),
                tuple(batch.input_ids[start:end].tolist()),
                tuple(batch.token_type_ids[start:end].tolist()),
                tuple((batch.masked_lm_positions[inside] - start).tolist()),
                int(batch.next_sentence_labels[i]),
            )
        )
    return rows


def test_a_batch_is_packed_the_longest_first(draw, tokenizer):
    source = draw()
    positions = np.arange(source.num_instances(0))
    batch = source.batch(0, positions)
    lengths = np.diff(batch.cu_seqlens)
    assert batch.cu_seqlens.dtype == np.int32
    assert batch.cu_seqlens[0] == 0
    assert batch.cu_seqlens[-1] == len(batch.input_ids) == len(batch.token_type_ids)
    assert (np.diff(lengths) <= 0).all()
    assert len(lengths) == len(positions)
    assert lengths.max() == 64
    for original, _, types, predicted, _ in instances_of(batch):
        length = len(original)
        separators = [i for i, piece in enumerate(original) if piece == tokenizer.sep_id]
        assert original[0] == tokenizer.cls_id
        assert len(separators) == 2
        assert separators[1] == length - 1
        assert types == (0,) * (separators[0] + 1) + (1,) * (length - separators[0] - 1)
        assert len(predicted) == max(1, round(0.15 * length))
    expected_positions = np.concatenate([np.arange(length) for length in lengths])
    assert (batch.position_ids == expected_positions).all()


def test_segments_are_stretches_of_the_text_cut_as_google_cuts_them(draw, documents, tokenizer):
    source = draw()
    plan = source.plan(0)
    for position in range(len(plan)):
        ((original, _, _, _, label),) = instances_of(source.batch(0, np.array([position])))
        separator = original.index(tokenizer.sep_id)
        segments = (original[1:separator], original[separator + 1 : -1])
        lengths = [
            int(plan.a_end[position] - plan.a_start[position]),
            int(plan.b_end[position] - plan.b_start[position]),
        ]
        while sum(lengths) > 61:
            lengths[0 if lengths[0] > lengths[1] else 1] -= 1
        assert [len(segment) for segment in segments] == lengths
        for segment, start, end in (
            (segments[0], plan.a_start[position], plan.a_end[position]),
            (segments[1], plan.b_start[position], plan.b_end[position]),
        ):
            text = documents.read(int(start), int(end)).tolist()
            starts = range(len(text) - len(segment) + 1)
            assert any(text[i : i + len(segment)] == list(segment) for i in starts)
        assert label == plan.next_sentence_labels[position]


def test_a_batch_is_the_same_whatever_was_asked_before(draw):
    source, other = draw(), draw()
    positions = np.array([5, 200, 17, 3])
    first = instances_of(source.batch(1, positions))
    other.batch(0, np.arange(50))
    other.batch(2, positions)
    assert instances_of(other.batch(1, positions[::-1])) != []
    assert sorted(instances_of(other.batch(1, positions[::-1]))) == sorted(first)
    alone = [instances_of(other.batch(1, positions[i : i + 1]))[0] for i in range(4)]
    assert sorted(alone) == sorted(first)


@pytest.mark.parametrize("whole_word", [False, True])
def test_every_epoch_phase_and_seed_draws_anew(draw, whole_word):
    masking = MaskingConfig(whole_word=whole_word)
    positions = np.arange(100)
    batches = [
        draw(masking=masking).batch(0, positions),
        draw(masking=masking).batch(1, positions),
        draw(masking=masking, phase=1).batch(0, positions),
        draw(masking=masking, seed=2).batch(0, positions),
    ]
    drawn = [set(instances_of(batch)) for batch in batches]
    assert all(a.isdisjoint(b) for i, a in enumerate(drawn) for b in drawn[:i])


def test_the_places_of_masks_repeat_in_no_other_epoch_phase_or_seed(draw, make_documents):
    alike = make_documents([[[7] * 10] for _ in range(200)])

    def places(epoch: int = 0, **keys: int) -> list[tuple]:
        source = draw(pairs=PairsConfig(next_sentence=False), **keys)
        source.documents = alike
        return [predicted for *_, predicted, _ in instances_of(source.batch(epoch, np.arange(200)))]

    first = places()
    assert first == places()
    for other in (places(epoch=1), places(phase=1), places(seed=2)):
        same = sum(a == b for a, b in zip(first, other, strict=True))
        assert same < 20  # 2 places of 10: 45 ways


def test_the_cap_on_predictions(draw):
    batch = draw(max_predictions_per_seq=3).batch(0, np.arange(100))
    counts = [len(predicted) for *_, predicted, _ in instances_of(batch)]
    assert max(counts) == 3


def test_masks_grow_fewer_over_a_run_and_nothing_else_changes(draw):
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


def test_without_pairs_an_instance_is_one_segment(draw, tokenizer):
    source = draw(pairs=PairsConfig(next_sentence=False))
    batch = source.batch(0, np.arange(source.num_instances(0)))
    assert not batch.token_type_ids.any()
    assert not batch.next_sentence_labels.any()
    for original, *_ in instances_of(batch):
        assert original.count(tokenizer.sep_id) == 1
        assert original[-1] == tokenizer.sep_id
    assert np.diff(batch.cu_seqlens).max() == 64


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


def test_an_instance_over_the_limit_goes_alone(draw):
    assert len(list(micro_batches(draw(), 0, np.arange(5), 1))) == 5


def test_taking_runs_over_the_ends_of_epochs(draw):
    source = draw()
    sizes = [source.num_instances(epoch) for epoch in range(3)]
    parts, cursor = take(source, Cursor(0, sizes[0] - 2), 2 + sizes[1] + 3)
    assert [epoch for epoch, _ in parts] == [0, 1, 2]
    assert parts[0][1].tolist() == [sizes[0] - 2, sizes[0] - 1]
    assert parts[1][1].tolist() == list(range(sizes[1]))
    assert parts[2][1].tolist() == [0, 1, 2]
    assert cursor == Cursor(2, 3)
    assert take(source, Cursor(0, sizes[0] - 1), 1)[1] == Cursor(1, 0)


def test_steps_of_any_size_read_the_same_instances_in_the_same_order(draw):
    def first(count: int, step: int) -> list[tuple[int, int]]:
        source, cursor, seen = draw(), Cursor(), []
        while len(seen) < count:
            parts, cursor = take(source, cursor, step)
            seen += [(epoch, position) for epoch, positions in parts for position in positions.tolist()]
        return seen[:count]

    assert first(3000, 7) == first(3000, 64)


def test_nothing_to_take(make_documents, tokenizer):
    nothing = DrawnInstances(
        make_documents([]),
        tokenizer,
        max_seq_length=64,
        max_predictions_per_seq=None,
        pairs=PairsConfig(next_sentence=False),
        masking=MaskingConfig(),
        seed=0,
        phase=0,
    )
    with pytest.raises(InputError, match="makes no instance"):
        take(nothing, Cursor(), 1)


@pytest.mark.parametrize(("targets", "side"), [("next", 1), ("previous", -1)])
def test_what_looks_one_way_names_every_neighbour_of_the_text(draw, tokenizer, targets, side):
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
