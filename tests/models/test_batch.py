import pytest
import torch

from cloze.data.batch import LengthGroup, collate, group_lengths
from cloze.errors import InputError
from cloze.models.batch import pack_padded, to_device
from cloze.models.bert import BertModel
from tiny_models import tiny_config


def test_collate_concatenates_sequences():
    assert group_lengths([2, 3, 3, 2]) == (LengthGroup(0, 1, 2), LengthGroup(2, 2, 3), LengthGroup(8, 1, 2))
    packed = to_device(collate([[7, 8, 9], [4, 5, 6], [3]], [[0, 0, 1], [0, 1, 1], [0]]))
    assert to_device(packed, "meta").input_ids.device.type == "meta"
    assert packed.input_ids.tolist() == [7, 8, 9, 4, 5, 6, 3]
    assert packed.token_type_ids.tolist() == [0, 0, 1, 0, 1, 1, 0]
    assert packed.position_ids.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert packed.cu_seqlens.tolist() == [0, 3, 6, 7]
    assert packed.cu_seqlens.dtype == torch.int32
    assert packed.length_groups == (LengthGroup(0, 2, 3), LengthGroup(6, 1, 1))
    assert (packed.num_tokens, packed.num_sequences, packed.max_seqlen) == (7, 3, 3)


def test_numpy_arrays_are_not_copied():
    batch = collate([[7, 8], [9]])
    tensors = to_device(batch, "cpu")
    assert tensors.length_groups == batch.length_groups
    for name in ("input_ids", "token_type_ids", "position_ids", "cu_seqlens"):
        assert getattr(tensors, name).data_ptr() == getattr(batch, name).ctypes.data


def test_unpacking_restores_padded_rows(ragged):
    input_ids, mask, token_type_ids = ragged
    packed, padding = pack_padded(input_ids, mask.long(), token_type_ids)  # a mask as in transformers
    assert torch.equal(packed.input_ids, pack_padded(*ragged)[0].input_ids)
    assert [run.length for run in packed.length_groups] == [17, 9, 3, 1]
    tokens = torch.stack([packed.input_ids, packed.token_type_ids, packed.position_ids], 1)
    columns = torch.arange(mask.shape[1]).expand(mask.shape)
    expected = torch.stack([input_ids, token_type_ids, columns], 2).masked_fill(~mask.unsqueeze(2), 0)
    assert torch.equal(padding.unpack_tokens(tokens), expected)
    lengths = packed.cu_seqlens.diff().unsqueeze(1)
    assert padding.unpack_sequences(lengths).squeeze(1).tolist() == mask.sum(1).tolist()


def test_a_mask_may_have_holes():
    packed, _ = pack_padded(torch.tensor([[5, 6, 7, 8]]), torch.tensor([[False, True, False, True]]))
    assert packed.input_ids.tolist() == [6, 8]
    assert packed.position_ids.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(2, 3),), "input_ids: torch.float32 of shape"),
        ((torch.ones(3, dtype=torch.int64),), "input_ids: torch.int64 of shape"),
        ((torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3)), "attention_mask: torch.float32, not bool"),
        ((torch.ones(1, 2, dtype=torch.int64), torch.tensor([[0, -1]])), "nor integers of 0 and 1"),
        ((torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 4, dtype=torch.bool)), "attention_mask: shape"),
        ((torch.ones(2, 3, dtype=torch.int64), torch.tensor([[True] * 3, [False] * 3])), "row 1 has no real"),
        (
            (torch.ones(2, 3, dtype=torch.int64), None, torch.ones(2, 4, dtype=torch.int64)),
            "token_type_ids: sh",
        ),
    ],
)
def test_inconsistent_padded_batch_is_refused(arguments, message):
    with pytest.raises(InputError) as caught:
        pack_padded(*arguments)
    assert message in str(caught.value)


def test_empty_sequences_are_refused():
    for sequences in ([], [[1], []]):
        with pytest.raises(InputError, match="empty sequence"):
            collate(sequences)
    with pytest.raises(InputError, match="token_type_ids"):
        collate([[1, 2]], [[0]])


def test_a_mask_beside_a_packed_batch_is_refused():
    config = tiny_config(range(8))
    packed, _ = pack_padded(torch.tensor([[5, 6, 7]]))
    encoder = BertModel(config)
    for name in ("attention_mask", "token_type_ids"):
        with pytest.raises(InputError, match=f"{name}: a packed batch has no padding and has its own types"):
            encoder(packed, **{name: torch.ones(1, 3, dtype=torch.bool)})
