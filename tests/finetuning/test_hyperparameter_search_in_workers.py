"""Several runs in processes and on a cluster: the same results as one after the other."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cloze.finetuning.config import FinetuneConfig, GridConfig
from cloze.parallel_map import RayCluster, Workers
from cloze.progress import Progress
from family_cases import REVIEWS
from runs import finetune, resume_finetuning


@pytest.fixture
def config(config: FinetuneConfig) -> FinetuneConfig:
    return replace(config, seeds=3)


pytestmark = pytest.mark.usefixtures("one_thread")  # also each worker has one


def summary_of(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "trials.json").read_text()))


def weights_of(run: Path) -> dict[str, bytes]:
    """What each trial has kept."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted((run / "trials").glob("*/checkpoints/*/model.safetensors"))
    }


@pytest.mark.exhaustive
def test_processes_give_the_same_results_as_one(config, tmp_path, capsys):
    config = replace(config, grid=GridConfig(learning_rates=(5e-3, 1e-3)), seeds=2)
    alone = finetune(REVIEWS, config, tmp_path / "alone")
    capsys.readouterr()
    assert finetune(REVIEWS, config, tmp_path / "both", workers=2, progress=Progress()) == alone
    assert re.search(r"trials: 4/4 runs best [01]\.\d{4}", capsys.readouterr().err)
    assert summary_of(tmp_path / "both") == summary_of(tmp_path / "alone")
    assert weights_of(tmp_path / "both") == weights_of(tmp_path / "alone")
    assert len(weights_of(tmp_path / "both")) == 1, "of a grid the best run alone keeps its model"


def _lose_a_machine(cluster: Any, run: Path, finished_before: list[int]) -> None:
    """Kill one when both have a run that they can go on with."""
    deadline = time.monotonic() + 120
    while len({path.parents[1] for path in run.glob("trials/*/checkpoints/step-*")}) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    finished_before.append(len(list(run.glob("trials/*/scores.json"))))
    cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)


# Ray's own modules leave sockets and files to the garbage collector, and name what they will not need any more
@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.exhaustive
def test_cluster_with_a_lost_machine_gives_the_same_results(two_machines, config, tmp_path, monkeypatch):
    config = replace(config, epochs=6)
    finetune(REVIEWS, config, tmp_path / "alone")
    monkeypatch.chdir(tmp_path)
    finished_before: list[int] = []
    loss = Thread(target=_lose_a_machine, args=(two_machines, tmp_path / "study", finished_before))
    loss.start()
    workers: Workers = RayCluster()
    finetune(REVIEWS, config, Path("study"), workers=workers)
    loss.join()
    assert finished_before[0] < 3
    assert summary_of(tmp_path / "study") == summary_of(tmp_path / "alone")
    assert weights_of(tmp_path / "study") == weights_of(tmp_path / "alone")
    (tmp_path / "study/trials.json").unlink()
    (tmp_path / "study/trials/seed-12346/scores.json").unlink()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("study/trials/seed-1234[57]/scores.json")}
    resume_finetuning(Path("study"), workers=workers)
    assert summary_of(tmp_path / "study") == summary_of(tmp_path / "alone")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
