"""Fine-tuning on several ranks: the same run as on one, including trials and a small last step."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cloze.errors import InputError
from cloze.finetuning.config import FinetuneConfig
from cloze.models.heads import BertForSequenceClassification
from cloze.tasks.task import AnyTask
from cloze.training.distributed import DistributedContext
from cloze.training.metrics_log import read_metrics
from cloze.training.optimizer import OptimizerConfig
from family_cases import REVIEWS
from helpers import task_of
from ranks import Ranks
from runs import finetune, prepare, rows


@pytest.fixture
def config(config: FinetuneConfig) -> FinetuneConfig:
    """Thirteen examples by fours: the last step of an epoch has one."""
    rate = OptimizerConfig(learning_rate=1e-3, warmup_fraction=0.1)
    config = replace(config, optimizer=rate, epochs=3, batch_size=4, micro_batch_tokens=16)
    return replace(config, train_examples=13)


def _without_dropout(task: AnyTask, config: FinetuneConfig, run: Path) -> dict[str, float]:
    """Fine-tune with a head whose dropout, which is fixed, draws nothing."""
    BertForSequenceClassification.dropout_prob = 0.0
    return finetune(task, config, run)


def _losses(run: Path) -> list[float]:
    return [row["loss"] for row in read_metrics(run) if "loss" in row]


@pytest.mark.protected
@pytest.mark.slow
def test_two_ranks_fine_tune_as_one(config, tmp_path, monkeypatch):
    monkeypatch.setattr(BertForSequenceClassification, "dropout_prob", 0.0)
    scores = finetune(REVIEWS, config, tmp_path / "alone")
    ranks = Ranks(2, _without_dropout, REVIEWS, config, tmp_path / "run")
    assert ranks.join() == [0, 0]
    np.testing.assert_allclose(_losses(tmp_path / "alone"), _losses(tmp_path / "run"), rtol=1e-6)
    written = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert written["accuracy"] == scores["accuracy"]


@pytest.mark.slow
def test_scores_are_bit_identical_on_any_number_of_ranks(config, tmp_path):
    """At a rate that changes no weight."""
    optimizer = replace(config.optimizer, learning_rate=1e-30)
    config = replace(config, epochs=1, batch_size=3, optimizer=optimizer)
    finetune(REVIEWS, config, tmp_path / "one")
    assert Ranks(3, finetune, REVIEWS, config, tmp_path / "ranks").join() == [0, 0, 0]
    one, ranks = (rows(tmp_path / run, "validation") for run in ("one", "ranks"))
    assert [{**row, "seconds": None} for row in one] == [{**row, "seconds": None} for row in ranks]


@pytest.mark.slow
def test_ranks_share_each_trial(config, tmp_path):
    config = replace(config, seeds=2, epochs=1)
    assert Ranks(2, finetune, REVIEWS, config, tmp_path / "run").join() == [0, 0]
    summary = json.loads((tmp_path / "run" / "trials.json").read_text())
    assert [len(setting["results"]) for setting in summary["settings"]] == [2]
    assert len(list((tmp_path / "run" / "trials").iterdir())) == 2


def test_in_batch_negatives_exclude_several_ranks(config):
    context = DistributedContext(torch.device("cpu"), 0, 2)
    with pytest.raises(InputError, match="2 ranks cannot share a batch whose examples are compared"):
        prepare(task_of("text-pairs"), config, context)
