"""Real processes, killed with real signals: a resumed run is bit-identical."""

import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cloze import artifacts
from cloze import config as configuration
from cloze.model_paths import resolve_checkpoint
from cloze.pretraining.config import PretrainConfig
from cloze.training.averaging import AveragingConfig
from cloze.training.checkpoints import CheckpointConfig
from cloze.training.metrics_log import METRICS
from cloze.training.muon import MuonConfig
from runs import assert_same_run

pytestmark = pytest.mark.protected

SECONDS_TO_START = 120


def _start(run: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "cloze", "pretrain", "-o", str(run), *arguments, "--quiet"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def _wait_for_progress(process: "subprocess.Popen[str]", run: Path) -> None:
    """Return when the process has logged something new, or has ended."""
    metrics = run / METRICS
    before = metrics.stat().st_mtime_ns if metrics.exists() else 0
    end = time.monotonic() + SECONDS_TO_START
    while process.poll() is None and time.monotonic() < end:
        if metrics.exists() and metrics.stat().st_mtime_ns != before:
            return
        time.sleep(0.005)


def _finish(process: "subprocess.Popen[str]") -> str:
    _, errors = process.communicate(timeout=600)  # a checkpoint takes 0.1 s on a slow disk
    return errors


def _write_settings(config: PretrainConfig, path: Path) -> list[str]:
    path.write_text(configuration.to_toml(config), encoding="utf-8")
    return ["--config", str(path)]


def _kill_until_done(config: PretrainConfig, tmp_path: Path, *, kills: int, seed: int) -> None:
    settings = _write_settings(config, tmp_path / "settings.toml")
    assert not _finish(_start(tmp_path / "whole", *settings))
    chance = random.Random(seed)
    run = tmp_path / "killed"
    process = _start(run, *settings)
    for _ in range(kills):
        _wait_for_progress(process, run)
        time.sleep(chance.uniform(0, 0.25))
        assert process.poll() is None, f"the run ended before its kills: {process.communicate()[1]}"
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if (run / "latest").exists():
            artifacts.verify(resolve_checkpoint(run, "latest"), kind="checkpoint")
        process = _start(run, "--resume")
    assert not _finish(process)
    assert_same_run(tmp_path / "whole", run)


@pytest.mark.timeout(600)
@pytest.mark.trials("kill", 20)
def test_resume_is_bit_identical_after_twenty_sigkills(nano, tmp_path):
    """Within epochs and steps, while saving, in both phases; dropout on, gradients accumulated."""
    config = replace(nano, steps=1200, checkpoints=CheckpointConfig(every_steps=2, keep_newest=2))
    _kill_until_done(config, tmp_path, kills=20, seed=1)


def _with_all_ingredients(config: PretrainConfig) -> PretrainConfig:
    """Muon, masks that grow fewer, and a mean of the weights over most of the run."""
    return replace(
        config,
        optimizer=replace(config.optimizer, muon=MuonConfig(), bias_correction=True),
        masking=replace(config.masking, initial_masked_lm_prob=0.3),
        averaging=AveragingConfig(tail_fraction=0.8),
    )


@pytest.mark.timeout(600)
@pytest.mark.trials("kill", 2)
def test_resume_of_a_fast_recipe_is_bit_identical_after_sigkill(nano, tmp_path):
    config = replace(nano, steps=160, checkpoints=CheckpointConfig(every_steps=2, keep_newest=2))
    _kill_until_done(_with_all_ingredients(config), tmp_path, kills=2, seed=4)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.trials("kill", 60)
@pytest.mark.parametrize("seed", [2, 3])
def test_resume_is_bit_identical_after_sixty_sigkills(nano, tmp_path, seed):
    config = replace(nano, steps=1500, checkpoints=CheckpointConfig(every_steps=1, keep_newest=2))
    _kill_until_done(config, tmp_path, kills=60, seed=seed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_saves_and_stops_within_ten_seconds(nano, tmp_path, number):
    config = replace(nano, steps=160, checkpoints=CheckpointConfig())
    settings = _write_settings(config, tmp_path / "settings.toml")
    assert not _finish(_start(tmp_path / "whole", *settings))
    process = _start(tmp_path / "stopped", *settings)
    _wait_for_progress(process, tmp_path / "stopped")
    asked = time.monotonic()
    process.send_signal(number)
    errors = _finish(process)
    assert time.monotonic() - asked < 10
    assert process.returncode == 130
    assert errors.startswith(f"error: stopped by {number.name} after step ")
    assert "--resume" in errors
    assert len(errors.splitlines()) == 1
    assert not _finish(_start(tmp_path / "stopped", "--resume"))
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")
