"""Commands killed with SIGKILL: output is complete or absent, and a run of several seeds resumes."""

import json
import os
import random
import shlex
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import NANO_TASK

from forked import Command

pytestmark = pytest.mark.protected


def start(command: str, directory: Path) -> Command:
    return Command([*shlex.split(command), "--quiet"], directory / "errors")


def run(command: str, directory: Path) -> None:
    process = start(command, directory)
    assert process.finish() == ""
    assert process.exit_code == 0


def kill(process: Command) -> None:
    assert process.is_running, f"the command ended before its kill: {process.finish()}"
    process.send(signal.SIGKILL)
    process.finish()


def newest_checkpoints(directory: Path) -> list[str]:
    return [os.readlink(link) for link in sorted(directory.glob("trials/*/latest"))]


def results(directory: Path) -> list[Any]:
    settings = json.loads((directory / "trials.json").read_text())["settings"]
    return [setting["results"] for setting in settings]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("kills", "epochs"),
    [
        pytest.param(2, 3, marks=[pytest.mark.slow, pytest.mark.trials("kill", 2)]),
        pytest.param(30, 10, marks=[pytest.mark.exhaustive, pytest.mark.trials("kill", 30)]),
    ],
)
def test_a_run_of_several_seeds_resumes_bit_identically(samples, tmp_path, kills, epochs):
    settings = (
        f"--epochs {epochs} --seeds 2 --batch-size 2 {shlex.join(NANO_TASK)} --set checkpoints.every_steps=1"
    )
    new = f"finetune classification -m {samples.run} -d {samples.table} {settings} -o"
    resume = "finetune classification --resume -o"
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(f"{new} {whole}", tmp_path)
    random_delay = random.Random(2)
    for number in range(kills):
        before = newest_checkpoints(killed)
        process = start(f"{resume if number else new} {killed}", tmp_path)
        process.wait_until(lambda before=before: newest_checkpoints(killed) != before)
        time.sleep(random_delay.uniform(0, 0.1))
        kill(process)
    run(f"{resume} {killed}", tmp_path)
    assert results(killed) == results(whole)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("kills", "lines"),
    [
        pytest.param(2, 10_000, marks=[pytest.mark.slow, pytest.mark.trials("kill", 2)]),
        pytest.param(30, 30_000, marks=[pytest.mark.exhaustive, pytest.mark.trials("kill", 30)]),
    ],
)
def test_vectors_are_complete_or_absent(samples, tmp_path, kills, lines):
    (tmp_path / "texts.txt").write_text("the moor was dark and the hound was heard\n" * lines)
    random_delay, folder = random.Random(3), tmp_path / "out"
    command = f"embed {tmp_path}/texts.txt -m {samples.run} -o {folder}/vectors.npy"
    folder.mkdir()
    for _ in range(kills):
        for file in folder.iterdir():
            file.unlink()
        process = start(command, tmp_path)
        process.wait_until(lambda process=process: list(folder.iterdir()) or not process.is_running)
        time.sleep(random_delay.uniform(0, 0.4))
        with suppress(ProcessLookupError):  # the command may have ended
            process.send(signal.SIGKILL)
        process.finish()
        output = folder / "vectors.npy"
        assert not output.exists() or len(np.load(output)) == lines
    run(f"{command} --overwrite", tmp_path)
    assert len(np.load(output)) == lines
