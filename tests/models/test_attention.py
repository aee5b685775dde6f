import pytest
import torch
from torch.nn import functional

from cloze.data.batch import collate
from cloze.models.attention import attention, grouped_attention, select_backend, varlen_attention
from cloze.models.batch import to_device

LENGTHS = [11, 7, 7, 7, 3, 1]


@pytest.fixture
def packed():
    return to_device(collate([[1] * length for length in LENGTHS]))


def query_key_value(packed, dtype=torch.float32, device="cpu", head_size=5):
    generator = torch.Generator().manual_seed(0)
    shape = (3, packed.num_tokens, 2, head_size)
    return [t.to(device, dtype).requires_grad_() for t in torch.randn(shape, generator=generator)]


def one_by_one(query, key, value):
    """A sequence at a time, by torch's own attention."""
    sequences = [tensor.transpose(0, 1).split(LENGTHS, 1) for tensor in (query, key, value)]
    contexts = [functional.scaled_dot_product_attention(*parts) for parts in zip(*sequences, strict=True)]
    return torch.cat(contexts, 1).transpose(0, 1)


def test_grouped_attention_equals_torch_sequence_by_sequence(packed):
    ours, theirs = query_key_value(packed), query_key_value(packed)
    context, expected = grouped_attention(*ours, packed, 0.0), one_by_one(*theirs)
    torch.testing.assert_close(context, expected)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    (context * weights).sum().backward()
    (expected * weights).sum().backward()
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our.grad, their.grad)


def test_dropout_applies_to_attention_weights(packed):
    query, key, _ = query_key_value(packed)
    torch.manual_seed(0)
    contexts = torch.stack([attention(query, key, torch.ones_like(key), packed, 0.3) for _ in range(400)])
    assert contexts.std() > 0.1
    torch.testing.assert_close(contexts.mean(0), torch.ones_like(key), atol=0.2, rtol=0)


def test_cpu_selects_grouped_attention(packed):
    assert select_backend(query_key_value(packed)[0], 0.0) is grouped_attention


def test_varlen_refuses_dropout(packed):
    with pytest.raises(ValueError, match="no dropout"):
        varlen_attention(*query_key_value(packed), packed, 0.1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_varlen_equals_grouped_on_cuda():
    packed = to_device(collate([[1] * length for length in LENGTHS]), torch.device("cuda"))
    ours = query_key_value(packed, torch.bfloat16, "cuda", head_size=64)
    theirs = query_key_value(packed, torch.bfloat16, "cuda", head_size=64)
    assert select_backend(ours[0], 0.0) is varlen_attention
    assert select_backend(ours[0], 0.1) is grouped_attention
    assert select_backend(ours[0].float(), 0.0) is grouped_attention
    context, expected = varlen_attention(*ours, packed, 0.0), grouped_attention(*theirs, packed, 0.0)
    torch.testing.assert_close(context, expected, atol=2e-2, rtol=2e-2)
    context.sum().backward()
    expected.sum().backward()
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our.grad, their.grad, atol=5e-2, rtol=5e-2)
