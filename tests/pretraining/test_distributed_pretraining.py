"""Several ranks: the same run on any number of them, launchers, kills and restarts."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch.distributed import TCPStore

import cloze
from cloze import artifacts
from cloze import config as configuration
from cloze.model_paths import resolve_checkpoint
from cloze.training.checkpoints import CheckpointConfig, read_state
from cloze.training.distributed import DistributionConfig
from cloze.training.metrics_log import METRICS, read_metrics
from cloze.training.run_directory import ENVIRONMENT
from ranks import Ranks
from runs import assert_same_run, pretrain, resume_pretraining, rows, weights

pytestmark = pytest.mark.slow

STEPS = 16


def _assert_same_losses(one: Path, other: Path, *, tolerance: float) -> None:
    for kind in ("train", "validation"):
        ours, theirs = rows(one, kind), rows(other, kind)
        assert [row["step"] for row in ours] == [row["step"] for row in theirs]
        assert [row.get("tokens") for row in ours] == [row.get("tokens") for row in theirs]
        losses = ([row["loss"] for row in of_run] for of_run in (ours, theirs))
        np.testing.assert_allclose(*losses, rtol=tolerance)


@pytest.fixture(scope="module")
def alone(quiet: cloze.PretrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "alone"
    pretrain(replace(quiet, steps=STEPS), run)
    return run


def _pretrain_all(*runs: tuple[cloze.PretrainConfig, Path]) -> None:
    for config, run in runs:
        pretrain(config, run)


@pytest.mark.parametrize(
    ("size", "distribution", "tolerance"),
    [
        (3, DistributionConfig(), 1e-6),
        pytest.param(2, DistributionConfig(), 1e-6, marks=pytest.mark.exhaustive),
        pytest.param(2, DistributionConfig(reduce_dtype="bfloat16"), 1e-3, marks=pytest.mark.exhaustive),
    ],
    ids=["three", "two", "bfloat16"],
)
def test_run_is_the_same_on_any_number_of_ranks(quiet, nano, alone, tmp_path, size, distribution, tolerance):
    """Evaluations to the bit, before the first step, with more batches than three ranks share evenly."""
    config = replace(quiet, steps=STEPS, distribution=distribution)
    evaluated = replace(nano, init=str(alone), steps=1)
    runs = (config, tmp_path / "run"), (evaluated, tmp_path / "evaluated")
    assert Ranks(size, _pretrain_all, *runs).join() == [0] * size
    pretrain(evaluated, tmp_path / "one")
    (one, _), (ranks, _) = (rows(tmp_path / run, "validation") for run in ("one", "evaluated"))
    assert one["step"] == ranks["step"] == 0
    assert {**one, "seconds": None} == {**ranks, "seconds": None}
    _assert_same_losses(alone, tmp_path / "run", tolerance=tolerance)
    assert f'"ranks": {size}' in (tmp_path / "run" / ENVIRONMENT).read_text()
    checkpoint = resolve_checkpoint(tmp_path / "run", "latest")
    artifacts.verify(checkpoint, kind="checkpoint")
    for name in ("model.safetensors", "training/optimizer.safetensors"):
        shapes = [
            {key: tensor.shape for key, tensor in weights(run, name).items()}
            for run in (alone, tmp_path / "run")
        ]
        assert shapes[0] == shapes[1]


def test_run_resumes_on_another_number_of_ranks(quiet, alone, tmp_path):
    """One rank, two, one: what lies behind the checkpoint is what the run had seen."""
    run = tmp_path / "run"
    checkpoints = CheckpointConfig(every_steps=4, keep_newest=9)
    config = replace(quiet, steps=STEPS, checkpoints=checkpoints)

    def forget_after(step: int) -> None:
        for path in (run / "checkpoints").iterdir():
            if int(path.name.removeprefix("step-")) > step:
                shutil.rmtree(path)

    pretrain(config, run)
    forget_after(4)
    assert Ranks(2, resume_pretraining, run).join() == [0, 0]
    forget_after(8)
    resume_pretraining(run)
    _assert_same_losses(alone, run, tolerance=1e-6)
    states = [read_state(resolve_checkpoint(path, "latest")) for path in (alone, run)]
    assert states[0].position == states[1].position
    assert states[0].tokens == states[1].tokens


def pretrain_texts(run: Path, init: Path) -> None:
    texts = [f"The dog {n} was a dog.\nHe left {n} dogs." for n in range(40)]
    settings = {"phases": [{"max_seq_length": 64, "fraction": 1.0, "batch_size": 8}]}
    cloze.pretrain(output=run, texts=texts, init=init, steps=1, device="cpu", settings=settings)


def test_rank_zero_tokenizes_texts_in_memory(alone, tmp_path):
    assert Ranks(2, pretrain_texts, tmp_path / "run", alone).join() == [0, 0]
    assert len(rows(tmp_path / "run")) == 1


def _wait_for_step(run: Path, step: int, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (run / METRICS).exists() and read_metrics(run) and read_metrics(run)[-1]["step"] >= step:
            return
        time.sleep(0.01)
    raise AssertionError(f"no step {step} in {seconds} seconds")


@pytest.mark.parametrize("killed", [1, pytest.param(0, marks=pytest.mark.exhaustive)])
@pytest.mark.protected
def test_killed_rank_ends_the_others_and_is_named(nano, tmp_path, killed):
    """In the second case, torchrun's agent, which keeps the roll, is lost with the rank."""
    ranks = Ranks(2, pretrain, replace(nano, steps=5000), tmp_path / "run")
    _wait_for_step(tmp_path / "run", 3)
    if killed == 0:
        del ranks.store
    ranks.processes[killed].kill()
    died = time.monotonic()
    codes = ranks.join(30)
    assert time.monotonic() - died < 30
    assert codes[killed] == -signal.SIGKILL
    assert codes[1 - killed] == 1
    rank, error = ranks.errors.get()
    assert rank == 1 - killed
    name = "rank 1" if killed == 1 else "a rank"
    assert error.startswith(f"rank {rank}: lost {name} of 0..1. ")
    assert len(error.splitlines()) == 1


