import pytest
import torch
from torch.nn import functional

from cloze.data.batch import collate
from cloze.models.attention import attention, supports_flash_attention
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


def one_by_one(query, key, value, attends_to):
    """Attend within a sequence at a time, by torch's own attention."""
    contexts = []
    parts_of_all = (tensor.transpose(0, 1).split(LENGTHS, 1) for tensor in (query, key, value))
    for parts in zip(*parts_of_all, strict=True):
        parts = [part.flip(1) for part in parts] if attends_to == "right" else parts
        context = functional.scaled_dot_product_attention(*parts, is_causal=attends_to != "all")
        contexts.append(context.flip(1) if attends_to == "right" else context)
    return torch.cat(contexts, 1).transpose(0, 1)


@pytest.mark.parametrize("attends_to", ["all", "left", "right"])
def test_attention_equals_torch_sequence_by_sequence(packed, attends_to):
    ours, theirs = query_key_value(packed), query_key_value(packed)
    assert not supports_flash_attention(ours[0], attends_to)
    context = attention(*ours, packed, 0.0, attends_to)
    expected = one_by_one(*theirs, attends_to)
    torch.testing.assert_close(context, expected)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    (context * weights).sum().backward()
    (expected * weights).sum().backward()
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our.grad, their.grad)


@pytest.mark.parametrize("length", [3, 1030])
def test_a_bias_is_added_to_the_scores(length):
    packed, generator = to_device(collate([[1] * length])), torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, length, 2, 5, generator=generator)
    bias = torch.randn(2, length, length, generator=generator)
    scores = torch.einsum("tnh,snh->nts", query, key) / 5**0.5 + bias
    expected = torch.einsum("nts,snh->tnh", scores.softmax(-1), value)
    torch.testing.assert_close(attention(query, key, value, packed, 0.0, "all", [bias]), expected)


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
        context = attention(query, key, value, packed, 0.0)
    # the scaled query is the one other number that is rounded
    scaled_twice = (query * 5**-0.5).float() * 5**0.5
    expected = attention(scaled_twice, key.float(), value.float(), packed, 0.0)
    torch.testing.assert_close(context, expected.to(torch.bfloat16), rtol=2**-7, atol=0)
    context.sum().backward()
    assert query.grad.dtype == torch.bfloat16


def on_gpu():
    return to_device(collate([[1] * length for length in LENGTHS]), torch.device("cuda"))


@needs_cuda
@pytest.mark.parametrize("attends_to", ["all", "left"])
def test_flash_attention_equals_products_of_matrices_on_cuda(attends_to):
    packed = on_gpu()
    ours = query_key_value(packed, torch.bfloat16, "cuda", head_size=64)
    theirs = query_key_value(packed, torch.float32, "cuda", head_size=64)
    assert supports_flash_attention(ours[0], attends_to)
    assert not supports_flash_attention(theirs[0], attends_to)
    assert not supports_flash_attention(ours[0], "right")
    assert not supports_flash_attention(ours[0], attends_to, [])
    contexts = [attention(*tensors, packed, 0.0, attends_to).float() for tensors in (ours, theirs)]
    torch.testing.assert_close(*contexts, atol=2e-2, rtol=2e-2)
    for context in contexts:
        context.sum().backward()
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our.grad.float(), their.grad, atol=5e-2, rtol=5e-2)


@needs_cuda
def test_flash_attention_drops_weights_on_cuda():
    packed = on_gpu()
    query, key, value = query_key_value(packed, torch.bfloat16, "cuda", head_size=64)
    ones = torch.ones_like(value)
    draws = torch.stack([attention(query, key, ones, packed, 0.3).float() for _ in range(400)])
    assert draws.std(0).mean() > 0.1
    torch.testing.assert_close(draws.mean(0), ones.float(), atol=0.2, rtol=0)
    torch.manual_seed(5)
    first = attention(query, key, value, packed, 0.3)
    torch.manual_seed(5)
    assert torch.equal(first, attention(query, key, value, packed, 0.3))
    first.sum().backward()
    assert value.grad.isfinite().all()
