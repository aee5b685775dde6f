"""Feature-based tagging: the encoder does not learn, and what it says is computed once."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from families import columns

from cloze.errors import InputError, RunError
from cloze.inference.tag import EntityTagger
from cloze.locate import follow
from cloze.model.bert import BertModel
from cloze.model.bilstm import BertBiLSTMForTokenClassification, FrozenLayers, PackedWords, frozen_states
from cloze.model.checkpoint import load_model
from cloze.progress import SILENT
from cloze.tasks.config import load_finetuning
from cloze.tasks.feature_tagging import FeatureTagging, FrozenFeature
from cloze.tasks.feature_tags import FeatureTags
from cloze.tasks.features import featurize
from cloze.tasks.finetune import finetune
from cloze.tasks.predict import predict
from cloze.text.tokenizer import Tokenizer

LAYERS: tuple[FrozenLayers, ...] = get_args(FrozenLayers)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "words.conll"
    path.write_text(columns(marks=True))
    return path


def test_what_cannot_be_kept_is_told(
    data: Path, build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> None:
    resource = pytest.importorskip("resource")
    task, examples = fitted(data, "last")
    features = featurize(task, examples, tokenizer, max_seq_length=9)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(RunError, match="cannot write"):
            task.prepared(features, build_encoder, max_tokens=20, progress=SILENT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def fitted(data: Path, layers: FrozenLayers) -> tuple[FeatureTagging, list]:
    task = FeatureTags(layers=layers, lstm_size=7)
    examples = list(task.examples(data))
    return task.fitted(examples), examples


@pytest.mark.parametrize("layers", LAYERS)
def test_what_is_kept_is_what_the_encoder_says(
    layers: FrozenLayers, data: Path, build_encoder: Callable[..., BertModel], tokenizer: Tokenizer
) -> None:
    task, examples = fitted(data, layers)
    features = featurize(task, examples, tokenizer, max_seq_length=9)
    assert any(len(own) > 1 for own in features)
    encoder = build_encoder(4).eval()
    kept = task.prepared(features, lambda: encoder, max_tokens=20, progress=SILENT)
    assert [[f.positions.tolist() for f in own] for own in kept] == [
        [f.positions.tolist() for f in own] for own in features
    ]
    model = task.head(encoder, generator=torch.Generator().manual_seed(1)).eval()
    batch, kept_batch = (task.batch([f for own in each for f in own]) for each in (features, kept))
    torch.testing.assert_close(model(batch.packed), model(kept_batch.packed), atol=1e-6, rtol=1e-5)
    assert len(model(batch.packed)) == batch.num_targets
    predictions = predict(task, model, examples, features, max_tokens=64)
    assert predict(task, model, examples, kept, max_tokens=64)[0].tags == predictions[0].tags


def test_the_rows_of_table_7(
    data: Path, build_encoder: Callable[..., BertModel], tokenizer: Tokenizer
) -> None:
    encoder = build_encoder(5).eval()  # of width 20: with the embeddings, six vectors
    packed = words(tokenizer)
    hidden = torch.stack(encoder.forward_packed(packed, keep_hidden_states=True).hidden_states)[:, [1, 2]]
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


def test_layers_that_an_encoder_has_not_are_not_made_up(build_encoder: Callable[..., BertModel]) -> None:
    with pytest.raises(InputError, match="layers: concat-last-four takes 4 layers, the encoder has 3"):
        BertBiLSTMForTokenClassification(
            build_encoder(3), num_labels=3, layers="concat-last-four", lstm_size=7
        )


def words(tokenizer: Tokenizer) -> PackedWords:
    task = FeatureTags(labels=("O", "B-X"), context="sentence")
    example = task.example("good film")
    packed = task.batch(task.features(example, tokenizer, max_seq_length=10)).packed
    assert isinstance(packed, PackedWords)
    return packed


def test_the_encoder_stays_as_it_is(build_encoder: Callable[[], BertModel], tokenizer: Tokenizer) -> None:
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


def test_a_run_learns_and_its_model_tags_text(nano_checkpoint: Path, data: Path, tmp_path: Path) -> None:
    data.write_text("\n".join([columns(marks=True)] * 12))
    run = tmp_path / "run"
    settings = [
        f"model={nano_checkpoint}",
        f"train={data}",
        f"dev={data}",
        "max_seq_length=40",
        "epochs=12",
        "batch_size=4",
        "optimizer.learning_rate=1e-2",
        "feature-tagging.lstm_size=16",
        "feature-tagging.layers=last",
        "device=cpu",
        "precision=bfloat16",
    ]
    task, config = load_finetuning("feature-tagging", None, settings)
    scores = finetune(task, config, run)
    assert scores["f1"] == 100
    before, after = load_model(nano_checkpoint), load_model(follow(run, "best"))
    for name, weight in before.state_dict().items():
        assert torch.equal(weight, after.state_dict()[name]), name
    tagger = EntityTagger.load(run, device="cpu")
    found = tagger(["Fine good.", "Awful  bad"])
    assert [[(e.type, e.text, e.start) for e in own] for own in found] == [
        [("GOOD", "Fine", 0), ("GOOD", "good", 5)],
        [("BAD", "Awful", 0), ("BAD", "bad", 7)],
    ]


def test_kept_vectors_are_not_copied(
    data: Path, build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> None:
    task, examples = fitted(data, "last")
    features = featurize(task, examples, tokenizer, max_seq_length=40)
    kept = task.prepared(features, build_encoder, max_tokens=100, progress=SILENT)
    for feature in (f for own in kept for f in own):
        assert isinstance(feature, FrozenFeature)
        assert isinstance(feature.states, np.memmap)