def test_signal_to_one_rank_stops_all_and_saves(nano, tmp_path):
    """With dropout: the resumed run on the same number of ranks is bit-identical."""
    assert Ranks(2, pretrain, nano, tmp_path / "whole").join() == [0, 0]
    ranks = Ranks(2, pretrain, nano, tmp_path / "stopped")
    _wait_for_step(tmp_path / "stopped", 5)
    ranks.processes[1].terminate()
    assert ranks.join() == [130, 130]
    assert {error[:24] for _, error in (ranks.errors.get(), ranks.errors.get())} == {
        "stopped by SIGTERM after",
        "stopped by another rank ",
    }
    assert Ranks(2, resume_pretraining, tmp_path / "stopped").join() == [0, 0]
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


# The lines of docs/guides/distribution.md, with torchrun itself.


def _torchrun(run: Path, settings: Path, *arguments: str) -> "subprocess.Popen[str]":
    launcher = [sys.executable, "-m", "torch.distributed.run", *arguments]
    command = [*launcher, "-m", "cloze", "pretrain", "--config", str(settings), "-o", str(run), "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _settings(config: cloze.PretrainConfig, path: Path) -> Path:
    path.write_text(configuration.to_toml(config), encoding="utf-8")
    return path


def _workers(launcher: int) -> list[int]:
    """Return the processes that torchrun has started, the first rank first."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return sorted(map(int, children))


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="finds the ranks in /proc")
@pytest.mark.protected
def test_torchrun_restarts_a_run_that_is_killed_ten_times_bit_identically(nano, tmp_path):
    kills = 10
    config = replace(nano, steps=600, checkpoints=CheckpointConfig(every_steps=2))
    assert Ranks(2, pretrain, config, tmp_path / "whole").join() == [0, 0]
    run = tmp_path / "killed"
    settings = _settings(config, tmp_path / "settings.toml")
    launcher = _torchrun(run, settings, "--nproc-per-node=2", f"--max-restarts={kills}")
    chance = random.Random(1)
    assert config.steps is not None
    killed: set[int] = set()
    for number in range(kills):
        _wait_for_step(run, (number + 1) * config.steps // (kills + 2))
        while len(workers := _workers(launcher.pid)) < 2 or killed & set(workers):
            assert launcher.poll() is None, launcher.communicate()[1]
            time.sleep(0.1)  # until torchrun has begun anew
        killed = set(workers)
        os.kill(chance.choice(workers), signal.SIGKILL)
    output, errors = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, errors
    assert output.count(f"wrote {run}") == 1
    assert "error: rank" in errors
    assert_same_run(tmp_path / "whole", run)


@pytest.mark.exhaustive
def test_two_launchers_act_as_two_machines(nano, tmp_path):
    assert Ranks(2, pretrain, nano, tmp_path / "one-machine").join() == [0, 0]
    settings = _settings(nano, tmp_path / "settings.toml")
    hosts = ("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-conf=is_host=false")
    store = TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )  # whose port nobody else can take
    meeting = f"--rdzv-endpoint=127.0.0.1:{store.port}"
    launchers = [_torchrun(tmp_path / "two", settings, *hosts, meeting) for _ in range(2)]
    outcomes = [launcher.communicate(timeout=120) for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], outcomes
    assert sum(output.count("wrote ") for output, _ in outcomes) == 1
    assert_same_run(tmp_path / "one-machine", tmp_path / "two")
