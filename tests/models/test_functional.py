import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cloze.models.functional import dropout, linear_cross_entropy_sum


def inputs(num_positions: int, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_positions, 13, generator=generator)
    weight = torch.randn(101, 13, generator=generator)
    bias = torch.randn(101, generator=generator)
    ids = torch.randint(101, (num_positions,), generator=generator)
    return [tensor.to(dtype).requires_grad_() for tensor in (hidden, weight, bias)], ids


@pytest.mark.parametrize("num_positions", [0, 1, 32, 71, 5000])
def test_equals_linear_and_cross_entropy_with_gradients(num_positions):
    ours, ids = inputs(num_positions)
    theirs, _ = inputs(num_positions)
    loss = linear_cross_entropy_sum(*ours, ids)
    expected = functional.cross_entropy(functional.linear(*theirs), ids, reduction="sum")
    torch.testing.assert_close(loss, expected)
    (loss / (num_positions + 7)).backward()
    (expected / (num_positions + 7)).backward()
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


def test_a_loss_without_gradients_multiplies_matrices_once():
    class Products(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.count += "aten.mm" in str(function)
            return function(*args, **kwargs or {})

    ours, ids = inputs(40)
    with torch.inference_mode(), Products() as products:
        loss = linear_cross_entropy_sum(*ours, ids)
    assert products.count == 1
    assert loss == linear_cross_entropy_sum(*ours, ids)


def test_scores_of_all_positions_never_exist_at_once():
    class Largest(TorchDispatchMode):
        numel = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **kwargs or {})
            tensors = [value for value in tree_leaves(result) if isinstance(value, torch.Tensor)]
            self.numel = max([self.numel, *(value.untyped_storage().nbytes() // 4 for value in tensors)])
            return result

    ours, ids = inputs(7000)
    with Largest() as largest:
        linear_cross_entropy_sum(*ours, ids).backward()
    assert largest.numel < 7000 * 101 // 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("prob", [0.1, 0.5, 0.001])
def test_drops_the_given_share_and_keeps_the_mean(prob, dtype):
    torch.manual_seed(0)
    num_elements = 1_000_003  # not a multiple of what one draw fills
    dropped = dropout(torch.ones(num_elements, dtype=dtype), prob)
    share = (dropped == 0).double().mean().item()
    deviation = (prob * (1 - prob) / num_elements) ** 0.5
    assert abs(share - prob) < 4 * deviation + 2**-17
    tolerance = 1e-4 if dtype == torch.float32 else 1e-2
    assert dropped.unique().tolist() == pytest.approx([0, 1 / (1 - prob)], rel=tolerance)
    assert dropped.dtype == dtype


def test_adjacent_elements_and_calls_are_independent():
    torch.manual_seed(1)
    first, second = (dropout(torch.ones(400_000), 0.5) - 1 for _ in range(2))
    limit = 4 / 400_000**0.5
    for lag in range(1, 9):
        assert abs((first[:-lag] * first[lag:]).mean()) < limit
    assert abs((first * second).mean()) < limit


def test_same_seed_gives_the_same_mask():
    x = torch.randn(3, 5, 7)
    assert dropout(x, 0.0) is x
    torch.manual_seed(2)
    first, other = dropout(x, 0.3), dropout(x, 0.3)
    torch.manual_seed(2)
    assert torch.equal(dropout(x, 0.3), first)
    assert not torch.equal(first, other)


def test_gradient_is_masked_like_the_value():
    torch.manual_seed(3)
    x = torch.randn(11, 13, requires_grad=True)
    y = dropout(x, 0.4)
    y.backward(torch.ones_like(y))
    torch.testing.assert_close(x.grad, y.detach() / x.detach())


@pytest.mark.parametrize("prob", [0.999995, 1 - 2**-53])
def test_the_highest_probabilities_are_finite(prob):
    torch.manual_seed(5)
    kept = dropout(torch.ones(200_000), prob)
    assert torch.isfinite(kept).all()
    assert set(kept.unique().tolist()) <= {0.0, 2.0**16}


def test_non_contiguous_input():
    torch.manual_seed(4)
    x = torch.ones(5, 7, 11).transpose(0, 2)
    y = dropout(x, 0.5)
    assert set(y.unique().tolist()) == {0.0, 2.0}
