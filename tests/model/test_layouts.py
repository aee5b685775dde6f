from functools import partial

import pytest
import torch

from cloze.errors import InputError
from cloze.model.bert import BertModel
from cloze.model.heads import BertForPreTraining, BertForQuestionAnswering, BertForSequenceClassification
from cloze.model.layouts import GOOGLE, HUGGING_FACE, modern_hugging_face_names


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


@pytest.mark.parametrize("layout", [HUGGING_FACE, GOOGLE], ids=lambda layout: layout.name)
def test_there_and_back(layout, weights):
    foreign = layout.to_foreign(weights)
    assert sum(weight.numel() for weight in foreign.values()) == sum(w.numel() for w in weights.values())
    shapes = {name: weight.shape for name, weight in weights.items()}
    back = layout.from_foreign(foreign, shapes)
    assert back.keys() == weights.keys()
    assert all(torch.equal(back[name], weights[name]) for name in weights)


@pytest.mark.parametrize("layout", [HUGGING_FACE, GOOGLE], ids=lambda layout: layout.name)
def test_no_name_stands_twice(layout):
    ours = [name for name, _ in layout.lines]
    theirs = [name for _, names in layout.lines for name in names]
    assert len(set(ours)) == len(ours)
    assert len(set(theirs)) == len(theirs)


def test_googles_names_are_all_known(google_nano):
    config, google, *_ = google_nano
    model = BertForPreTraining(BertModel(config))
    foreign = GOOGLE.to_foreign(model.state_dict())
    assert {n: tuple(w.shape) for n, w in foreign.items()} == {n: tuple(w.shape) for n, w in google.items()}


def test_missing_and_misshapen_weights_are_named(weights):
    shapes = {name: weight.shape for name, weight in weights.items()}
    foreign = HUGGING_FACE.to_foreign(weights)
    key = "bert.encoder.layer.1.attention.self.key.weight"
    with pytest.raises(InputError) as caught:
        HUGGING_FACE.from_foreign(foreign | {key: torch.zeros(44, 43)}, shapes)
    assert str(caught.value) == f"{key} has shape [44, 43], the config says [44, 44]"
    del foreign[key]
    with pytest.raises(InputError, match=r"no weight bert\.encoder\.layer\.1\.attention\.self\.key\.weight"):
        HUGGING_FACE.from_foreign(foreign, shapes)


def test_old_spellings_are_read():
    one = torch.zeros(1)
    old = {
        "embeddings.LayerNorm.gamma": one,
        "embeddings.position_ids": one,
        "encoder.layer.0.output.LayerNorm.beta": one,
        "cls.predictions.decoder.weight": one,
        "cls.predictions.bias": one,
    }
    assert set(modern_hugging_face_names(old)) == {
        "bert.embeddings.LayerNorm.weight",
        "bert.encoder.layer.0.output.LayerNorm.bias",
        "cls.predictions.bias",
    }
