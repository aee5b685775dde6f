"""One fine-tuning run, from data that are read to a scored model."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cloze import artifacts
from cloze.corpus.streams import file_sha256
from cloze.errors import InputError
from cloze.locate import follow
from cloze.model.bert import BertModel
from cloze.model.checkpoint import TASK_FILE, load_config, load_model, write_model_files
from cloze.progress import Progress
from cloze.tasks.config import FinetuneConfig, TaskSettings, load_task, to_toml
from cloze.tasks.data import LabelledData, read_data
from cloze.tasks.predict import predict
from cloze.tasks.task import AnyTask
from cloze.tasks.work import FinetuningWork
from cloze.text.tokenizer import Tokenizer
from cloze.training.budget import Budget, Steps, StepsWithin
from cloze.training.checkpoints import (
    TrainingState,
    check_fixed,
    newest_checkpoint,
    optimizer_averages,
    read_state,
    save_checkpoint,
)
from cloze.training.distribution import World
from cloze.training.environment import write_environment
from cloze.training.loop import EvaluationConfig, Trainer
from cloze.training.measures import Sums
from cloze.training.metrics_log import VALIDATION, MetricsLog
from cloze.training.model_card import CARD, CardFacts, DataUsed, model_card
from cloze.training.optimizer import build_optimizer
from cloze.training.precision import resolve_dtype
from cloze.training.replicas import gather
from cloze.training.run_lock import alone_at, check_nobody_is_at

SCORES = "scores.json"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the runs of one command share: the data, read and tokenized, and the model that they start from."""

    task: AnyTask
    data: LabelledData
    tokenizer: Tokenizer
    start: Path
    world: World


def prepare(task: AnyTask, config: FinetuneConfig, model: Path, world: World, progress: Progress) -> Prepared:
    """Read and check all data.

    Args:
        task: what is learned.
        config: with files, as `with_files` names them.
        model: the checkpoint whose tokenizer is taken: that to start from, or one of the run.
        world: the ranks that will train.
        progress: where to tell how far it is.

    Raises:
        InputError: a line of the data is wrong, there is no such model or score, or the ranks cannot share its
            batches.
    """
    config.metric_of(task)
    world.check_width(config.grid.batch_sizes or [config.batch_size])
    if task.compares_examples and world.size > 1:
        what = f"{world.size} ranks cannot share a batch whose examples are compared with each other"
        raise InputError(what, where=task.name, remedy="Start 1")
    if task.compares_examples and min(config.grid.batch_sizes or [config.batch_size]) == 1:
        what = "a batch of 1 holds nothing to compare an example with"
        raise InputError(what, where=task.name, remedy="Say --set batch_size=64")
    limit = load_config(model).max_position_embeddings
    tokenizer = Tokenizer.load(model)
    if config.max_seq_length > limit:
        what = f"max_seq_length {config.max_seq_length}, the model takes {limit} tokens"
        raise InputError(what, where=config.model, remedy=f"Say --set max_seq_length={limit}")
    task, data = read_data(task.begun_from(model), config, tokenizer, progress)
    return Prepared(task, data, tokenizer, model, world)


def precompute(prepared: Prepared, config: FinetuneConfig, progress: Progress) -> Prepared:
    """Return the same with what a part of the model that does not learn says of the data, where there is one."""

    @cache
    def encoder() -> BertModel:
        return load_model(prepared.start).to(prepared.world.device)

    task, data = prepared.task, prepared.data
    train_features, dev_features = (
        task.prepared(features, encoder, max_tokens=config.micro_batch_tokens, progress=progress)
        for features in (data.train_features, data.dev_features)
    )
    return replace(prepared, data=replace(data, train_features=train_features, dev_features=dev_features))


def begin_run(prepared: Prepared, config: FinetuneConfig, run: Path, progress: Progress) -> dict[str, float]:
    """Make one run, in a directory that is free or holds one to be replaced.

    Raises:
        InputError: the model to start from cannot be read; nothing was written.
    """
    task = prepared.task
    generator = torch.Generator().manual_seed(config.seed)
    model = task.head(load_model(prepared.start), generator=generator).train()
    prepared.world.by_first(lambda: begin_directory(task, config, run))
    with alone_at(run, prepared.world):
        return _train(prepared, config, run, model, TrainingState(fixed=_fixed(config)), None, progress)


def begin_directory(task: AnyTask, config: FinetuneConfig, run: Path) -> None:
    """Make a run's directory, with its settings alone.

    Raises:
        InputError: another process is at the run that is there, or a setting is no text.
    """
    check_nobody_is_at(run)
    settings = to_toml(task, config)
    artifacts.clear_directory(run)
    artifacts.write_text(run / artifacts.RUN_CONFIG, settings)


def resume_run(prepared: Prepared, config: FinetuneConfig, run: Path, progress: Progress) -> dict[str, float]:
    """Go on with a run from its newest checkpoint that is whole, or from the start where there is none."""
    checkpoint = prepared.world.by_first(lambda: newest_checkpoint(run, progress))
    if checkpoint is None:
        return begin_run(prepared, config, run, progress)
    with alone_at(run, prepared.world):
        model, state = load_model(checkpoint, prepared.task.head, verify=False), read_state(checkpoint)
        check_fixed(state, _fixed(config), run)
        return _train(prepared, config, run, model, state, checkpoint, progress)


