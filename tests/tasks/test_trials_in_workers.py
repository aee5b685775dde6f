"""Several runs made side by side, by processes and on a cluster: the results are those of one after the other."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cloze.errors import InputError
from cloze.executor import Workers
from cloze.progress import Progress
from cloze.ray_cluster import RayCluster
from cloze.tasks.classification import Classification
from cloze.tasks.config import FinetuneConfig, GridConfig
from cloze.tasks.finetune import finetune, resume_finetuning
from cloze.training.optimizer import OptimizerConfig

TASK = Classification(text_column="review", label_column="liked")


@pytest.fixture
def config(nano_checkpoint: Path, reviews: Path, monkeypatch: pytest.MonkeyPatch) -> FinetuneConfig:
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # so that each worker has a thread, as this process has
    return FinetuneConfig(
        model=str(nano_checkpoint),
        train=str(reviews),
        epochs=2,
        batch_size=9,
        max_seq_length=16,
        optimizer=OptimizerConfig(learning_rate=5e-3, warmup_fraction=0.1),
        precision="float32",
        device="cpu",
        micro_batch_tokens=40,
        seeds=3,
    )


pytestmark = pytest.mark.usefixtures("one_thread")


def summary_of(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "trials.json").read_text()))


def weights_of(run: Path) -> dict[str, bytes]:
    """What each trial has kept."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted((run / "trials").glob("*/checkpoints/*/model.safetensors"))
    }


@pytest.mark.long
def test_processes_make_the_runs_of_one(
    config: FinetuneConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = replace(config, grid=GridConfig(learning_rates=(5e-3, 1e-3)), seeds=2)
    alone = finetune(TASK, config, tmp_path / "alone")
    capsys.readouterr()
    assert finetune(TASK, config, tmp_path / "both", workers=2, progress=Progress()) == alone
    assert re.search(r"trials: 4/4 runs best [01]\.\d{4}", capsys.readouterr().err)
    assert summary_of(tmp_path / "both") == summary_of(tmp_path / "alone")
    assert weights_of(tmp_path / "both") == weights_of(tmp_path / "alone")
    assert len(weights_of(tmp_path / "both")) == 1, "of a grid the best run alone keeps its model"


def test_workers_are_for_several_runs(config: FinetuneConfig, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"workers: one run is made in this process. Ask for several with --seeds"
    ):
        finetune(TASK, replace(config, seeds=1), tmp_path / "run", workers=2)
    with pytest.raises(InputError, match="workers: 0 is less than 1"):
        finetune(TASK, config, tmp_path / "run", workers=0)
    assert not (tmp_path / "run").exists()


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
@pytest.mark.long
def test_a_cluster_makes_the_runs_of_one_process_when_a_machine_is_lost(
    two_machines: Any, config: FinetuneConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(config, epochs=6)
    finetune(TASK, config, tmp_path / "alone")
    monkeypatch.chdir(tmp_path)
    finished_before: list[int] = []
    loss = Thread(target=_lose_a_machine, args=(two_machines, tmp_path / "study", finished_before))
    loss.start()
    workers: Workers = RayCluster()
    finetune(TASK, config, Path("study"), workers=workers)
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
