"""The mean of the weights over the end of a run."""

import pytest
import torch
from torch import nn

from cloze.training.averaging import AveragingConfig, TailAverage


def _train(model: nn.Linear, average: TailAverage, steps: range) -> list[torch.Tensor]:
    seen = []
    for step in steps:
        with torch.no_grad():
            model.weight.add_(torch.randn(3, 2, generator=torch.Generator().manual_seed(step)))
        average.update(step / 10)
        seen.append(model.weight.detach().clone())
    return seen


def test_the_mean_is_over_the_tail_and_stands_in_for_a_while() -> None:
    model = nn.Linear(2, 3)
    average = TailAverage(model, AveragingConfig(tail_fraction=0.3))
    seen = _train(model, average, range(10))
    with average.in_place():
        torch.testing.assert_close(model.weight.detach(), torch.stack(seen[7:]).mean(0))
    assert torch.equal(model.weight, seen[-1])


def test_before_the_tail_the_weights_stand_for_themselves() -> None:
    model = nn.Linear(2, 3)
    average = TailAverage(model, AveragingConfig(tail_fraction=0.3))
    (*_, last) = _train(model, average, range(7))
    with average.in_place():
        assert torch.equal(model.weight, last)
        assert list(average.tensors()) == ["count"]


def test_restored_it_goes_on_to_the_same_bits() -> None:
    model = nn.Linear(2, 3)
    whole = TailAverage(model, config := AveragingConfig(tail_fraction=0.5))
    _train(model, whole, range(7))
    with whole.in_place():
        saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        tensors = {name: tensor.clone() for name, tensor in whole.tensors().items()}
    again = nn.Linear(2, 3)
    again.load_state_dict(saved)
    resumed = TailAverage(again, config)
    resumed.restore(tensors)
    assert torch.equal(again.weight, model.weight)
    for one, average in ((model, whole), (again, resumed)):
        _train(one, average, range(7, 10))
    assert torch.equal(again.weight, model.weight)
    with whole.in_place(), resumed.in_place():
        assert torch.equal(again.weight, model.weight)


@pytest.mark.parametrize("fraction", [0.0, 1.5])
def test_a_tail_is_a_share_of_the_run(fraction: float) -> None:
    with pytest.raises(ValueError, match="tail_fraction"):
        AveragingConfig(tail_fraction=fraction)
