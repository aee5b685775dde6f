import pytest
import torch
from torch.nn import functional

from cloze.data.batch import collate
from cloze.models.attention import attention, grouped_attention, select_backend, varlen_attention
from cloze.models.batch import to_device

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
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


def test_short_groups_in_bfloat16_are_computed_in_float32(packed):
    query, key, value = (tensor.detach() for tensor in query_key_value(packed, torch.bfloat16))
    query.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        context = grouped_attention(query, key, value, packed, 0.0)
    # the scaled query is the one other number that is rounded
    scaled_twice = (query * 5**-0.5).float() * 5**0.5
    expected = grouped_attention(scaled_twice, key.float(), value.float(), packed, 0.0)
    torch.testing.assert_close(context, expected.to(torch.bfloat16), rtol=2**-7, atol=0)
    context.sum().backward()
    assert query.grad.dtype == torch.bfloat16


def test_cpu_selects_grouped_attention(packed):
    assert select_backend(query_key_value(packed)[0]) is grouped_attention


def test_varlen_refuses_to_attend_to_the_right(packed):
    with pytest.raises(ValueError, match="the right alone"):
        varlen_attention(*query_key_value(packed), packed, 0.0, "right")


def on_gpu():
    return to_device(collate([[1] * length for length in LENGTHS]), torch.device("cuda"))


@needs_cuda
@pytest.mark.parametrize("attends_to", ["all", "left"])
def test_varlen_equals_grouped_on_cuda(attends_to):
    packed = on_gpu()
    ours = query_key_value(packed, torch.bfloat16, "cuda", head_size=64)
    theirs = query_key_value(packed, torch.bfloat16, "cuda", head_size=64)
    assert select_backend(ours[0], attends_to) is varlen_attention
    assert select_backend(ours[0].float(), attends_to) is grouped_attention
    assert select_backend(ours[0], "right") is grouped_attention
    contexts = [
        backend(*tensors, packed, 0.0, attends_to)
        for backend, tensors in ((varlen_attention, ours), (grouped_attention, theirs))
    ]
    torch.testing.assert_close(*contexts, atol=2e-2, rtol=2e-2)
    for context in contexts:
        context.sum().backward()
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our.grad, their.grad, atol=5e-2, rtol=5e-2)


@needs_cuda
def test_varlen_drops_weights_on_cuda():
    packed = on_gpu()
    query, key, value = query_key_value(packed, torch.bfloat16, "cuda", head_size=64)
    ones = torch.ones_like(value)
    draws = torch.stack([varlen_attention(query, key, ones, packed, 0.3).float() for _ in range(400)])
    assert draws.std(0).mean() > 0.1
    torch.testing.assert_close(draws.mean(0), ones.float(), atol=0.2, rtol=0)
    torch.manual_seed(5)
    first = varlen_attention(query, key, value, packed, 0.3)
    torch.manual_seed(5)
    assert torch.equal(first, varlen_attention(query, key, value, packed, 0.3))
    first.sum().backward()
    assert value.grad.isfinite().all()
