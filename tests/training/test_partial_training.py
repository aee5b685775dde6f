"""Learning rates that fall from layer to layer."""

import pytest
import torch

from cloze.models.bert import BertConfig, BertModel
from cloze.models.heads import BertForSequenceClassification
from cloze.training.muon import MuonConfig
from cloze.training.optimizer import OptimizerConfig, build_optimizer, set_learning_rate


def rates(layer_decay: float) -> dict[str, float]:
    config = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
    )
    model = BertForSequenceClassification(BertModel(config), num_labels=2)
    optimizer = build_optimizer(model, OptimizerConfig(layer_decay=layer_decay))
    set_learning_rate(optimizer, 1e-3)
    names = {parameter: name for name, parameter in model.named_parameters()}
    found = {names[p]: group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert found.keys() == set(names.values())
    return found


def test_the_rate_falls_from_the_head_to_the_embeddings():
    found = rates(0.5)
    expected = {"embeddings.": 1e-3 / 8, "layers.0.": 1e-3 / 4, "layers.1.": 1e-3 / 2}
    for name, rate in found.items():
        part = next((part for part in expected if part in name), None)
        assert rate == pytest.approx(expected.get(part, 1e-3)), name
    assert len(set(found.values())) == 4
    assert set(rates(1.0).values()) == {1e-3}


@pytest.mark.parametrize("value", [0.0, 1.5])
def test_a_decay_is_a_share(value):
    with pytest.raises(ValueError, match="layer_decay"):
        OptimizerConfig(layer_decay=value)
    with pytest.raises(ValueError, match="exclude each other"):
        OptimizerConfig(layer_decay=0.5, muon=MuonConfig())


def test_weight_decay_is_that_of_matrices_in_every_layer():
    model = torch.nn.Linear(2, 2)
    groups = build_optimizer(model, OptimizerConfig()).param_groups
    assert [(len(group["params"]), group["weight_decay"]) for group in groups] == [(1, 0.01), (1, 0.0)]
