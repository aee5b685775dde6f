"""The encoder of CONTRIBUTING.md, pre-trained, fine-tuned and queried like BERT."""

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from cloze import artifacts
from cloze.inference.embedder import Embedder
from cloze.model_paths import resolve_checkpoint
from cloze.models.bert import BertConfig
from cloze.models.checkpoint import KIND, load_model, save_model
from cloze.models.encoder import ENCODERS, Encoder, build_encoder, encoders, get_config_class
from cloze.models.heads import BertForPreTraining
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.run import pretrain
from cloze.tasks.config import FinetuneConfig
from cloze.tasks.custom import Classification
from cloze.tasks.finetune import finetune
from cloze.tokenization.loading import load_tokenizer
from cloze.training.muon import MuonConfig


@pytest.fixture
def new_encoder(nano: PretrainConfig) -> Iterator[Encoder]:
    encoders()
    section = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text().split("## Adding an encoder")[1]
    exec(re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0], {"__name__": "mean_mixer"})
    bert = nano.model.encoder(vocab_size=load_tokenizer(nano.data).vocab_size)
    config_class = get_config_class("mean-mixer")
    assert config_class is not None
    config = config_class(**{field.name: getattr(bert, field.name) for field in fields(BertConfig)})
    yield build_encoder(config, generator=torch.Generator().manual_seed(0))
    del ENCODERS["mean-mixer"]


@pytest.mark.parametrize("muon", [None, MuonConfig()])
def test_new_encoder_is_pretrained_finetuned_and_queried(new_encoder, nano, muon, tmp_path):
    with artifacts.write_directory(tmp_path / "start", kind=KIND) as directory:
        save_model(directory, BertForPreTraining(new_encoder), load_tokenizer(nano.data))
    optimizer = replace(nano.optimizer, muon=muon)
    pretrain(replace(nano, steps=2, init=str(tmp_path / "start"), optimizer=optimizer), tmp_path / "run")
    trained = load_model(resolve_checkpoint(tmp_path / "run", "latest"))
    assert type(trained) is type(new_encoder)
    assert not torch.equal(trained.layers[0].weight, new_encoder.layers[0].weight)

    rows = [(f"{word} day", label) for word in ("good", "fine", "bad", "poor") for label in ("yes", "no")]
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    config = FinetuneConfig(
        model=str(tmp_path / "run"),
        train=str(tmp_path / "a.tsv"),
        dev=str(tmp_path / "a.tsv"),
        epochs=1,
        max_seq_length=16,
        device="cpu",
    )
    finetune(Classification(), config, tmp_path / "tuned")
    assert Embedder.load(tmp_path / "tuned")(["a good day"]).shape == (1, trained.config.hidden_size)
