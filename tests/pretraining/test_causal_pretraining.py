"""Runs with a causal encoder."""

from dataclasses import replace

import numpy as np
import pytest

from cloze.data.instances.pairs import PairsConfig
from cloze.errors import InputError
from cloze.inference.pretrained_heads import FillMask
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import load_model
from cloze.models.heads import BertForPreTraining
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained
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
