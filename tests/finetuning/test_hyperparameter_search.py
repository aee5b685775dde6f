"""Several runs over seeds or a grid: summary, resume, and the best model."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import pytest

from cloze.errors import InputError
from cloze.finetuning.config import PAPER_GRID, GridConfig
from cloze.finetuning.finetune import expand_grid
from cloze.inference.predictor import Predictor
from cloze.model_paths import resolve_checkpoint
from cloze.reports.run_report import write_report
from cloze.training.interrupts import Interrupted
from cloze.training.run_directory import run_lock
from family_cases import REVIEWS
from helpers import finetuning_of
from runs import CPU, finetune, interrupt_finetuning, resume_finetuning, rows


def _trials(run: Path) -> dict:
    return json.loads((run / "trials.json").read_text())


def _checkpoints(run: Path) -> dict[str, int]:
    return {path.name: len(list(path.glob("checkpoints/*"))) for path in (run / "trials").iterdir()}


@pytest.mark.slow
def test_seeds_are_summarized(config, tmp_path):
    config = replace(config, epochs=1)
    scores = finetune(REVIEWS, replace(config, seeds=3), tmp_path / "run")
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
    for link in ("latest", "best"):
        assert resolve_checkpoint(tmp_path / "run", link).parent == tmp_path / "run" / best
    assert (tmp_path / "run/model.safetensors").resolve().is_relative_to((tmp_path / "run" / best).resolve())
    evaluation = Predictor.load(tmp_path / "run", device="cpu")
    assert evaluation.task.answer.labels == ("no", "yes")
    assert summary["metric"] == "accuracy"
    alone = finetune(REVIEWS, replace(config, seed=12346), tmp_path / "alone")
    assert alone["accuracy"] == accuracies[1]


@pytest.mark.slow
def test_grid_tries_all_combinations_and_keeps_one_model(config, tmp_path):
    grid = GridConfig(learning_rates=(5e-3, 1e-9), epochs=(1, 2))
    finetune(REVIEWS, replace(config, grid=grid, seeds=2, seed=1), tmp_path / "run")
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


def test_paper_grid_has_eighteen_runs():
    _, config = finetuning_of("classification", ["model=m", "train=t"])
    trials = expand_grid(replace(config, grid=PAPER_GRID, seeds=5))
    assert [trial.seed for _, trial in trials] == list(range(12345, 12350)) * 18
    first = dict(reversed(trials))["batch-16_rate-5e-05_epochs-2"]
    assert (first.batch_size, first.optimizer.learning_rate, first.epochs) == (16, 5e-5, 2)
    assert not first.has_trials
    assert expand_grid(config) == [("", config)]
    parts = expand_grid(replace(config, grid=GridConfig(data_fractions=(0.5, 1.0))))
    assert [(name, trial.data_fraction) for name, trial in parts] == [
        ("fraction-0.5", 0.5),
        ("fraction-1.0", 1.0),
    ]
    similar = GridConfig(learning_rates=(1e-5, 1.0000001e-5, 1.0000002e-5))
    assert len({name for name, _ in expand_grid(replace(config, grid=similar))}) == 3


@pytest.mark.protected
@pytest.mark.slow
def test_interrupted_trials_resume(config, tmp_path, monkeypatch):
    config = replace(config, seeds=3, epochs=1, micro_batch_tokens=40)
    finetune(REVIEWS, config, tmp_path / "whole")
    micro_batches = interrupt_finetuning(monkeypatch, 30)  # of the second
    with pytest.raises(Interrupted):
        finetune(REVIEWS, config, tmp_path / "cut")
    assert not (tmp_path / "cut" / "trials.json").exists()
    begun = len(list((tmp_path / "cut" / "trials").iterdir()))
    assert begun == 2
    resume_finetuning(tmp_path / "cut")
    assert _trials(tmp_path / "cut") == _trials(tmp_path / "whole")
    micro_batches.clear()
    resume_finetuning(tmp_path / "cut")
    assert not micro_batches, "what is finished is not made again"


def test_trials_are_resumed_alone_and_with_their_settings(config, tmp_path):
    run = tmp_path / "run"
    finetune(REVIEWS, replace(config, seeds=2, epochs=1), run)
    with run_lock(run, CPU), pytest.raises(InputError, match="another process is using this run"):
        resume_finetuning(run)
    (run / "run.toml").write_text((run / "run.toml").read_text().replace("epochs = 1\n", "epochs = 2\n"))
    with pytest.raises(InputError, match=r"run\.toml: differs from .*: epochs is 2, not 1"):
        resume_finetuning(run)


def test_a_trial_with_an_undefined_score_is_the_last_and_has_nulls_in_its_files(configure, tmp_path):
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    train.write_text("text\tlabel\n" + "".join(f"{'very ' * (n // 5)}film\t{n % 5}\n" for n in range(40)))
    dev.write_text("text\tlabel\ngood film\t1\nbad film\t2\nawful\t4\n")
    settings = "epochs=1 grid.learning_rates=[0.3,1e-3] batch_size=12 max_seq_length=16"
    run = tmp_path / "run"
    finetune(*configure("regression", train, settings, dev=dev), run)
    summary = _trials(run)
    assert [(s["setting"], s["mean"]["spearman"] is None) for s in summary["settings"]] == [
        ("rate-0.001", False),
        ("rate-0.3", True),
    ]
    assert summary["best"]["trial"] == summary["settings"][0]["results"][0]["trial"]
    assert {name for name, count in _checkpoints(run).items() if count} == {summary["best"]["trial"]}
    files = [path for path in run.rglob("*") if path.suffix in (".json", ".jsonl", ".md")]
    assert not [path for path in files if re.search(r"\b(NaN|nan|Infinity)\b", path.read_text())]
    trial = run / "trials" / summary["settings"][1]["results"][0]["trial"]
    assert json.loads((trial / "scores.json").read_text())["spearman"] is None
    assert all(math.isnan(row["spearman"]) for row in rows(trial, "validation"))
    assert "undefined" in write_report(trial, output=tmp_path / "report.html").read_text()
