import pytest
import torch
from torch.nn import functional

from cloze.models.cross_entropy import linear_cross_entropy_sum


def inputs(num_positions: int, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_positions, 13, generator=generator)
    weight = torch.randn(101, 13, generator=generator)
    bias = torch.randn(101, generator=generator)
    ids = torch.randint(101, (num_positions,), generator=generator)
    return [tensor.to(dtype).requires_grad_() for tensor in (hidden, weight, bias)], ids


@pytest.mark.parametrize("num_positions", [1, 32, 71])
def test_equals_linear_and_cross_entropy_with_gradients(num_positions):
    ours, ids = inputs(num_positions)
    theirs, _ = inputs(num_positions)
    loss = linear_cross_entropy_sum(*ours, ids)
    expected = functional.cross_entropy(functional.linear(*theirs), ids, reduction="sum")
    torch.testing.assert_close(loss, expected)
    (loss / 7).backward()
    (expected / 7).backward()
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our.grad, their.grad, atol=1e-5, rtol=1e-5)


def test_large_scores_do_not_overflow():
    (hidden, weight, bias), ids = inputs(5)
    loss = linear_cross_entropy_sum(hidden * 1e4, weight, bias, ids)
    assert torch.isfinite(loss)


def test_autocast_computes_products_in_bfloat16_and_gives_float32_gradients():
    ours, ids = inputs(40)
    exact = linear_cross_entropy_sum(*ours, ids)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy_sum(*ours, ids)
    assert loss.dtype == torch.float32
    assert loss != exact
    torch.testing.assert_close(loss, exact, rtol=1e-2, atol=0)
    loss.backward()
    assert all(tensor.grad.dtype == torch.float32 for tensor in ours)


def test_no_masked_position_gives_zero():
    (hidden, weight, bias), _ = inputs(3)
    loss = linear_cross_entropy_sum(hidden[:0], weight, bias, torch.empty(0, dtype=torch.int64))
    loss.backward()
    assert loss == 0
    assert not weight.grad.any()
