"""Fine-tuning on several ranks: the same run as on one, including trials and a small last step."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import cloze
from cloze.models.heads import BertForSequenceClassification
from cloze.training.distributed import DistributedContext
from cloze.training.metrics_log import read_metrics
from cloze.training.optimizer import OptimizerConfig
from family_cases import REVIEWS
from helpers import task_of
from ranks import Ranks
from runs import finetune, prepare, rows


@pytest.fixture
def config(config: cloze.FinetuneConfig) -> cloze.FinetuneConfig:
    """Thirteen examples by sixes: the last step of an epoch has one."""
    rate = OptimizerConfig(learning_rate=1e-3, warmup_fraction=0.1)
    config = replace(config, optimizer=rate, epochs=2, batch_size=6, micro_batch_tokens=16)
    return replace(config, train_examples=13)


def _finetune_all(runs: list[tuple[cloze.FinetuneConfig, Path]]) -> None:
    """Fine-tune with a head whose dropout, which is fixed, draws nothing."""
    BertForSequenceClassification.dropout_prob = 0.0
    for config, run in runs:
        finetune(REVIEWS, config, run)


def _losses(run: Path) -> list[float]:
    return [row["loss"] for row in read_metrics(run) if "loss" in row]


@pytest.mark.protected
@pytest.mark.slow
def test_ranks_fine_tune_as_one_and_score_to_the_bit(config, tmp_path, monkeypatch):
    """Also several seeds; and, at a rate that changes no weight, the same scores as one rank."""
    monkeypatch.setattr(BertForSequenceClassification, "dropout_prob", 0.0)
    unchanged = replace(config, epochs=1, optimizer=replace(config.optimizer, learning_rate=1e-30))
    seeds = replace(config, seeds=2, epochs=1)
    configs = {"run": config, "unchanged": unchanged, "seeds": seeds}
    for name in ("run", "unchanged"):
        finetune(REVIEWS, configs[name], tmp_path / f"{name}-alone")
    runs = [(config, tmp_path / name) for name, config in configs.items()]
    assert Ranks(3, _finetune_all, runs).join() == [0, 0, 0]
    np.testing.assert_allclose(_losses(tmp_path / "run-alone"), _losses(tmp_path / "run"), rtol=1e-6)
    scores = [json.loads((tmp_path / name / "scores.json").read_text()) for name in ("run-alone", "run")]
    assert scores[0]["accuracy"] == scores[1]["accuracy"]
    one, ranks = (rows(tmp_path / name, "validation") for name in ("unchanged-alone", "unchanged"))
    assert [{**row, "seconds": None} for row in one] == [{**row, "seconds": None} for row in ranks]
    summary = json.loads((tmp_path / "seeds" / "trials.json").read_text())
    assert [len(setting["results"]) for setting in summary["settings"]] == [2]
    assert len(list((tmp_path / "seeds" / "trials").iterdir())) == 2


def test_in_batch_negatives_exclude_several_ranks(config):
    context = DistributedContext(torch.device("cpu"), 0, 2)
    with pytest.raises(cloze.InputError, match="2 ranks cannot share a batch whose examples are compared"):
        prepare(task_of("text-pairs"), config, context)
