import pytest
import torch

from cloze.models.functional import dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("prob", [0.1, 0.5, 0.001])
def test_drops_the_given_share_and_keeps_the_mean(prob, dtype):
    torch.manual_seed(0)
    num_elements = 1_000_003  # not a multiple of what one draw fills
    dropped = dropout(torch.ones(num_elements, dtype=dtype), prob)
    share = (dropped == 0).double().mean().item()
    deviation = (prob * (1 - prob) / num_elements) ** 0.5
    assert abs(share - prob) < 4 * deviation + 2**-17
    assert dropped.unique().tolist() == pytest.approx(
        [0, 1 / (1 - prob)], rel=1e-2 if dtype != torch.float32 else 1e-4
    )
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


def test_zero_is_the_identity():
    x = torch.randn(3)
    assert dropout(x, 0.0) is x


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
