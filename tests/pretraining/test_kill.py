"""Real processes, killed with real signals: a resumed run is bit-identical."""

import random
import signal
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
from forked import Command
from runs import assert_same_run

pytestmark = pytest.mark.protected

SECONDS_TO_START = 120


def _start(run: Path, *arguments: str) -> Command:
    return Command(["pretrain", "-o", str(run), *arguments, "--quiet"], errors=run.with_suffix(".errors"))


def _wait_for_progress(process: Command, run: Path) -> None:
    """Return when the process has logged something new, or has ended."""
    metrics = run / METRICS
    before = metrics.stat().st_mtime_ns if metrics.exists() else 0
    end = time.monotonic() + SECONDS_TO_START
    while process.is_running and time.monotonic() < end:
        if metrics.exists() and metrics.stat().st_mtime_ns != before:
            return
        time.sleep(0.005)


def _write_settings(config: PretrainConfig, path: Path) -> list[str]:
    path.write_text(configuration.to_toml(config), encoding="utf-8")
    return ["--config", str(path)]


def _kill_until_done(config: PretrainConfig, tmp_path: Path, *, kills: int, seed: int) -> None:
    settings = _write_settings(config, tmp_path / "settings.toml")
    seldom_saved = replace(config, checkpoints=CheckpointConfig())
    assert not _start(tmp_path / "whole", *_write_settings(seldom_saved, tmp_path / "whole.toml")).finish()
    chance = random.Random(seed)
    run = tmp_path / "killed"
    process = _start(run, *settings)
    for _ in range(kills):
        _wait_for_progress(process, run)
        time.sleep(chance.uniform(0, 0.25))
        assert process.is_running, f"the run ended before its kills: {process.finish()}"
        process.send(signal.SIGKILL)
        process.finish()
        if (run / "latest").exists():
            artifacts.verify(resolve_checkpoint(run, "latest"), kind="checkpoint")
        process = _start(run, "--resume")
    assert not process.finish()
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


@pytest.mark.exhaustive
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
    assert not _start(tmp_path / "whole", *settings).finish()
    process = _start(tmp_path / "stopped", *settings)
    _wait_for_progress(process, tmp_path / "stopped")
    asked = time.monotonic()
    process.send(number)
    errors = process.finish()
    assert time.monotonic() - asked < 10
    assert process.exit_code == 130
    assert errors.startswith(f"error: stopped by {number.name} after step ")
    assert "--resume" in errors
    assert len(errors.splitlines()) == 1
    assert not _start(tmp_path / "stopped", "--resume").finish()
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")
