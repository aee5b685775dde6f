"""A fine-tuning run from labelled data to a scored model."""

import json
import shutil
from pathlib import Path

import torch
from torch import nn

from cloze import artifacts
from cloze.errors import InputError
from cloze.metrics.libraries import require
from cloze.model.checkpoint import load_model, write_model_files
from cloze.progress import SILENT, Progress
from cloze.tasks.config import (
    TASK_FILE,
    FinetuneConfig,
    TaskSettings,
    load_finetuning,
    load_task,
    to_toml,
)
from cloze.tasks.data import LabelledData, read_data, with_files
from cloze.tasks.predict import predict
from cloze.tasks.task import AnyTask
from cloze.tasks.work import FinetuningWork
from cloze.text.tokenizer import Tokenizer
from cloze.training.budget import Budget, Steps, StepsWithin
from cloze.training.checkpoints import (
    TrainingState,
    follow,
    newest_checkpoint,
    read_state,
    resolve_checkpoint,
)
from cloze.training.environment import write_environment
from cloze.training.loop import EvaluationConfig, Trainer
from cloze.training.precision import resolve_device, resolve_dtype

SCORES = "scores.json"


def finetune(
    task: AnyTask,
    config: FinetuneConfig,
    run: Path,
    *,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> dict[str, float]:
    """Fine-tune a model on a task. All data are read, checked and tokenized before the first step.

    Args:
        task: what is learned, with its settings.
        config: how; `run.toml` keeps both.
        run: directory of the run.
        overwrite: replace the run that is there.
        progress: where to tell how far it is.

    Returns:
        The scores of the best checkpoint on the dev data, as `scores.json` keeps them.

    Raises:
        InputError: a setting, a line of the data or the model to start from is wrong; nothing was written.
        Interrupted: SIGINT or SIGTERM came, and the state was saved.
        RunError: the loss stayed infinite or NaN, or the disk is full.

    Source:
        Devlin et al. 2019, 4; google-research/bert run_classifier.py @eedf571.

    Differs:
        The last batch of an epoch has what is left, where Google's code fills it from the next epoch.
    """
    run = Path(run)
    artifacts.refuse_existing(run, overwrite=overwrite, resume_hint=", go on with --resume")
    if task.trained_as is not None:
        remedy = f"Fine-tune {task.trained_as}: its models answer {task.name}, too"
        raise InputError("has no data to learn from", where=task.name, remedy=remedy)
    require(task.libraries)
    config = with_files(task, config)
    start = resolve_checkpoint(Path(config.model))
    tokenizer = Tokenizer.load(start)
    task, data = read_data(task, config, tokenizer, progress)
    model = _initial_model(task, config, start).to(resolve_device(config.device))
    if run.exists():
        shutil.rmtree(run)
    artifacts.write_text(run / artifacts.RUN_CONFIG, to_toml(task, config))
    return _train(task, config, run, data, tokenizer, model, TrainingState(), None, progress)


def resume_finetuning(run: Path, *, progress: Progress = SILENT) -> dict[str, float]:
    """Go on with a run from its newest checkpoint that is whole, with the settings it was started with.

    Raises:
        InputError: `run` is not a run of `finetune`, or its data are not those it began with.
    """
    run = Path(run)
    if not (run / artifacts.RUN_CONFIG).is_file():
        raise InputError(
            f"no run to resume: it has no {artifacts.RUN_CONFIG}", where=run, remedy="Leave out --resume"
        )
    task, config = load_finetuning(path=run / artifacts.RUN_CONFIG)
    config = with_files(task, config)
    checkpoint = newest_checkpoint(run, progress)
    start = checkpoint or resolve_checkpoint(Path(config.model))
    tokenizer = Tokenizer.load(start)
    task, data = read_data(task, config, tokenizer, progress)
    if checkpoint is None:
        model, state = _initial_model(task, config, start), TrainingState()
    else:
        model, state = load_model(checkpoint, task.head, verify=False), read_state(checkpoint)
    return _train(task, config, run, data, tokenizer, model, state, checkpoint, progress)


def _initial_model(task: AnyTask, config: FinetuneConfig, start: Path) -> nn.Module:
    """Return the encoder of a checkpoint with a new head."""
    encoder = load_model(start)
    limit = encoder.config.max_position_embeddings
    if config.max_seq_length > limit:
        what = f"max_seq_length {config.max_seq_length}, the model takes {limit} tokens"
        raise InputError(what, where=config.model, remedy=f"Say --set max_seq_length={limit}")
    return task.head(encoder, generator=torch.Generator().manual_seed(config.seed)).train()


def _train(
    task: AnyTask,
    config: FinetuneConfig,
    run: Path,
    data: LabelledData,
    tokenizer: Tokenizer,
    model: nn.Module,
    state: TrainingState,
    checkpoint: Path | None,
    progress: Progress,
) -> dict[str, float]:
    device = resolve_device(config.device)
    compute_dtype = resolve_dtype(config.precision, device)
    work = FinetuningWork(task=task, data=data, config=config, device=device)
    write_environment(run, device, compute_dtype)
    card = _model_card(task, config)
    settings = TaskSettings(max_seq_length=config.max_seq_length)

    def write_model(directory: Path) -> None:
        write_model_files(directory, model, tokenizer, labels=task.class_names)
        (directory / TASK_FILE).write_text(to_toml(work.task, settings), encoding="utf-8")
        (directory / "README.md").write_text(card, encoding="utf-8")

    trainer = Trainer(
        model=model.to(device),
        work=work,
        budget=_budget(config, work.steps_per_epoch * config.epochs),
        run=run,
        write_model=write_model,
        optimizer_config=config.optimizer,
        checkpoint_config=config.checkpoints,
        evaluation_config=EvaluationConfig(
            times=config.epochs * config.evaluations_per_epoch, log_every_steps=config.log_every_steps
        ),
        seed=config.seed,
        compute_dtype=compute_dtype,
        progress=progress,
        state=state,
    )
    trainer.train(resume_from=checkpoint)
    return _score_best(config, run, data, device, progress)


def _score_best(
    config: FinetuneConfig, run: Path, data: LabelledData, device: torch.device, progress: Progress
) -> dict[str, float]:
    """Score the run's best checkpoint on the dev data as `cloze evaluate` does, and write the scores down."""
    best = follow(run, "best")
    stored = load_task(best)
    assert stored is not None
    task, _ = stored
    predictions = predict(
        task,
        load_model(best, task.head, verify=False).to(device),
        data.dev,
        data.dev_features,
        max_tokens=config.micro_batch_tokens,
        progress=progress,
    )
    scores = task.score(data.dev, predictions)
    described = {
        "task": task.name,
        "data": config.dev or f"held out of {config.train}",
        "examples": len(data.dev),
        "checkpoint": best.name,
        "collapse": task.collapse(data.dev, predictions),
    }
    artifacts.write_text(run / SCORES, json.dumps({**described, **scores}, indent=1) + "\n")
    return scores


def _budget(config: FinetuneConfig, steps: int) -> Budget:
    return Steps(steps) if config.budget_seconds is None else StepsWithin(steps, config.budget_seconds)


def _model_card(task: AnyTask, config: FinetuneConfig) -> str:
    """Return the README.md of a checkpoint: what it is, how it was made, how to use it."""
    return f"""---
library_name: transformers
tags: [bert, cloze]
---

# A BERT fine-tuned with cloze: {task.name}

From {config.model}, on {config.train}. `metrics.jsonl` of its run has the curves, `scores.json` its scores.

    cloze predict {task.name} -m DIR INPUT

It knows what its data say, errors and prejudice included, and nothing else.

## Settings

```toml
{to_toml(task, config).strip()}
```
"""
