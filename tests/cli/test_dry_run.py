"""`--dry-run`: memory and time of a run, and nothing on disk."""

import shlex
from typing import Any

import pytest
from samples import NANO, NANO_TASK

PRETRAIN = "pretrain --data {data} -o {out} --dry-run --quiet " + shlex.join(NANO)
FINETUNE = "finetune classification -m {run} -d {table} -o {out} --dry-run --quiet " + shlex.join(NANO_TASK)


def test_a_plan_of_pretraining(tmp_path, cloze):
    phases = (
        "--set=phases=[{max_seq_length=16, fraction=0.75, batch_size=8},"
        "{max_seq_length=32, fraction=0.25, batch_size=20}]"
    )
    plan: dict[str, Any] = cloze(PRETRAIN, phases, "--steps", "40", "--json").json
    assert not (tmp_path / "out").exists()
    assert plan["peak_memory"] > 50e6
    assert 128 < plan["micro_batch_tokens"] <= 256
    assert [phase["steps"] for phase in plan["phases"]] == [30, 10]
    assert all(phase["step_seconds"] > 0 for phase in plan["phases"])
    seconds = sum(phase["seconds"] for phase in plan["phases"])
    assert plan["seconds"] == pytest.approx(seconds + plan["evaluation_seconds"])

    budget = ("--budget", "10m", "--set", "evaluation.times=500", "--json")
    plan = cloze(PRETRAIN, phases, *budget).json
    assert plan["evaluation_seconds"] > 0.1
    for phase, fraction in zip(plan["phases"], (0.75, 0.25), strict=True):
        assert phase["seconds"] == pytest.approx(600 * fraction, rel=0.05)
    assert plan["seconds"] == pytest.approx(600 + plan["evaluation_seconds"], rel=0.01)


def test_a_plan_of_finetuning(tmp_path, cloze):
    plan = cloze(FINETUNE, "--batch-size", "8", "--epochs", "2", "--seeds", "3", "--json").json
    assert not (tmp_path / "out").exists()
    assert plan["runs"] == 3
    (phase,) = plan["phases"]
    assert phase["steps"] == 2 * 5  # 36 examples, 8 per step
    assert plan["seconds"] == pytest.approx(3 * (phase["seconds"] + plan["evaluation_seconds"]))


@pytest.mark.parametrize("batch_size", [("--batch-size", "8"), ("--set", "batch_size=8")])
def test_a_plan_of_a_grid(cloze, batch_size):
    plan = cloze(FINETUNE, "--grid", *batch_size, "--json").json
    assert plan["runs"] == 3 * 3  # learning rates and epochs; the batch size is given
    assert plan["phases"][0]["steps"] == 3 * 5  # the mean of 2, 3 and 4 epochs


def test_a_plan_is_printed_as_text(cloze):
    text = cloze(PRETRAIN, "--steps", "4").out
    for words in ("dry run: nothing was written", "peak", "free before", "4 steps of"):
        assert words in text
