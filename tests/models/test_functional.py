import pytest
import torch
from torch import nn
from torch.nn import functional

from cloze.models.checkpoint import save_weights
from cloze.models.functional import dropout, linear_cross_entropy_sum, padded_cross_entropy_sum
from cloze.training.optimizer import OptimizerConfig, build_optimizer, set_learning_rate


def inputs(num_positions: int, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_positions, 13, generator=generator)
    weight = torch.randn(101, 13, generator=generator)
    bias = torch.randn(101, generator=generator)
    ids = torch.randint(101, (num_positions,), generator=generator)
    return [tensor.to(dtype).requires_grad_() for tensor in (hidden, weight, bias)], ids


@pytest.mark.parametrize("num_positions", [0, 1, 32, 71])
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


def cross_entropy_of_copies(hidden, weight, bias, ids):
    """Pad the vocabulary by copying it."""
    padded = functional.pad(weight, (0, 0, 0, 27)), functional.pad(bias, (0, 27), value=-torch.inf)
    return functional.cross_entropy(functional.linear(hidden, *padded).float(), ids, reduction="sum")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_padding_in_place_equals_padded_copies_over_optimizer_steps(dtype):
    weights = []
    for loss_sum in (padded_cross_entropy_sum, cross_entropy_of_copies):
        (hidden, weight, bias), ids = inputs(12)
        model = nn.ParameterDict({"weight": weight, "bias": bias})
        optimizer = build_optimizer(model, OptimizerConfig())
        set_learning_rate(optimizer, 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            for rows in torch.arange(12).split(5):
                with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
                    loss = loss_sum(hidden[rows], model["weight"], model["bias"], ids[rows])
                loss.backward()
            optimizer.step()
        weights.append([loss, hidden.grad, model["weight"], model["bias"]])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*weights, strict=True))


def test_vocabulary_is_padded_in_its_own_storage_once(tmp_path):
    (hidden, weight, bias), ids = inputs(5)
    save_weights({"weight": weight}, tmp_path / "before")
    places = []
    for _ in range(3):
        padded_cross_entropy_sum(hidden, weight, bias, ids)
        places.append((weight.data_ptr(), bias.data_ptr()))
    assert places[0] == places[1] == places[2]
    save_weights({"weight": weight}, tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


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
