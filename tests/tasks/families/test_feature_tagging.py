"""Tagging with a frozen encoder, whose outputs are computed once."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from cloze.choices import FrozenLayers
from cloze.errors import InputError, RunError
from cloze.finetuning.frozen_states import precompute_states
from cloze.inference.text_predictors import EntityTagger
from cloze.model_paths import follow_link
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model
from cloze.models.frozen_encoder import BertBiLSTMForTokenClassification, frozen_states
from cloze.models.torch_engine import TorchEngine
from cloze.tasks.families.feature_tagging import FeatureTagging
from cloze.tasks.features import featurize
from cloze.tasks.predict import predict
from cloze.tasks.task_batch import TaskBatch
from cloze.tokenization.tokenizer import Tokenizer
from family_cases import columns
from runs import finetune

LAYERS: tuple[FrozenLayers, ...] = get_args(FrozenLayers)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "words.conll"
    path.write_text(columns(marks=True))
    return path


def test_full_disk_is_named(data, build_encoder, tokenizer):
    resource = pytest.importorskip("resource")
    task, examples = fit_labels(data, "last")
    features = featurize(task, examples, tokenizer, max_seq_length=9)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(RunError, match="cannot write"):
            precompute_states(task, build_encoder(), features, max_tokens=20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def fit_labels(data: Path, layers: FrozenLayers) -> tuple[FeatureTagging, list]:
    task = FeatureTagging(layers=layers, lstm_size=7)
    examples = list(task.examples(data))
    return task.fit_labels(examples), examples


@pytest.mark.parametrize("layers", LAYERS)
def test_precomputed_states_equal_those_of_the_encoder(layers, data, build_encoder, tokenizer):
    task, examples = fit_labels(data, layers)
    features = featurize(task, examples, tokenizer, max_seq_length=9)
    assert any(len(of_example) > 1 for of_example in features)
    encoder = build_encoder(4).eval()
    kept = precompute_states(task, encoder, features, max_tokens=20)
    assert all(isinstance(feature.states, np.memmap) for of_example in kept for feature in of_example)
    assert [[f.positions.tolist() for f in of_example] for of_example in kept] == [
        [f.positions.tolist() for f in of_example] for of_example in features
    ]
    model = task.head(encoder, generator=torch.Generator().manual_seed(1)).eval()
    batch, kept_batch = (
        to_device(task.batch([f for of_example in split for f in of_example])) for split in (features, kept)
    )
    torch.testing.assert_close(model(batch), model(kept_batch), atol=1e-6, rtol=1e-5)
    assert len(model(batch)) == batch.num_targets
    predictions = predict(task, TorchEngine(model), examples, features, max_tokens=64)
    assert predict(task, TorchEngine(model), examples, kept, max_tokens=64)[0].tags == predictions[0].tags


def test_layers_of_table_7(data, build_encoder, tokenizer):
    encoder = build_encoder(5).eval()  # of width 20: with the embeddings, six vectors
    packed = words(tokenizer)
    hidden = torch.stack(encoder(packed, output_hidden_states=True).hidden_states)[:, [1, 2]]
    expected = {
        "embeddings": hidden[0],
        "second-to-last": hidden[4],
        "last": hidden[5],
        "weighted-sum-last-four": 1.5 * (0.2 * hidden[2:5].sum(0) + 0.4 * hidden[5]),
        "concat-last-four": torch.cat(list(hidden[2:]), dim=1),
        "weighted-sum-all": 1.5 * (hidden[1:5].sum(0) / 6 + hidden[5] * 2 / 6),
    }
    assert set(expected) == set(LAYERS)
    for layers in LAYERS:
        model = BertBiLSTMForTokenClassification(encoder, num_labels=3, layers=layers, lstm_size=7)
        if hasattr(model, "layer_weights"):
            model.layer_weights.data[-1] = torch.tensor(2.0).log()
            model.layer_scale.data.fill_(1.5)
        torch.testing.assert_close(model.features(frozen_states(encoder, packed, layers)), expected[layers])


def test_missing_layers_are_refused(build_encoder):
    with pytest.raises(InputError, match="layers: concat-last-four takes 4 layers, the encoder has 3"):
        BertBiLSTMForTokenClassification(
            build_encoder(3), num_labels=3, layers="concat-last-four", lstm_size=7
        )


def words(tokenizer: Tokenizer) -> TaskBatch:
    task = FeatureTagging(labels=("O", "B-X"), context="sentence")
    example = task.split("good film")
    return to_device(task.batch(task.features(example, tokenizer, max_seq_length=10)))


def test_encoder_is_frozen(build_encoder, tokenizer):
    model = BertBiLSTMForTokenClassification(
        build_encoder(), num_labels=3, layers="weighted-sum-all", lstm_size=7
    )
    learning = {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad}
    assert learning == {"layer_weights", "layer_scale", "lstm", "classifier"}
    model.train()
    assert model.training
    assert not any(module.training for module in model.bert.modules())
    model(words(tokenizer)).sum().backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == name.startswith("bert."), name


@pytest.mark.slow
def test_run_learns_and_its_model_tags_text(configure, nano_checkpoint, data, tmp_path):
    data.write_text("\n".join([columns(marks=True)] * 12))
    run = tmp_path / "run"
    settings = """max_seq_length=40 epochs=12 batch_size=4 optimizer.learning_rate=1e-2 precision=bfloat16
    feature-tagging.lstm_size=16 feature-tagging.layers=last"""
    scores = finetune(*configure("feature-tagging", data, settings, dev=data), run)
    assert scores["f1"] == 100
    before, after = load_model(nano_checkpoint), load_model(follow_link(run, "best"))
    for name, weight in before.state_dict().items():
        assert torch.equal(weight, after.state_dict()[name]), name
    tagger = EntityTagger.load(run, device="cpu")
    predicted = tagger(["Fine good.", "Awful  bad"])
    assert [[(e.type, e.text, e.start) for e in of_example] for of_example in predicted] == [
        [("GOOD", "Fine", 0), ("GOOD", "good", 5)],
        [("BAD", "Awful", 0), ("BAD", "bad", 7)],
    ]
