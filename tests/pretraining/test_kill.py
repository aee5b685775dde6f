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
from cloze.training.checkpoints import CheckpointConfig
from cloze.training.metrics_log import METRICS, read_metrics
from cloze.training.optimizer import MuonConfig
from forked import Command
from runs import assert_same_run, pretrain

pytestmark = [pytest.mark.protected, pytest.mark.slow]

SECONDS_TO_STEP = 600  # a hang ends sooner, by the limit of the test


def _start(run: Path, *arguments: str) -> Command:
    return Command(["pretrain", "-o", str(run), *arguments, "--quiet"], errors=run.with_suffix(".errors"))


def _start_with(config: PretrainConfig, run: Path) -> Command:
    settings = run.with_suffix(".toml")
    settings.write_text(configuration.to_toml(config), encoding="utf-8")
    return _start(run, "--config", str(settings))


def _wait_for_step(process: Command, run: Path, step: int) -> None:
    end = time.monotonic() + SECONDS_TO_STEP
    while _last_step(run) < step:
        assert process.is_running, f"ended before step {step}: {process.finish()}"
        if time.monotonic() > end:
            raise TimeoutError(f"timed out after {SECONDS_TO_STEP} s, before step {step}")
        time.sleep(0.005)


def _last_step(run: Path) -> int:
    rows = read_metrics(run) if (run / METRICS).exists() else []
    return rows[-1]["step"] if rows else -1


def _kill_until_done(config: PretrainConfig, whole: Path, tmp_path: Path, *, kills: int, seed: int) -> None:
    """Kill a run at steps that are evenly spaced, at a random moment of each; compare it with a whole one."""
    assert config.steps is not None
    chance = random.Random(seed)
    run = tmp_path / "killed"
    process = _start_with(config, run)
    for number in range(1, kills + 1):
        _wait_for_step(process, run, number * config.steps // (kills + 1))
        time.sleep(chance.uniform(0, 0.05))
        assert process.is_running, f"the run ended before its kills: {process.finish()}"
        process.send(signal.SIGKILL)
        process.finish()
        if (run / "latest").exists():
            artifacts.verify(resolve_checkpoint(run, "latest"), kind="checkpoint")
        process = _start(run, "--resume")
    assert not process.finish()
    assert_same_run(whole, run)


@pytest.fixture(scope="module")
def config(nano: PretrainConfig) -> PretrainConfig:
    return replace(nano, steps=100, checkpoints=CheckpointConfig())


@pytest.fixture(scope="module")
def whole(config: PretrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupts."""
    run = tmp_path_factory.mktemp("whole") / "run"
    pretrain(config, run)
    return run


@pytest.mark.trials("kill", 4)
def test_resume_is_bit_identical_after_four_sigkills(config, whole, tmp_path):
    """Within epochs and steps, while saving, in both phases; dropout on, gradients accumulated."""
    often_saved = replace(config, checkpoints=CheckpointConfig(every_steps=2, keep_newest=2))
    _kill_until_done(often_saved, whole, tmp_path, kills=4, seed=1)


@pytest.mark.trials("kill", 2)
def test_resume_of_a_fast_recipe_is_bit_identical_after_sigkill(config, tmp_path):
    """With Muon and a masked fraction that decreases."""
    fast = replace(
        config,
        steps=60,
        optimizer=replace(config.optimizer, muon=MuonConfig(), bias_correction=True),
        masking=replace(config.masking, initial_masked_lm_prob=0.3),
    )
    pretrain(fast, tmp_path / "whole")
    often_saved = replace(fast, checkpoints=CheckpointConfig(every_steps=2, keep_newest=2))
    _kill_until_done(often_saved, tmp_path / "whole", tmp_path, kills=2, seed=4)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.trials("kill", 60)
@pytest.mark.parametrize("seed", [2, 3])
def test_resume_is_bit_identical_after_sixty_sigkills(config, tmp_path, seed):
    long = replace(config, steps=1500)
    pretrain(long, tmp_path / "whole")
    often_saved = replace(long, checkpoints=CheckpointConfig(every_steps=1, keep_newest=2))
    _kill_until_done(often_saved, tmp_path / "whole", tmp_path, kills=60, seed=seed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_saves_and_stops(config, whole, tmp_path, number):
    run = tmp_path / "stopped"
    process = _start_with(config, run)
    _wait_for_step(process, run, 5)
    process.send(number)
    errors = process.finish()
    assert process.exit_code == 130
    assert errors.startswith(f"error: stopped by {number.name} after step ")
    assert "--resume" in errors
    assert len(errors.splitlines()) == 1
    assert not _start(run, "--resume").finish()
    assert_same_run(whole, run)
