"""Several runs: over seeds and over a grid, summed up, resumed, and the best of them used."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import pytest

from cloze.errors import InputError
from cloze.inference.predictor import Predictor
from cloze.locate import resolve_checkpoint
from cloze.tasks.classification import Classification
from cloze.tasks.config import PAPER_GRID, FinetuneConfig, GridConfig, load_finetuning
from cloze.tasks.finetune import finetune, resume_finetuning
from cloze.tasks.trials import trials_of
from cloze.tasks.work import FinetuningWork
from cloze.training.interrupts import Interrupted
from cloze.training.optimizer import OptimizerConfig

TASK = Classification(text_column="review", label_column="liked")


@pytest.fixture
def config(nano_checkpoint: Path, reviews: Path) -> FinetuneConfig:
    return FinetuneConfig(
        model=str(nano_checkpoint),
        train=str(reviews),
        dev_fraction=0.2,
        epochs=2,
        batch_size=9,
        max_seq_length=16,
        optimizer=OptimizerConfig(learning_rate=5e-3, warmup_fraction=0.1),
        precision="float32",
        device="cpu",
        micro_batch_tokens=40,
    )


def _trials(run: Path) -> dict:
    return json.loads((run / "trials.json").read_text())


def _checkpoints(run: Path) -> dict[str, int]:
    return {path.name: len(list(path.glob("checkpoints/*"))) for path in (run / "trials").iterdir()}


def test_seeds_are_summed_up(config: FinetuneConfig, tmp_path: Path) -> None:
    scores = finetune(TASK, replace(config, seeds=3), tmp_path / "run")
    summary = _trials(tmp_path / "run")
    (setting,) = summary["settings"]
    results = setting["results"]
    assert [result["trial"] for result in results] == ["seed-12345", "seed-12346", "seed-12347"]
    assert len({json.dumps(result) for result in results}) == 3
    accuracies = [result["accuracy"] for result in results]
    assert setting["mean"]["accuracy"] == pytest.approx(fmean(accuracies))
    assert setting["deviation"]["accuracy"] == pytest.approx(stdev(accuracies))
    assert scores["accuracy"] == max(accuracies) == summary["best"]["accuracy"]
    assert summary["examples"] == 14
    assert _checkpoints(tmp_path / "run") == {"seed-12345": 1, "seed-12346": 1, "seed-12347": 1}
    best = f"trials/{summary['best']['trial']}/checkpoints"
    for pointer in ("latest", "best"):
        assert resolve_checkpoint(tmp_path / "run", pointer).parent == tmp_path / "run" / best
    evaluation = Predictor.load(tmp_path / "run", device="cpu")
    assert evaluation.task.labels == ("no", "yes")
    assert summary["metric"] == "accuracy"
    alone = finetune(TASK, replace(config, seed=12346), tmp_path / "alone")
    assert alone["accuracy"] == accuracies[1]


def test_a_grid_tries_each_with_each_and_keeps_one_model(config: FinetuneConfig, tmp_path: Path) -> None:
    grid = GridConfig(learning_rates=(5e-3, 1e-9), epochs=(1, 2))
    finetune(TASK, replace(config, grid=grid, seeds=2), tmp_path / "run")
    summary = _trials(tmp_path / "run")
    settings = {setting["setting"]: setting for setting in summary["settings"]}
    assert set(settings) == {
        "rate-0.005_epochs-1",
        "rate-0.005_epochs-2",
        "rate-1e-09_epochs-1",
        "rate-1e-09_epochs-2",
    }
    means = [setting["mean"]["accuracy"] for setting in summary["settings"]]
    assert means == sorted(means, reverse=True)
    kept = _checkpoints(tmp_path / "run")
    assert {name for name, count in kept.items() if count} == {summary["best"]["trial"]}
    assert len(kept) == 8
    untrained = settings["rate-1e-09_epochs-1"]["results"][0]
    assert untrained["collapse"] in ("one class only", "no better than the majority")
    assert "collapse" not in summary["best"]


def test_rates_that_are_near_have_each_its_runs(config: FinetuneConfig) -> None:
    rates = (1e-5, 1.0000001e-5, 1.0000002e-5)
    assert len(trials_of(replace(config, grid=GridConfig(learning_rates=rates)))) == 3


def test_the_papers_grid() -> None:
    _, config = load_finetuning("classification", None, ["model=m", "train=t"])
    trials = trials_of(replace(config, grid=PAPER_GRID, seeds=5))
    assert len(trials) == 18
    assert all([trial.seed for trial in own] == list(range(12345, 12350)) for own in trials.values())
    first = trials["batch-16_rate-5e-05_epochs-2"][0]
    assert (first.batch_size, first.optimizer.learning_rate, first.epochs) == (16, 5e-5, 2)
    assert not first.has_trials
    assert trials_of(config) == {"": [config]}


def test_trials_that_were_stopped_go_on(
    config: FinetuneConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(config, seeds=3)
    finetune(TASK, config, tmp_path / "whole")
    loss = FinetuningWork.loss
    calls = 0

    def stopping(*args: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 60:
            os.kill(os.getpid(), signal.SIGTERM)
        return loss(*args)

    monkeypatch.setattr(FinetuningWork, "loss", stopping)
    with pytest.raises(Interrupted):
        finetune(TASK, config, tmp_path / "cut")
    assert not (tmp_path / "cut" / "trials.json").exists()
    begun = len(list((tmp_path / "cut" / "trials").iterdir()))
    assert 1 <= begun < 3
    resume_finetuning(tmp_path / "cut")
    assert _trials(tmp_path / "cut") == _trials(tmp_path / "whole")
    calls = 1000
    resume_finetuning(tmp_path / "cut")
    assert calls == 1000, "what is finished is not made again"


def test_grids_that_make_no_sense() -> None:
    for grid in ("epochs=[0]", "learning_rates=[1e-5, 1e-5]", "batch_sizes=[-4]"):
        with pytest.raises(InputError, match="not positive and each another"):
            load_finetuning("classification", None, ["model=m", "train=t", f"grid.{grid}"])
