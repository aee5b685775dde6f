"""Verbs that are killed with SIGKILL: what they write is whole or not there, and a run of several seeds goes on."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shop import NANO_TASK, Shop

pytestmark = pytest.mark.long


def begin(*arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "cloze", *map(str, arguments), "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_to_its_end(*arguments: object) -> None:
    process = begin(*arguments)
    _, errors = process.communicate()
    assert process.returncode == 0, errors


def kill(process: "subprocess.Popen[str]") -> bool:
    """Return whether it was still at work."""
    was_at_work = process.poll() is None
    process.kill()
    process.communicate()
    return was_at_work


def progress_of(run: Path) -> list[str]:
    """Return what the newest checkpoint of every seed is."""
    return [pointer.read_text() for pointer in sorted(run.glob("trials/*/latest"))]


def scores(run: Path) -> Any:
    return json.loads((run / "trials.json").read_text())["settings"]


@pytest.mark.timeout(600)
def test_fine_tunings_of_several_seeds_go_on(shop: Shop, tmp_path: Path) -> None:
    settings = ("-m", shop.run, "-d", shop.table, "--epochs", 3, "--seeds", 2, "--batch-size", 2, *NANO_TASK)
    saving = ("--set", "checkpoints.every_steps=1")
    whole, run = tmp_path / "whole", tmp_path / "killed"
    run_to_its_end("finetune", "classification", *settings, *saving, "-o", whole)
    chance = random.Random(2)
    for number in range(6):
        before = progress_of(run)
        process = begin(
            "finetune", "classification", "-o", run, *(("--resume",) if number else (*settings, *saving))
        )
        deadline = time.monotonic() + 120
        while progress_of(run) == before:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.1))
        assert kill(process)
    run_to_its_end("finetune", "classification", "-o", run, "--resume")
    for ours, expected in zip(scores(run), scores(whole), strict=True):
        assert ours["results"] == expected["results"]


@pytest.mark.timeout(600)
def test_vectors_are_whole_or_not_there(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("the moor was dark and the hound was heard\n" * 30_000)
    chance, output = random.Random(3), tmp_path / "vectors.npy"
    for _ in range(4):
        process = begin("embed", tmp_path / "texts.txt", "-m", shop.run, "-o", output)
        time.sleep(chance.uniform(2.0, 6.0))
        kill(process)
        assert not output.exists() or len(np.load(output)) == 30_000
        output.unlink(missing_ok=True)
    run_to_its_end("embed", tmp_path / "texts.txt", "-m", shop.run, "-o", output)
    assert len(np.load(output)) == 30_000
