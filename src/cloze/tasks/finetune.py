"""Fine-tuning from labelled data to scores: one run, or several over seeds and settings."""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from cloze import artifacts
from cloze.config import to_table
from cloze.errors import InputError
from cloze.executor import Workers
from cloze.extras import require
from cloze.locate import resolve_checkpoint
from cloze.model.checkpoint import load_model
from cloze.progress import SILENT, Progress
from cloze.tasks.config import FinetuneConfig, load_finetuning
from cloze.tasks.data import with_files
from cloze.tasks.run import begin_directory, begin_run, precompute, prepare, resume_run
from cloze.tasks.task import AnyTask
from cloze.tasks.trials import make_trials, trials_of
from cloze.tasks.work import FinetuningWork
from cloze.training.checkpoints import Position, newest_checkpoint
from cloze.training.cost import Workload
from cloze.training.distribution import World, join_world
from cloze.training.memory import available_memory
from cloze.training.plan import MemoryPlan, Rehearsal, RunPlan, Stretch, evaluation_seconds, plan_memory
from cloze.training.precision import resolve_device, resolve_dtype
from cloze.training.workers import Workplace, find_workplace


def finetune(
    task: AnyTask,
    config: FinetuneConfig,
    run: Path,
    *,
    workers: Workers = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> dict[str, float]:
    """Fine-tune a model on a task; under torchrun, on all of its ranks.

    All data are read, checked and tokenized before the first step.

    Args:
        task: what is learned, with its settings.
        config: how; `run.toml` keeps both.
        run: directory of the run. Where there are several, over seeds or a grid, each has its own in `trials`.
        workers: where several runs are made: one after the other in this process, or side by side in processes of a
            machine without an accelerator, or on a cluster, each with the threads that it has there.
        overwrite: replace the run that is there.
        progress: where to tell how far it is.

    Returns:
        The scores of the best checkpoint, of all runs, on the dev data, as `scores.json` keeps them.

    Raises:
        InputError: a setting, a line of the data or the model to start from is wrong; nothing was written.
        Interrupted: SIGINT or SIGTERM came, and the state was saved.
        RunError: the loss stayed infinite or NaN, the disk is full, or a rank or a worker was lost.

    Source:
        Devlin et al. 2019, 4; google-research/bert run_classifier.py @eedf571.

    Differs:
        The last batch of an epoch has what is left, where Google's code fills it from the next epoch.
    """
    run = Path(run)
    workplace = _workplace(config, workers)
    with join_world(workplace.device_here) as world:
        progress = progress if world.is_first else SILENT
        if world.restarts and world.by_first(lambda: _is_run_of(task, with_files(task, config), run)):
            return _resume(task, with_files(task, config), run, world, workplace, progress)
        inputs = [config.model, config.train, config.dev]
        world.by_first(
            lambda: artifacts.refuse_existing(
                run, overwrite=overwrite, inputs=inputs, resume_hint=", go on with --resume"
            )
        )
        check_task(task)
        _check_trials(task, config)
        config = with_files(task, config)
        start = resolve_checkpoint(Path(config.model))
        prepared = prepare(task, config, start, world, progress)
        if not config.has_trials:
            return begin_run(precompute(prepared, config, progress), config, run, progress)
        load_model(prepared.start)  # so that one which cannot be read is found before anything is written
        world.by_first(lambda: begin_directory(prepared.task, config, run))
        return make_trials(prepared, config, run, workplace, progress)


def _workplace(config: FinetuneConfig, workers: Workers) -> Workplace:
    """Return where runs are made.

    Raises:
        InputError: there is only one for several workers, or they cannot have the device.
    """
    if workers != 1 and not config.has_trials:
        remedy = "Ask for several with --seeds or --grid, or leave --workers and --executor out"
        raise InputError("one run is made in this process", where="workers", remedy=remedy)
    return find_workplace(workers, config.device, items=sum(map(len, trials_of(config).values())))


def _is_run_of(task: AnyTask, config: FinetuneConfig, run: Path) -> bool:
    """Return whether a run was begun with these settings: torchrun repeats its command, which then goes on."""
    if not (run / artifacts.RUN_CONFIG).is_file():
        return False
    begun, settings = load_finetuning(path=run / artifacts.RUN_CONFIG)
    return type(begun) is type(task) and settings == config


def resume_finetuning(
    run: Path, task_name: str | None = None, *, workers: Workers = 1, progress: Progress = SILENT
) -> dict[str, float]:
    """Go on with a run from its newest checkpoint that is whole, with the settings it was started with.

    Args:
        run: directory of the run.
        task_name: what it must be for; None takes its word for it.
        workers: as of `finetune`, but not necessarily those that it was begun with.
        progress: where to tell how far it is.

    Raises:
        InputError: `run` is not a run of `finetune`, or is for another task, or its data are not those it began with.
    """
    run = Path(run)
    if not (run / artifacts.RUN_CONFIG).is_file():
        what = f"no run to resume: it has no {artifacts.RUN_CONFIG}"
        raise InputError(what, where=run, remedy="Leave out --resume")
    task, config = load_finetuning(task_name, run / artifacts.RUN_CONFIG)
    workplace = _workplace(config, workers)
    with join_world(workplace.device_here) as world:
        progress = progress if world.is_first else SILENT
        return _resume(task, with_files(task, config), run, world, workplace, progress)


def _resume(
    task: AnyTask, config: FinetuneConfig, run: Path, world: World, workplace: Workplace, progress: Progress
) -> dict[str, float]:
    check_task(task)
    start = resolve_checkpoint(Path(config.model))
    if config.has_trials:
        prepared = prepare(task, config, start, world, progress)
        return make_trials(prepared, config, run, workplace, progress)
    model = world.by_first(lambda: newest_checkpoint(run, progress)) or start
    prepared = precompute(prepare(task, config, model, world, progress), config, progress)
    return resume_run(prepared, config, run, progress)


@dataclass(frozen=True, slots=True)
class DataReport:
    """What a run would learn from."""

    train_examples: int
    dev_examples: int
    train_sequences: int
    longest: int
    """Tokens of the longest sequence, or of those that are scored together."""
    settings: dict[str, Any]
    """The task's own, with what the training data tell of it."""


def validate(task: AnyTask, config: FinetuneConfig, *, progress: Progress = SILENT) -> DataReport:
    """Read, check and tokenize all data as `finetune` does, and stop there.

    Raises:
        InputError: a setting or a line of the data is wrong; the first such is named.
    """
    check_task(task)
    _check_trials(task, config)
    config = with_files(task, config)
    world = World(resolve_device(config.device))
    prepared = prepare(task, config, resolve_checkpoint(Path(config.model)), world, progress)
    sequences = [feature for own in prepared.data.train_features for feature in own]
    return DataReport(
        len(prepared.data.train),
        len(prepared.data.dev),
        len(sequences),
        max(sequence.num_tokens for sequence in sequences),
        to_table(prepared.task),
    )


def plan_finetuning(task: AnyTask, config: FinetuneConfig, *, progress: Progress = SILENT) -> RunPlan:
    """Say whether a run fits in memory and how long it will take, from a few micro-batches; nothing is written.

    Of several runs, over seeds or a grid, the first tells of the others, but for their epochs.

    Raises:
        InputError: as `finetune`; or the encoder does not learn, so that there is little to plan.
    """
    check_task(task)
    if not task.encoder_learns:
        raise InputError("its encoder does not learn: there is little to plan", where=task.name)
    config = with_files(task, config)
    world = World(resolve_device(config.device))
    prepared = prepare(task, config, resolve_checkpoint(Path(config.model)), world, progress)
    prepared = precompute(prepared, config, progress)
    trials = [trial for own in trials_of(config).values() for trial in own]
    epochs = fmean(trial.epochs for trial in trials)
    dtype = resolve_dtype(config.precision, world.device)
    available = available_memory(world.device)
    generator = torch.Generator().manual_seed(config.seed)
    encoder = load_model(prepared.start)
    model = prepared.task.head(encoder, generator=generator).to(world.device)
    work = FinetuningWork(task=prepared.task, data=prepared.data, config=trials[0], world=world)
    step = work.step_data(0.0, Position(), config.micro_batch_tokens)
    micro_batches = [Workload.of_packed(batch.packed) for batch in step.batches]
    rehearsal = Rehearsal(model, work, config.optimizer, dtype)

    def memory() -> MemoryPlan:
        return plan_memory(
            model, encoder.config, micro_batches, dtype, rehearsal.optimizer, available=available
        )

    stretches: tuple[Stretch, ...] = ()
    if memory().fits:
        progress.note("timing steps")
        seconds = rehearsal.step_seconds(step)
        steps = round(epochs * work.steps_per_epoch)
        if config.budget_seconds is not None:
            steps = min(steps, int(config.budget_seconds / seconds))
        stretches = (Stretch(f"{epochs:g} epochs", steps, step.num_tokens, seconds),)
    dev_tokens = sum(feature.num_tokens for own in prepared.data.dev_features for feature in own)
    evaluations = epochs * config.evaluations_per_epoch + 1  # and the best checkpoint's
    return RunPlan(
        device=str(world.device),
        dtype=str(dtype).removeprefix("torch."),
        memory=memory(),
        stretches=stretches,
        evaluation_seconds=evaluations * evaluation_seconds(dev_tokens, stretches),
        runs=len(trials),
    )


def check_task(task: AnyTask) -> None:
    """Refuse a task that nothing can be learned of, or scored.

    Raises:
        InputError: it has no data of its own, or an optional package is not installed.
    """
    if task.trained_as is not None:
        remedy = f"Fine-tune {task.trained_as}: its models answer {task.name}, too"
        raise InputError("has no data to learn from", where=task.name, remedy=remedy)
    require(task.libraries, extra="tasks", where=task.name)


def _check_trials(task: AnyTask, config: FinetuneConfig) -> None:
    """Refuse several runs of what is computed and has no chance in it: they would all be the same."""
    if task.is_solved and config.has_trials:
        remedy = "Leave out --seeds and --grid"
        raise InputError("is the same for every seed and rate", where=task.name, remedy=remedy)
