"""Runs with a causal encoder."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cloze import config as configuration
from cloze.data.dataset import Dataset
from cloze.data.instances.instances import DynamicInstances
from cloze.data.instances.masking import MaskingConfig
from cloze.data.instances.pairs import PairsConfig
from cloze.errors import InputError
from cloze.inference.pretrained_heads import FillMask
from cloze.model_paths import resolve_checkpoint
from cloze.models.batch import to_device
from cloze.models.bert import BertModel
from cloze.models.checkpoint import load_model
from cloze.models.heads import BertForPreTraining
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained
from cloze.tokenization.loading import load_tokenizer
from runs import pretrain


def with_model(config: PretrainConfig, **settings: object) -> PretrainConfig:
    config = replace(config, model=replace(config.model, **settings))
    one_way = config.model.attends_to != "all"
    return replace(config, pairs=replace(config.pairs, next_sentence=False)) if one_way else config


@pytest.mark.slow
def test_causal_encoder_is_trained_evaluated_and_refused_for_filling(nano, tmp_path):
    run = tmp_path / "run"
    config = with_model(replace(nano, steps=24), attends_to="left")
    measured = pretrain(config, run)
    assert measured["masked_lm_loss"] < np.log(400)
    model = load_model(resolve_checkpoint(run, "latest"), BertForPreTraining)
    assert model.config.attends_to == "left"
    settings = PretrainingEvaluationConfig(
        max_seq_length=64, max_instances=40, pairs=PairsConfig(next_sentence=False)
    )
    found = evaluate_pretrained(resolve_checkpoint(run), [config.data], settings, device="cpu")
    assert found.masked_lm["masked_lm_loss"] == pytest.approx(measured["masked_lm_loss"], rel=1e-4)
    with pytest.raises(InputError, match="a model without the masked-word head"):
        FillMask.load(run, device="cpu")
    with pytest.raises(InputError, match=r"attends to left, the settings to all.*attends_to=left"):
        pretrain(replace(nano, steps=2, init=str(run)), tmp_path / "on")


def test_bidirectional_encoder_reads_the_next_token_from_its_input(dataset):
    """Why the mask is needed: the gradient of a prediction reaches the very piece that is to be named."""
    documents, tokenizer = Dataset.open(dataset).split("train"), load_tokenizer(dataset)
    source = DynamicInstances(
        documents, tokenizer, 32, None, PairsConfig(next_sentence=False), MaskingConfig(), 0, 0, "next"
    )
    batch = to_device(source.batch(0, np.arange(2)))
    position = int(batch.masked_lm_positions[3])
    reached = {}
    for attends_to in ("all", "left"):
        config = configuration.from_dict(
            PretrainConfig,
            {"data": "D", "steps": 1, "model": {"size": "tiny", "attends_to": attends_to}},
            where="",
        )
        encoder = BertModel(config.model.encoder(vocab_size=tokenizer.vocab_size)).eval()
        embedded: list[torch.Tensor] = []
        encoder.embeddings.register_forward_hook(lambda _, __, out, kept=embedded: kept.append(out))
        for parameter in encoder.parameters():
            parameter.requires_grad_(True)
        output = encoder(batch).sequence_output
        (gradient,) = torch.autograd.grad(output[position].square().sum() + output[position].sum(), embedded)
        reached[attends_to] = bool(gradient[position + 1].abs().sum() > 0)
    assert reached == {"all": True, "left": False}
