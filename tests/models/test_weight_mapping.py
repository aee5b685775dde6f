from functools import partial

import pytest
import torch

from cloze.models.bert import GOOGLE, BertModel
from cloze.models.heads import BertForPreTraining, BertForQuestionAnswering, BertForSequenceClassification


@pytest.fixture(
    params=[
        BertForPreTraining,
        partial(BertForSequenceClassification, num_labels=3),
        BertForQuestionAnswering,
    ],
    ids=["pretraining", "classification", "answers"],
)
def weights(request, config, randomize):
    model = request.param(BertModel(config))
    randomize(model)
    return model.state_dict()


@pytest.mark.parametrize("mapping", [BertModel.names.mapping, GOOGLE], ids=lambda mapping: mapping.name)
def test_mapping_round_trips(mapping, weights):
    external = mapping.to_external(weights)
    assert sum(weight.numel() for weight in external.values()) == sum(w.numel() for w in weights.values())
    shapes = {name: weight.shape for name, weight in weights.items()}
    back = mapping.from_external(external, shapes)
    assert back.keys() == weights.keys()
    assert all(torch.equal(back[name], weights[name]) for name in weights)


@pytest.mark.parametrize("mapping", [BertModel.names.mapping, GOOGLE], ids=lambda mapping: mapping.name)
def test_mapping_has_unique_names(mapping):
    ours = list(mapping.entries)
    theirs = [name for names in mapping.entries.values() for name in names]
    assert len(set(ours)) == len(ours)
    assert len(set(theirs)) == len(theirs)


@pytest.mark.protected
def test_mapping_covers_googles_checkpoint(google_nano):
    config, google, *_ = google_nano
    model = BertForPreTraining(BertModel(config))
    external = GOOGLE.to_external(model.state_dict())
    assert {n: tuple(w.shape) for n, w in external.items()} == {n: tuple(w.shape) for n, w in google.items()}
