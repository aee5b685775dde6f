"""Fine-tuning from labeled data to scores: one run, or several over seeds and a grid."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from cloze import config as configuration
from cloze.callbacks import Callback
from cloze.config import read_toml
from cloze.data.batch import DataPosition
from cloze.errors import InputError
from cloze.finetuning.config import FinetuneConfig, finetuning_from_dict
from cloze.finetuning.data import count_classes, keep_rows
from cloze.finetuning.hyperparameter_search import expand_grid, run_trials
from cloze.finetuning.objective import FinetuningBatches, FinetuningObjective
from cloze.finetuning.preparation import load_initial_encoder, prepare_data
from cloze.finetuning.run import build_model, train_and_score
from cloze.parallel_map import WorkerPlacement, Workers
from cloze.progress import SILENT, Progress
from cloze.tasks.config import to_toml
from cloze.tasks.data import find_files
from cloze.tasks.task import AnyTask
from cloze.training.distributed import DistributedContext, init_distributed
from cloze.training.memory import available_memory
from cloze.training.plan import PlannedPhase, RunPlan, plan_run
from cloze.training.precision import resolve_device, resolve_dtype
from cloze.training.run_directory import (
    changed_settings,
    check_output,
    create_run_directory,
    replace_settings,
    run_settings_file,
)
from cloze.training.run_lock import run_lock
from cloze.training.workers import place_workers


def finetune(
    task: AnyTask,
    config: FinetuneConfig,
    run: Path,
    *,
    workers: Workers = 1,
    overwrite: bool = False,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Fine-tune a model on a task, as `cloze.finetune` does; under torchrun, on all of its ranks.

    A run to resume gets task and settings from `resumed_settings`. Return the content of `scores.json`,
    or of `trials.json` of several runs.
    """
    placement = _place_runs(config, workers, callbacks)
    with init_distributed(placement.local_device) as context:
        progress = progress if context.is_rank_zero else SILENT
        if not resume:
            distillation = config.distillation
            read = [config.model, config.train, config.dev, distillation.teacher, distillation.unlabeled]
            context.run_on_rank_zero(lambda: check_output(run, overwrite=overwrite, inputs=read))
        prepared = prepare_data(task, config, context, progress)
        config, files = keep_rows(prepared.config, run)
        prepared = replace(prepared, config=config)
        if not config.has_trials:
            return train_and_score(
                prepared, run, progress, resume=resume, overwrite=overwrite, callbacks=callbacks, files=files
            )
        settings = to_toml(prepared.task, prepared.config)
        if not resume:
            load_initial_encoder(prepared)  # one that cannot be read is found before anything is written
            if prepared.teacher is not None:
                prepared.teacher.load_model()
        with run_lock(run, context):
            if resume:
                context.run_on_rank_zero(lambda: replace_settings(run, settings, None))
            else:
                create = partial(create_run_directory, run, settings, files=files, overwrite=overwrite)
                context.run_on_rank_zero(create)
            return run_trials(prepared, run, placement, progress, callbacks)


def resumed_settings(
    run: Path, task_name: str, settings: Mapping[str, Any], explicit: Mapping[str, Any]
) -> tuple[AnyTask, FinetuneConfig]:
    """Return the task and the settings of a run to resume, with the permitted changes.

    Args:
        settings: all that are given, also in a TOML file.
        explicit: settings of arguments, not of a recipe, which may change a setting of a single run.
    """
    file = run_settings_file(run, verb="finetune")
    saved_task, saved = finetuning_from_dict(task_name, read_toml(file), where=str(file))
    table = read_toml(file)
    configuration.merge_dicts(table, settings)
    new_task, new = finetuning_from_dict(task_name, table, where="settings")
    if (new.train, new.dev) != (saved.train, saved.dev):  # a directory, in which run.toml names the files
        train, dev = find_files(new_task, new.train, settings.get("dev", saved.dev))
        new = replace(new, train=train, dev=dev)
    of_task = configuration.differences(saved_task.to_dict(), new_task.to_dict())
    changes = configuration.differences(saved, new) | {
        f"{task_name}.{name}": pair for name, pair in of_task.items()
    }
    table = changed_settings(run, changes, {} if saved.has_trials else explicit)
    return finetuning_from_dict(task_name, table, where="settings")


def _place_runs(config: FinetuneConfig, workers: Workers, callbacks: Sequence[Callback]) -> WorkerPlacement:
    """Return where runs are made."""
    if workers != 1 and callbacks:
        remedy = "Leave out callbacks, or workers"
        raise InputError("are called in this process, not in workers", where="callbacks", remedy=remedy)
    if workers != 1 and not config.has_trials:
        remedy = "Ask for several with `seeds` or `grid`, or leave it out"
        raise InputError("one run is made in this process", where="workers", remedy=remedy)
    return place_workers(workers, config.device, items=sum(map(len, expand_grid(config).values())))


def validate(task: AnyTask, config: FinetuneConfig, *, progress: Progress) -> dict[str, Any]:
    """Read, check and tokenize all data as `finetune` does, without training; return their sizes and settings."""
    context = DistributedContext(resolve_device(config.device))
    prepared = prepare_data(task, config, context, progress)
    features = prepared.data.flat_train_features
    unlabeled = {"unlabeled_examples": len(prepared.data.unlabeled)} if prepared.data.unlabeled else {}
    return {
        "train_examples": len(prepared.data.train),
        "dev_examples": len(prepared.data.dev),
        **unlabeled,
        "train_sequences": len(features),
        "longest": max(feature.num_tokens for feature in features),
        "classes": count_classes(prepared.task, prepared.data.train),
        "settings": prepared.task.to_dict(),
    }


def plan_finetuning(task: AnyTask, config: FinetuneConfig, *, progress: Progress = SILENT) -> RunPlan:
    """Measure memory and time of a run in a few micro-batches; nothing is written.

    For several runs the first one is timed; their epochs may differ.
    """
    context = DistributedContext(resolve_device(config.device))
    prepared = prepare_data(task, config, context, progress)
    config = prepared.config
    trials = [trial for runs in expand_grid(config).values() for trial in runs]
    epochs = fmean(trial.epochs * trial.data_fraction for trial in trials)
    available = available_memory(context.device)
    model = build_model(prepared).to(context.device)
    of_first = replace(prepared, config=trials[0])
    objective, batches = FinetuningObjective(model, of_first), FinetuningBatches(of_first)
    step = batches.step_data(0.0, DataPosition(), config.micro_batch_tokens)
    if prepared.teacher is not None:
        progress.note("the outputs of the teacher are computed once before, which the estimate leaves out")
    dev_tokens = sum(feature.num_tokens for group in prepared.data.dev_features for feature in group)
    evaluations = epochs * config.evaluations_per_epoch + 1  # and one of the best checkpoint
    dtype = resolve_dtype(prepared.precision, context.device)
    return plan_run(
        objective,
        config.optimizer,
        dtype,
        [PlannedPhase(f"{epochs:g} epochs", step, round(epochs * batches.steps_per_epoch))],
        budget_seconds=config.budget_seconds,
        evaluation_tokens=evaluations * dev_tokens,
        available_memory=available,
        runs=len(trials),
        progress=progress,
    )
