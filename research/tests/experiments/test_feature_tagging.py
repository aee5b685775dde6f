"""Tagging with a frozen encoder."""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
import torch

import cloze
from cloze.data.reading.tagged_text import sentence_of_words
from cloze.model_paths import follow_link
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model
from cloze.tasks.task_batch import TaskBatch
from family_cases import columns
from runs import finetune


@pytest.fixture(scope="module")
def module() -> ModuleType:
    """The module, which is imported for this file alone, since that registers its task."""
    return import_module("experiments.feature_tagging")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "words.conll"
    path.write_text(columns(marks=True))
    return path


def test_layers_of_table_7(module, build_encoder, tokenizer):
    encoder = build_encoder(5).eval()  # of width 20: with the embeddings, six vectors
    packed = words(module, tokenizer)
    hidden = torch.stack(encoder(packed, output_hidden_states=True).hidden_states)[:, [1, 2]]
    expected = {
        "embeddings": hidden[0],
        "second-to-last": hidden[4],
        "last": hidden[5],
        "weighted-sum-last-four": 1.5 * (0.2 * hidden[2:5].sum(0) + 0.4 * hidden[5]),
        "concat-last-four": torch.cat(list(hidden[2:]), dim=1),
        "weighted-sum-all": 1.5 * (hidden[1:5].sum(0) / 6 + hidden[5] * 2 / 6),
    }
    assert set(expected) == set(get_args(module.FrozenLayers))
    for layers in expected:
        model = module.BertBiLSTMForTokenClassification(encoder, num_labels=3, layers=layers, lstm_size=7)
        if hasattr(model, "layer_weights"):
            model.layer_weights.data[-1] = torch.tensor(2.0).log()
            model.layer_scale.data.fill_(1.5)
        torch.testing.assert_close(
            model.features(module.frozen_states(encoder, packed, layers)), expected[layers]
        )


def test_missing_layers_are_refused(module, build_encoder):
    with pytest.raises(cloze.InputError, match="layers: concat-last-four takes 4 layers, the encoder has 3"):
        module.BertBiLSTMForTokenClassification(
            build_encoder(3), num_labels=3, layers="concat-last-four", lstm_size=7
        )


def words(module: ModuleType, tokenizer: cloze.Tokenizer) -> TaskBatch:
    answer = module.FrozenTags(labels=("O", "B-X"))
    features = answer.features(sentence_of_words(["good", "film"]), tokenizer, max_seq_length=10)
    return to_device(answer.batch(features))


def test_encoder_is_frozen(module, build_encoder, tokenizer):
    model = module.BertBiLSTMForTokenClassification(
        build_encoder(), num_labels=3, layers="weighted-sum-all", lstm_size=7
    )
    learning = {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad}
    assert learning == {"layer_weights", "layer_scale", "lstm", "classifier"}
    model.train()
    assert model.training
    assert not any(module.training for module in model.bert.modules())
    model(words(module, tokenizer)).sum().backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == name.startswith("bert."), name


@pytest.mark.slow
def test_run_learns_and_its_model_tags_text(module, configure, nano_checkpoint, data, tmp_path):
    data.write_text("\n".join([columns(marks=True)] * 12))
    run = tmp_path / "run"
    settings = """max_seq_length=40 epochs=12 batch_size=4 optimizer.learning_rate=1e-2 precision=bfloat16
    feature-tagging.lstm_size=16 feature-tagging.layers=last"""
    scores = finetune(*configure("feature-tagging", data, settings, dev=data), run)
    assert scores["f1"] == 100
    before, after = load_model(nano_checkpoint), load_model(follow_link(run, "best"))
    for name, weight in before.state_dict().items():
        assert torch.equal(weight, after.state_dict()[name]), name
    tagger = cloze.EntityTagger.load(run, device="cpu")
    predicted = tagger(["Fine good.", "Awful  bad"])
    assert [[(e.type, e.text, e.start) for e in of_example] for of_example in predicted] == [
        [("GOOD", "Fine", 0), ("GOOD", "good", 5)],
        [("BAD", "Awful", 0), ("BAD", "bad", 7)],
    ]
