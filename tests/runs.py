"""Comparisons of runs in tests: rows of the log, weights, bits."""

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import cloze
from cloze.api.settings import find_initial_checkpoint
from cloze.finetuning import finetune as finetuning
from cloze.finetuning.finetune import scores_of_report
from cloze.finetuning.objective import FinetuningObjective
from cloze.finetuning.preparation import PreparedData, prepare_data
from cloze.model_paths import resolve_checkpoint
from cloze.parallel_map import Workers
from cloze.pretraining import run as pretraining_run
from cloze.progress import SILENT, Progress
from cloze.training.distributed import DistributedContext
from cloze.training.metrics_log import read_metrics
from cloze.training.model_card import CardInfo
from cloze.training.run import Launch


def pretrain(config: cloze.PretrainConfig, run: Path, **options: Any) -> dict[str, float]:
    """Pre-train, from the checkpoint that the settings name."""
    return pretraining_run.pretrain(config, run, find_initial_checkpoint(config), Launch(**options))


def resume_pretraining(run: Path, **options: Any) -> dict[str, float]:
    return cloze.pretrain(output=run, resume=True, **options)


def finetune(
    task: cloze.Task, config: cloze.FinetuneConfig, run: Path, *, workers: Workers = 1, **options: Any
) -> dict[str, float]:
    """Fine-tune from the models that the settings name; return the scores."""
    return scores_of_report(finetuning.finetune(task, config, run, Launch(**options), workers=workers))


def resume_finetuning(run: Path, **options: Any) -> dict[str, Any]:
    return cloze.finetune(output=run, resume=True, **options).report


validate = partial(finetuning.validate, progress=SILENT)
plan_finetuning = finetuning.plan_finetuning
CARD, CPU = CardInfo(), DistributedContext(torch.device("cpu"))


def prepare(
    task: cloze.Task,
    config: cloze.FinetuneConfig,
    context: DistributedContext = CPU,
    progress: Progress = SILENT,
) -> PreparedData:
    return prepare_data(task, config, context, progress)


def rows(run: Path, kind: str = "train") -> list[dict[str, Any]]:
    return [row for row in read_metrics(run) if row["kind"] == kind]


def losses(run: Path, kind: str = "train") -> list[tuple[int, float]]:
    """Return step and loss."""
    return [(row["step"], row["loss"]) for row in rows(run, kind)]


def weights(run: Path, name: str = "model.safetensors") -> dict[str, Tensor]:
    """Return the tensors in a file of the newest checkpoint."""
    return load_file(resolve_checkpoint(run, "latest") / name)


def assert_same_weights(one: Path, other: Path, name: str = "model.safetensors") -> None:
    first, second = weights(one, name), weights(other, name)
    assert first.keys() == second.keys()
    assert all(torch.equal(tensor, second[key]) for key, tensor in first.items())


def assert_same_run(one: Path, other: Path) -> None:
    """Compare weights and training state to the bit, and every logged loss."""
    names = [
        sorted(path.relative_to(checkpoint).as_posix() for path in checkpoint.rglob("*.safetensors"))
        for checkpoint in (resolve_checkpoint(run, "latest") for run in (one, other))
    ]
    assert names[0] == names[1]
    for name in names[0]:
        assert_same_weights(one, other, name)
    for kind in ("train", "validation"):
        assert losses(one, kind) == losses(other, kind)


def interrupt_finetuning(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> list[int]:
    """Send SIGTERM in the micro-batches with these numbers, from 1; return the list that grows with each of them."""
    forward, so_far = FinetuningObjective.forward, list[int]()

    def interrupting(*arguments: Any) -> Any:
        so_far.append(len(so_far) + 1)
        if so_far[-1] in numbers:
            os.kill(os.getpid(), signal.SIGTERM)
        return forward(*arguments)

    monkeypatch.setattr(FinetuningObjective, "forward", interrupting)
    return so_far
