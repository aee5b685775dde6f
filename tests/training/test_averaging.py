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


def test_mean_over_the_tail_is_applied_and_removed():
    model = nn.Linear(2, 3)
    average = TailAverage(model, AveragingConfig(tail_fraction=0.3))
    seen = _train(model, average, range(10))
    with average.applied():
        torch.testing.assert_close(model.weight.detach(), torch.stack(seen[7:]).mean(0))
    assert torch.equal(model.weight, seen[-1])


def test_before_the_tail_no_mean_is_applied():
    model = nn.Linear(2, 3)
    average = TailAverage(model, AveragingConfig(tail_fraction=0.3))
    (*_, last) = _train(model, average, range(7))
    with average.applied():
        assert torch.equal(model.weight, last)
        assert list(average.tensors()) == ["count"]


@pytest.mark.protected
def test_restored_average_continues_bit_identically():
    model = nn.Linear(2, 3)
    whole = TailAverage(model, config := AveragingConfig(tail_fraction=0.5))
    _train(model, whole, range(7))
    with whole.applied():
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
    with whole.applied(), resumed.applied():
        assert torch.equal(again.weight, model.weight)


@pytest.mark.parametrize("fraction", [0.0, 1.5])
def test_tail_fraction_out_of_range_is_refused(fraction):
    with pytest.raises(ValueError, match="tail_fraction"):
        AveragingConfig(tail_fraction=fraction)
