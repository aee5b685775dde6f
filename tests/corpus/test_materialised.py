"""Google's instances on disk, and read in batches."""

from pathlib import Path

import numpy as np
import pytest

from cloze.corpus import original
from cloze.corpus.batches import Cursor, micro_batches, take
from cloze.corpus.original import GoogleSettings, MaterialisedInstances, create_instances, materialise
from cloze.errors import InputError

SETTINGS = GoogleSettings(max_seq_length=48, max_predictions_per_seq=6, dupe_factor=2, seed=3)


@pytest.fixture
def directory(tmp_path: Path, documents, tokenizer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(original, "_INSTANCES_A_SHARD", 300)
    materialise(documents, tokenizer, tmp_path / "instances", SETTINGS)
    assert len(list((tmp_path / "instances").glob("instances-*.arrow"))) > 3
    return tmp_path / "instances"


def test_they_are_those_made_in_memory_in_the_same_order(directory, documents, tokenizer):
    rows = [[s.tolist() for s in documents.document(number)] for number in range(len(documents))]
    expected = create_instances(rows, tokenizer, SETTINGS)
    source = MaterialisedInstances.open(directory)
    assert source.num_instances(0) == source.num_instances(7) == len(expected)
    for position, instance in enumerate(expected):
        batch = source.batch(0, np.array([position]))
        length = len(instance.input_ids)
        assert batch.input_ids.tolist() == instance.input_ids
        assert batch.token_type_ids.tolist() == [int(i >= instance.segment_b_start) for i in range(length)]
        assert batch.position_ids.tolist() == list(range(length))
        assert batch.cu_seqlens.tolist() == [0, length]
        assert batch.masked_lm_positions.tolist() == instance.masked_lm_positions
        assert batch.masked_lm_ids.tolist() == instance.masked_lm_ids
        assert batch.next_sentence_labels.tolist() == [int(instance.is_random_next)]


def test_batches_pack_them_the_longest_first(directory):
    source = MaterialisedInstances.open(directory)
    positions = np.arange(5, 205)
    batch = source.batch(1, positions)
    lengths = np.diff(batch.cu_seqlens)
    assert (np.diff(lengths) <= 0).all()
    each = [source.batch(0, np.array([position])) for position in positions]
    for i, alone in enumerate(sorted(each, key=lambda one: -len(one.input_ids))):
        start, end = batch.cu_seqlens[i : i + 2]
        assert (batch.input_ids[start:end] == alone.input_ids).all()
        assert (batch.token_type_ids[start:end] == alone.token_type_ids).all()
        inside = (batch.masked_lm_positions >= start) & (batch.masked_lm_positions < end)
        assert (batch.masked_lm_positions[inside] - start == alone.masked_lm_positions).all()
        assert (batch.masked_lm_ids[inside] == alone.masked_lm_ids).all()
        assert batch.next_sentence_labels[i] == alone.next_sentence_labels[0]


def test_they_are_taken_like_any_other_source(directory):
    source = MaterialisedInstances.open(directory)
    parts, cursor = take(source, Cursor(), source.num_instances(0) + 10)
    assert cursor == Cursor(1, 10)
    batches = [batch for part in parts for batch in micro_batches(source, *part, 1000)]
    assert all(len(batch.input_ids) <= 1000 for batch in batches)
    assert sum(len(batch.next_sentence_labels) for batch in batches) == source.num_instances(0) + 10


@pytest.mark.parametrize("name", ["instances-00001.arrow", "order.arrow"])
def test_damage_is_found_before_anything_is_used(directory, name):
    data = bytearray((directory / name).read_bytes())
    data[len(data) // 2] ^= 1
    (directory / name).write_bytes(data)
    with pytest.raises(InputError, match=name):
        MaterialisedInstances.open(directory)


def test_no_documents(tmp_path, make_documents, tokenizer):
    with pytest.raises(InputError, match="no document"):
        materialise(make_documents([]), tokenizer, tmp_path / "instances", SETTINGS)
    assert not (tmp_path / "instances").exists()
