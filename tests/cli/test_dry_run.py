"""`--dry-run`: what a run would take in memory and time, and nothing on disk."""

import json
from pathlib import Path

import pytest
from shop import NANO, NANO_TASK, Shop

from cloze.cli import main


def _plan(capsys: pytest.CaptureFixture[str], *command: object) -> dict:
    assert main([*map(str, command), "--dry-run", "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def test_of_pretraining(shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    phases = (
        "--set=phases=[{max_seq_length=16, fraction=0.75, batch_size=8},"
        "{max_seq_length=32, fraction=0.25, batch_size=20}]"
    )
    command = ("pretrain", "--data", shop.data, "-o", run, *NANO, phases)
    plan = _plan(capsys, *command, "--steps", "40")
    assert not run.exists()
    memory = plan["memory"]
    assert memory["parameters"] == memory["gradients"]
    assert memory["optimizer"] == pytest.approx(2 * memory["parameters"], rel=0.01)
    parts = ("parameters", "gradients", "optimizer", "activations")
    assert memory["total"] == sum(memory[part] for part in parts)
    assert memory["fits"]
    assert 128 < memory["micro_batch_tokens"] <= 256
    assert [stretch["steps"] for stretch in plan["stretches"]] == [30, 10]
    assert memory["largest_micro_batch_tokens"] == plan["stretches"][1]["tokens"]
    assert all(stretch["step_seconds"] > 0 for stretch in plan["stretches"])
    trained = sum(stretch["seconds"] for stretch in plan["stretches"])
    assert plan["seconds"] == pytest.approx(trained + plan["evaluation_seconds"])

    by_the_clock = _plan(capsys, *command, "--budget", "10m", "--set", "evaluation.times=5000")
    assert by_the_clock["evaluation_seconds"] > 1
    for stretch, fraction in zip(by_the_clock["stretches"], (0.75, 0.25), strict=True):
        left = 600 - by_the_clock["evaluation_seconds"]
        assert stretch["seconds"] == pytest.approx(left * fraction, rel=0.05)
    assert by_the_clock["seconds"] == pytest.approx(600, rel=0.01)


def test_of_a_run_that_does_not_fit(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloze.pretraining.plan.available_memory", lambda device: 100_000)
    command = ["pretrain", "--data", shop.data, "-o", tmp_path / "run", "--steps", "4", *NANO, "--dry-run"]
    assert main([*map(str, command), "--quiet"]) == 0
    text = capsys.readouterr().out
    assert "IT DOES NOT FIT" in text
    assert "no step was timed" in text


def test_of_finetuning(shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    settings = (*NANO_TASK, "--batch-size", "8", "--epochs", "2", "--seeds", "3")
    plan = _plan(capsys, "finetune", "classification", "-m", shop.run, "-d", shop.table, "-o", run, *settings)
    assert not run.exists()
    assert plan["runs"] == 3
    (stretch,) = plan["stretches"]
    assert stretch["steps"] == 2 * 5  # 36 examples, 8 a step
    assert plan["seconds"] == pytest.approx(3 * (stretch["seconds"] + plan["evaluation_seconds"]))
    assert plan["memory"]["fits"]


@pytest.mark.parametrize("said", [("--batch-size", "8"), ("--set", "batch_size=8")])
def test_of_a_grid(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], said: tuple[str, str]
) -> None:
    command = ["finetune", "classification", "-m", shop.run, "-d", shop.table, "-o", tmp_path / "run"]
    plan = _plan(capsys, *command, *NANO_TASK, "--grid", *said)
    assert plan["runs"] == 3 * 3  # batches of 8 alone: rates and epochs are searched for
    assert plan["stretches"][0]["steps"] == 3 * 5  # in the mean of 2, 3 and 4 epochs


def test_of_a_task_whose_encoder_does_not_learn(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sklearn")
    command = ["finetune", "feature-classification", "-m", shop.run, "-d", shop.table, "-o", tmp_path / "run"]
    assert main([*map(str, command), *NANO_TASK, "--dry-run", "--quiet"]) == 2
    assert "its encoder does not learn" in capsys.readouterr().err


def test_is_told_in_a_few_lines(shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["pretrain", "--data", shop.data, "-o", tmp_path / "run", "--steps", "4", *NANO, "--dry-run"]
    assert main([*map(str, command), "--quiet"]) == 0
    text = capsys.readouterr().out
    for words in (
        "dry run: nothing was written",
        "gradients",
        "it fits",
        "largest micro_batch_tokens",
        "4 steps of",
    ):
        assert words in text
