"""`--dry-run`: memory and time of a run, and nothing on disk."""

from pathlib import Path
from typing import Any

import pytest
from samples import NANO, NANO_TASK, Cloze, Samples


@pytest.fixture
def pretrain(samples: Samples, tmp_path: Path) -> tuple[object, ...]:
    return ("pretrain", "--data", samples.data, "-o", tmp_path / "run", *NANO, "--dry-run", "--quiet")


@pytest.fixture
def finetune(samples: Samples, tmp_path: Path) -> tuple[object, ...]:
    data = ("-m", samples.run, "-d", samples.table, "-o", tmp_path / "run")
    return ("finetune", "classification", *data, *NANO_TASK, "--dry-run", "--quiet")


def test_a_plan_of_pretraining(pretrain: tuple[object, ...], tmp_path: Path, cloze: Cloze) -> None:
    phases = (
        "--set=phases=[{max_seq_length=16, fraction=0.75, batch_size=8},"
        "{max_seq_length=32, fraction=0.25, batch_size=20}]"
    )
    plan: dict[str, Any] = cloze(*pretrain, phases, "--steps", "40", "--json").json
    assert not (tmp_path / "run").exists()
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
    seconds = sum(stretch["seconds"] for stretch in plan["stretches"])
    assert plan["seconds"] == pytest.approx(seconds + plan["evaluation_seconds"])

    budget = ("--budget", "10m", "--set", "evaluation.times=5000", "--json")
    plan = cloze(*pretrain, phases, *budget).json
    assert plan["evaluation_seconds"] > 1
    for stretch, fraction in zip(plan["stretches"], (0.75, 0.25), strict=True):
        left = 600 - plan["evaluation_seconds"]
        assert stretch["seconds"] == pytest.approx(left * fraction, rel=0.05)
    assert plan["seconds"] == pytest.approx(600, rel=0.01)


def test_a_plan_that_does_not_fit(
    pretrain: tuple[object, ...], cloze: Cloze, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloze.pretraining.plan.available_memory", lambda device: 100_000)
    text = cloze(*pretrain, "--steps", "4").out
    assert "IT DOES NOT FIT" in text
    assert "no step was timed" in text


def test_a_plan_of_finetuning(finetune: tuple[object, ...], tmp_path: Path, cloze: Cloze) -> None:
    plan = cloze(*finetune, "--batch-size", "8", "--epochs", "2", "--seeds", "3", "--json").json
    assert not (tmp_path / "run").exists()
    assert plan["runs"] == 3
    (stretch,) = plan["stretches"]
    assert stretch["steps"] == 2 * 5  # 36 examples, 8 per step
    assert plan["seconds"] == pytest.approx(3 * (stretch["seconds"] + plan["evaluation_seconds"]))
    assert plan["memory"]["fits"]


@pytest.mark.parametrize("batch_size", [("--batch-size", "8"), ("--set", "batch_size=8")])
def test_a_plan_of_a_grid(finetune: tuple[object, ...], cloze: Cloze, batch_size: tuple[str, str]) -> None:
    plan = cloze(*finetune, "--grid", *batch_size, "--json").json
    assert plan["runs"] == 3 * 3  # learning rates and epochs; the batch size is given
    assert plan["stretches"][0]["steps"] == 3 * 5  # the mean of 2, 3 and 4 epochs


def test_a_frozen_encoder_has_no_plan(samples: Samples, tmp_path: Path, cloze: Cloze) -> None:
    data = ("-m", samples.run, "-d", samples.table, "-o", tmp_path / "run")
    printed = cloze("finetune feature-tagging --dry-run --quiet", *data, *NANO_TASK, code=2)
    assert "the encoder is not trained" in printed.err


def test_a_plan_is_printed_as_text(pretrain: tuple[object, ...], cloze: Cloze) -> None:
    text = cloze(*pretrain, "--steps", "4").out
    for words in (
        "dry run: nothing was written",
        "gradients",
        "it fits",
        "largest micro_batch_tokens",
        "4 steps of",
    ):
        assert words in text