def _fixed(config: FinetuneConfig) -> dict[str, Any]:
    """Return what says which examples a run draws, and when: with another it would not go on but become another."""
    names = (
        "seed",
        "epochs",
        "batch_size",
        "budget_seconds",
        "max_seq_length",
        "train_examples",
        "dev_fraction",
    )
    return {name: getattr(config, name) for name in names}


def _train(
    prepared: Prepared,
    config: FinetuneConfig,
    run: Path,
    model: nn.Module,
    state: TrainingState,
    checkpoint: Path | None,
    progress: Progress,
) -> dict[str, float]:
    task, world = prepared.task, prepared.world
    compute_dtype = resolve_dtype(config.precision, world.device)
    work = FinetuningWork(task=task, data=prepared.data, config=config, world=world)
    world.by_first(lambda: write_environment(run, world, compute_dtype, progress))
    facts = _card_facts(task, config, prepared.data)
    settings = TaskSettings(max_seq_length=config.max_seq_length)

    def write_model(directory: Path, model: nn.Module, state: TrainingState) -> None:
        write_model_files(
            directory, model, prepared.tokenizer, labels=task.class_names, problem_type=task.problem_type
        )
        work.task.write_beside(directory, model, max_seq_length=config.max_seq_length)
        (directory / TASK_FILE).write_text(to_toml(work.task, settings), encoding="utf-8")
        (directory / CARD).write_text(model_card(facts, model, run, state), encoding="utf-8")

    model.to(world.device)
    if task.is_solved:
        if checkpoint is None:
            world.by_first(lambda: _solve(work, model, run, write_model))
        return world.by_first(lambda: _score_best(prepared, config, run, progress))
    trainer = Trainer(
        model=model,
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
        micro_batch_tokens=config.micro_batch_tokens,
        progress=progress,
        world=world,
        distribution_config=config.distribution,
        state=state,
    )
    trainer.train(resume_from=checkpoint)
    return world.by_first(lambda: _score_best(prepared, config, run, progress))


def _solve(
    work: FinetuningWork,
    model: nn.Module,
    run: Path,
    write_model: Callable[[Path, nn.Module, TrainingState], None],
) -> None:
    """Find what is learned at once, and leave what a run of one step would: its line of the log, its checkpoint."""
    started = time.monotonic()
    work.task.solve(model, work.features)
    model.eval()
    sums = Sums()
    with torch.inference_mode():
        for measures in work.evaluate(model):
            sums.add(measures)
    measured = sums.means(work.losses)
    state = TrainingState(
        step=1,
        elapsed_seconds=time.monotonic() - started,
        tokens=sum(feature.num_tokens for feature in work.features),
        best_merit=work.merit(measured),
        best_step=1,
    )
    log = MetricsLog(run, resume_step=0)
    log.write(VALIDATION, 1, **measured, seconds=state.elapsed_seconds)
    log.close()
    averages = optimizer_averages(model, build_optimizer(model, work.config.optimizer))
    save_checkpoint(
        run, state, gather(averages, keep=True), lambda directory: write_model(directory, model, state)
    )


def _score_best(
    prepared: Prepared, config: FinetuneConfig, run: Path, progress: Progress
) -> dict[str, float]:
    """Score the run's best checkpoint on the dev data as `cloze evaluate` does, and write the scores down."""
    data = prepared.data
    best = follow(run, "best")
    stored = load_task(best)
    assert stored is not None
    task, _ = stored
    predictions = predict(
        task,
        load_model(best, task.head, verify=False).to(prepared.world.device),
        data.dev,
        data.dev_features,
        max_tokens=config.micro_batch_tokens,
        progress=progress,
    )
    scores = task.score(data.dev, predictions)
    described: dict[str, str | int] = {
        "task": task.name,
        "data": config.dev or f"held out of {config.train}",
        "examples": len(data.dev),
        "checkpoint": best.name,
    }
    if collapse := task.collapse(data.dev, predictions):
        described["collapse"] = collapse
    artifacts.write_text(run / SCORES, json.dumps({**described, **scores}, indent=1) + "\n")
    return scores


def _budget(config: FinetuneConfig, steps: int) -> Budget:
    return Steps(steps) if config.budget_seconds is None else StepsWithin(steps, config.budget_seconds)


def _card_facts(task: AnyTask, config: FinetuneConfig, data: LabelledData) -> CardFacts:
    """Return what the model card says of the run before it has begun."""
    train = _data_used("learned from", config.train, len(data.train))
    if config.dev is None:
        measured_on, used = f"{len(data.dev):,} examples held out of `{config.train}`", [train]
    else:
        measured_on = f"the {len(data.dev):,} examples of `{config.dev}`"
        used = [train, _data_used("scored on", config.dev, len(data.dev))]
    return CardFacts(
        title=f"A BERT fine-tuned with cloze: {task.name}",
        summary=f"From `{config.model}`, for the task {task.name} ({task.source}).",
        use=f"cloze predict {task.name} -m DIR INPUT\ncloze evaluate {task.name} -m DIR -d LABELLED",
        data=used,
        measured_on=measured_on,
        intended_use=f"The task {task.name}, on texts like those it learned from. Where an answer matters to someone, "
        "a person should decide.",
        limits=f"It reads {config.max_seq_length} tokens at once; longer texts are cut or read in windows, as the task "
        "says. The checkpoint called best was chosen by these scores, so they flatter it a little.",
        license=config.license,
        pipeline_tag=None,
        settings=to_toml(task, config),
    )


def _data_used(role: str, name: str, num_examples: int) -> DataUsed:
    return DataUsed(role=role, name=name, extent=f"{num_examples:,} examples", sha256=file_sha256(name))
