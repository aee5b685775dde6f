"""Muon compared with torch's, and the parameters that it trains."""

from collections.abc import Sequence

import pytest
import torch
from torch import nn

import cloze
from cloze.models.encoder import HiddenMatrix
from cloze.models.heads import BertForPreTraining
from cloze.training import optimizer as optimizers
from cloze.training.optimizer import (
    MuonAdamW,
    MuonConfig,
    OptimizerConfig,
    build_optimizer,
    set_learning_rate,
)

NANO = cloze.BertConfig(
    vocab_size=50, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20
)


def _muon(matrices: Sequence[HiddenMatrix], **settings: float) -> MuonAdamW:
    group = {"params": [nn.Parameter(torch.zeros(3))], "weight_decay": 0.0}
    return MuonAdamW(matrices, [group], OptimizerConfig(learning_rate=0.5), MuonConfig(**settings))


@pytest.mark.protected
def test_steps_equal_torch_muon(monkeypatch):
    """Tall, wide and square at once; torch multiplies in bfloat16 everywhere, hence the tolerance."""
    monkeypatch.setattr(optimizers, "resolve_dtype", lambda *_: torch.bfloat16)
    torch.manual_seed(1)
    shapes = [(20, 12), (12, 20), (12, 12), (20, 12)]
    ours = [nn.Parameter(torch.randn(*shape)) for shape in shapes]
    theirs = [nn.Parameter(parameter.detach().clone()) for parameter in ours]
    matrices = [HiddenMatrix(parameter) for parameter in ours]
    optimizer = _muon(matrices, learning_rate=0.02, weight_decay=0.1)
    reference = torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    set_learning_rate(optimizer, 0.5)
    for _ in range(4):
        for our, their in zip(ours, theirs, strict=True):
            our.grad = torch.randn_like(our)
            their.grad = our.grad.clone()
        optimizer.step()
        reference.step()
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, rtol=0, atol=2e-3)


def test_query_key_and_value_are_orthogonalized_separately():
    torch.manual_seed(2)
    start = torch.randn(36, 12)
    gradient = torch.randn(36, 12)
    together, apart = nn.Parameter(start.clone()), [nn.Parameter(part) for part in start.clone().chunk(3)]
    together.grad = gradient
    for parameter, part in zip(apart, gradient.chunk(3), strict=True):
        parameter.grad = part.clone()
    for matrices in ([HiddenMatrix(together, 3)], [HiddenMatrix(parameter) for parameter in apart]):
        optimizer = _muon(matrices, learning_rate=0.5)
        set_learning_rate(optimizer, 0.1)
        optimizer.step()
    torch.testing.assert_close(together.detach(), torch.cat([part.detach() for part in apart]))
    assert not torch.equal(together.detach(), start)


def test_muon_trains_layer_matrices_and_adamw_the_rest():
    torch.manual_seed(3)
    model = BertForPreTraining(cloze.BertModel(NANO))
    config = OptimizerConfig(learning_rate=1e-3, bias_correction=True, muon=MuonConfig(learning_rate=5e-3))
    optimizer = build_optimizer(model, config)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    set_learning_rate(optimizer, 5e-4)
    optimizer.step()
    by_muon = {name for name, p in model.named_parameters() if set(optimizer.state[p]) == {"momentum"}}
    kinds = ("query_key_value", "attention_output", "intermediate", "output")
    assert by_muon == {f"bert.layers.{layer}.{kind}.weight" for layer in range(2) for kind in kinds}
    by_adam = {name for name, p in model.named_parameters() if "exp_avg" in optimizer.state[p]}
    assert by_adam == {name for name, _ in model.named_parameters()} - by_muon
    assert {group["lr"] for group in optimizer.param_groups} == {5e-4, 2.5e-3}


def test_muon_without_layers_is_refused():
    with pytest.raises(cloze.InputError, match=r"optimizer\.muon.*no layer"):
        build_optimizer(nn.Linear(3, 5), OptimizerConfig(muon=MuonConfig()))


def test_a_step_with_an_infinite_gradient_changes_nothing_and_others_are_as_without_the_flag():
    torch.manual_seed(3)
    config = OptimizerConfig(learning_rate=0.1, muon=MuonConfig(weight_decay=0.1), bias_correction=True)
    models = [cloze.BertModel(NANO) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [build_optimizer(model, config) for model in models]
    for optimizer in optimizers:
        set_learning_rate(optimizer, 0.05)
    for step in range(4):
        for ours, theirs in zip(*(model.parameters() for model in models), strict=True):
            ours.grad = torch.randn_like(ours)
            theirs.grad = ours.grad.clone()
        optimizers[0].step()
        optimizers[1].step(found_inf=torch.zeros(()))
        if step == 2:
            for theirs in models[1].parameters():
                theirs.grad = torch.full_like(theirs, torch.nan if theirs.ndim > 1 else torch.inf)
            optimizers[1].step(found_inf=torch.ones(()))
    for ours, theirs in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(ours, theirs)
        for key, value in optimizers[0].state[ours].items():
            assert torch.equal(optimizers[1].state[theirs][key], value)
