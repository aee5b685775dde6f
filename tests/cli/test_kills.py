"""Commands killed with SIGKILL: output is complete or absent, and a run of several seeds resumes."""

import json
import random
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import NANO_TASK, Samples

pytestmark = [pytest.mark.exhaustive, pytest.mark.protected]


def start(command: str) -> "subprocess.Popen[str]":
    arguments = [sys.executable, "-m", "cloze", *shlex.split(command), "--quiet"]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(command: str) -> None:
    process = start(command)
    _, errors = process.communicate()
    assert process.returncode == 0, errors


def kill(process: "subprocess.Popen[str]") -> bool:
    """Kill a process and return whether it was running."""
    was_running = process.poll() is None
    process.kill()
    process.communicate()
    return was_running


def newest_checkpoints(directory: Path) -> list[str]:
    return [pointer.read_text() for pointer in sorted(directory.glob("trials/*/latest"))]


def results(directory: Path) -> list[Any]:
    settings = json.loads((directory / "trials.json").read_text())["settings"]
    return [setting["results"] for setting in settings]


@pytest.mark.timeout(600)
@pytest.mark.trials("kill", 6)
def test_a_run_of_several_seeds_resumes_bit_identically(samples: Samples, tmp_path: Path) -> None:
    settings = f"--epochs 3 --seeds 2 --batch-size 2 {shlex.join(NANO_TASK)} --set checkpoints.every_steps=1"
    new = f"finetune classification -m {samples.run} -d {samples.table} {settings} -o"
    resume = "finetune classification --resume -o"
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(f"{new} {whole}")
    random_delay = random.Random(2)
    for number in range(6):
        before = newest_checkpoints(killed)
        process = start(f"{resume if number else new} {killed}")
        deadline = time.monotonic() + 120
        while newest_checkpoints(killed) == before:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(random_delay.uniform(0, 0.1))
        assert kill(process)
    run(f"{resume} {killed}")
    assert results(killed) == results(whole)


@pytest.mark.timeout(600)
@pytest.mark.trials("kill", 4)
def test_vectors_are_complete_or_absent(samples: Samples, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("the moor was dark and the hound was heard\n" * 30_000)
    random_delay, output = random.Random(3), tmp_path / "vectors.npy"
    command = f"embed {tmp_path}/texts.txt -m {samples.run} -o {output}"
    for _ in range(4):
        process = start(command)
        time.sleep(random_delay.uniform(2.0, 6.0))
        kill(process)
        assert not output.exists() or len(np.load(output)) == 30_000
        output.unlink(missing_ok=True)
    run(command)
    assert len(np.load(output)) == 30_000
