import pytest
import torch
from torch import nn
from torch.nn import functional

from cloze.models.checkpoint import save_weights
from cloze.models.functional import linear_cross_entropy_sum, padded_cross_entropy_sum
from cloze.training.optimizer import OptimizerConfig, build_optimizer, set_learning_rate


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
