import pytest
import torch
from torch.nn import functional

from cloze.model.attention import attention, grouped, select_backend, varlen
from cloze.model.packed import Packed

LENGTHS = [11, 7, 7, 7, 3, 1]


@pytest.fixture
def packed():
    return Packed.from_sequences([[1] * length for length in LENGTHS])


def query_key_value(packed, dtype=torch.float32, device="cpu", head_size=5):
    generator = torch.Generator().manual_seed(0)
    shape = (3, packed.num_tokens, 2, head_size)
    return [t.to(device, dtype).requires_grad_() for t in torch.randn(shape, generator=generator)]


def one_by_one(query, key, value):
    """A sequence at a time, by torch's own attention."""
    sequences = [tensor.transpose(0, 1).split(LENGTHS, 1) for tensor in (query, key, value)]
    contexts = [functional.scaled_dot_product_attention(*parts) for parts in zip(*sequences, strict=True)]
    return torch.cat(contexts, 1).transpose(0, 1)


def test_grouped_equals_one_by_one_forward_and_backward(packed):
    ours, theirs = query_key_value(packed), query_key_value(packed)
    context, expected = grouped(*ours, packed, 0.0), one_by_one(*theirs)
    torch.testing.assert_close(context, expected)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    (context * weights).sum().backward()
    (expected * weights).sum().backward()
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our.grad, their.grad)


def test_dropout_falls_on_the_weights(packed):
    query, key, _ = query_key_value(packed)
    torch.manual_seed(0)
    contexts = torch.stack([attention(query, key, torch.ones_like(key), packed, 0.3) for _ in range(400)])
    assert contexts.std() > 0.1
    torch.testing.assert_close(contexts.mean(0), torch.ones_like(key), atol=0.2, rtol=0)


def test_the_cpu_groups(packed):
    assert select_backend(query_key_value(packed)[0], 0.0) is grouped


def test_varlen_refuses_dropout(packed):
    with pytest.raises(ValueError, match="no dropout"):
        varlen(*query_key_value(packed), packed, 0.1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_varlen_equals_grouped_on_cuda(packed):
    packed = packed.to("cuda")
    ours = query_key_value(packed, torch.bfloat16, "cuda", head_size=64)
    theirs = query_key_value(packed, torch.bfloat16, "cuda", head_size=64)
    assert select_backend(ours[0], 0.0) is varlen
    assert select_backend(ours[0], 0.1) is grouped
    assert select_backend(ours[0].float(), 0.0) is grouped
    context, expected = varlen(*ours, packed, 0.0), grouped(*theirs, packed, 0.0)
    torch.testing.assert_close(context, expected, atol=2e-2, rtol=2e-2)
    context.sum().backward()
    expected.sum().backward()
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our.grad, their.grad, atol=5e-2, rtol=5e-2)
