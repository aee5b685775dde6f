"""Fine-tuning from labeled data to scores: one run, or several over seeds and a grid of settings.

RUN/run.toml  trials.json  scores.json  best  latest  out-of-fold.csv (of a cross-validation)
RUN/trials/batch-16_rate-2e-05_epochs-3_seed-12345/   one of several runs
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, product
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cloze.artifacts import RUN_CONFIG, RUN_DATA_FOLDER
from cloze.data.reading.memory import ROWS_EXTENSION
from cloze.errors import InputError
from cloze.file_io import read_json, write_json
from cloze.finetuning.config import FinetuneConfig, GridConfig, load_finetuning
from cloze.finetuning.cross_validation import OUT_OF_FOLD, write_out_of_fold
from cloze.finetuning.data import fraction_size, sample
from cloze.finetuning.findings import count_classes, tell
from cloze.finetuning.objective import FinetuningBatches, FinetuningObjective
from cloze.finetuning.preparation import PreparedData, prepare_data
from cloze.finetuning.run import ANSWERS, SCORES, train_and_score
from cloze.metrics.regression import LOWER_IS_BETTER
from cloze.model_paths import follow_link
from cloze.parallel_map import WorkerPlacement, Workers, map_unordered
from cloze.process import configure_memory
from cloze.progress import SILENT, Progress
from cloze.tables import format_score
from cloze.tasks.answers.one_label import OneLabel
from cloze.tasks.config import to_toml
from cloze.tasks.labels import describe_classes
from cloze.tasks.task import Task
from cloze.tasks.task_batch import Scores
from cloze.training.checkpoints import keep_best_checkpoint, link_checkpoints, remove_checkpoints
from cloze.training.distributed import DistributedContext, init_distributed
from cloze.training.interrupts import Interrupted
from cloze.training.plan import RunPlan, plan_run
from cloze.training.precision import resolve_device
from cloze.training.run import Launch
from cloze.training.run_directory import (
    check_output,
    create_run_directory,
    is_run,
    replace_settings,
    run_lock,
)
from cloze.training.workers import LoadedPerWorker, place_workers

_FEW_ROWS = 64  # with fewer a class fine-tuning is no better than a logistic regression
TRIALS, TRIALS_FOLDER = "trials.json", "trials"
Results: TypeAlias = dict[str, dict[str, Any]]
"""The content of each trial's `scores.json`, by its name."""


def finetune(
    task: Task, config: FinetuneConfig, run: Path, launch: Launch = Launch(), *, workers: Workers = 1
) -> dict[str, Any]:
    """Fine-tune a model on a task, as `cloze.finetune` does; under torchrun, on all of its ranks.

    Return the content of `scores.json`, or of `trials.json` of several runs.
    """
    if workers != 1 and launch.callbacks:
        remedy = "Leave out callbacks, or workers"
        raise InputError("are called in this process, not in workers", where="callbacks", remedy=remedy)
    if workers != 1 and not config.has_trials:
        remedy = "Ask for several with `seeds`, `folds` or `grid`, or leave it out"
        raise InputError("one run is made in this process", where="workers", remedy=remedy)
    placement = place_workers(workers, config.device, items=config.num_runs)
    with init_distributed(placement.local_device) as context:
        launch = launch if context.is_rank_zero else replace(launch, progress=SILENT)
        if not launch.resume:
            distillation = config.distillation
            read = [config.model, config.train, config.dev, distillation.teacher, distillation.unlabeled]
            context.run_on_rank_zero(lambda: check_output(run, overwrite=launch.overwrite, inputs=read))
        prepared = prepare_data(task, config, context, launch.progress)
        if context.is_rank_zero:
            tell(prepared.data.findings, launch.progress)
            num_classes = len(prepared.task.answer.class_names) if isinstance(task.answer, OneLabel) else 0
            if config.head == "dense" and len(prepared.data.train) < _FEW_ROWS * num_classes:
                launch.progress.note(f"fewer than {_FEW_ROWS} rows a class: `head=logistic` is often better")
        config, files = prepared.config, dict[str, Path]()
        for name in ("train", "dev"):  # data in memory become files of the run
            source = getattr(config, name)
            if source is not None and source.endswith(ROWS_EXTENSION):
                file = f"{RUN_DATA_FOLDER}/{name}.jsonl"
                files[file] = Path(source)
                kept: dict[str, Any] = {name: str(run / file)}
                config = replace(config, **kept)
        prepared = replace(prepared, config=config)
        if not launch.resume and prepared.teacher is not None:
            prepared.teacher.load_model()  # one that cannot be read is found before anything is written
        if not config.has_trials:
            return train_and_score(prepared, run, launch, files)
        settings = to_toml(prepared.task, config)
        if not launch.resume:
            prepared.build_model()  # likewise
        with run_lock(run, context):
            if launch.resume:
                context.run_on_rank_zero(lambda: replace_settings(run, FinetuneConfig, settings, None))
            else:
                create = partial(create_run_directory, run, settings, files=files)
                context.run_on_rank_zero(partial(create, overwrite=launch.overwrite))
            return _run_trials(prepared, run, placement, launch)


def validate(task: Task, config: FinetuneConfig, *, progress: Progress) -> dict[str, Any]:
    """Read, check and tokenize all data as `finetune` does, without training; return their sizes and settings."""
    prepared = prepare_data(task, config, DistributedContext(resolve_device(config.device)), progress)
    data, features = prepared.data, prepared.data.flat_train_features
    tell(data.findings, progress, most=None)
    return {
        "train_examples": len(data.train),
        "dev_examples": len(data.dev),
        **({"unlabeled_examples": len(data.unlabeled)} if data.unlabeled else {}),
        "train_sequences": len(features),
        "longest": max(feature.num_tokens for feature in features),
        "classes": count_classes(prepared.task, data.train),
        "settings": prepared.task.to_dict(),
        "findings": [finding.to_dict() for finding in data.findings],
    }


def plan_finetuning(task: Task, config: FinetuneConfig, *, progress: Progress = SILENT) -> RunPlan:
    """Measure memory and time of a run in a few of its steps; nothing is written.

    For several runs the first one is timed; their epochs may differ.
    """
    if config.head == "logistic":
        raise InputError("logistic has no steps to time", where="head", remedy="Leave out `dry_run`")
    context = DistributedContext(resolve_device(config.device))
    prepared = prepare_data(task, config, context, progress)
    tell(prepared.data.findings, progress)
    config = prepared.config
    trials = [trial for _, trial in expand_grid(config)]
    epochs = fmean(trial.epochs * trial.data_fraction for trial in trials)
    of_first = replace(prepared, config=trials[0], data=prepared.data.in_fold(trials[0].fold))
    batches = FinetuningBatches(of_first)
    if prepared.teacher is not None:
        progress.note("the outputs of the teacher are computed once before, which the estimate leaves out")
    return plan_run(
        lambda: FinetuningObjective(prepared.build_model(), of_first),
        batches,
        replace(trials[0], precision=prepared.precision),
        [(f"{epochs:g} epochs", round(epochs * batches.steps_per_epoch), 1.0)],
        context,
        evaluations=epochs * config.evaluations_per_epoch + 1,  # and one of the best checkpoint
        runs=len(trials),
        progress=progress,
    )


def expand_grid(config: FinetuneConfig) -> list[tuple[str, FinetuneConfig]]:
    """Return the settings of all runs, each with the name of its grid point, which has a run per seed and fold."""
    grid = config.grid
    axes: dict[str, tuple[Any, Any]] = {
        "batch": (grid.batch_sizes, config.batch_size),
        "rate": (grid.learning_rates, config.optimizer.learning_rate),
        "epochs": (grid.epochs, config.epochs),
        "fraction": (grid.data_fractions, config.data_fraction),
    }
    runs = []
    for point in product(*(values or (single,) for values, single in axes.values())):
        batch_size, rate, epochs, fraction = point
        name = "_".join(f"{axis}-{value}" for axis, value in zip(axes, point, strict=True) if axes[axis][0])
        optimizer = replace(config.optimizer, learning_rate=rate)
        changes = {"batch_size": batch_size, "epochs": epochs, "data_fraction": fraction}
        setting = replace(config, **changes, optimizer=optimizer, seeds=1, grid=GridConfig())
        folds = range(1, config.folds + 1) if config.folds > 1 and config.fold is None else [config.fold]
        runs += [
            (name, replace(setting, seed=config.seed + i, fold=fold))
            for i, fold in product(range(config.seeds), folds)
        ]
    return runs


class _Trial(NamedTuple):
    setting: str
    config: FinetuneConfig
    path: Path
    number: str
    """For example "2 of 5"."""


def _run_trials(
    prepared: PreparedData, run: Path, placement: WorkerPlacement, launch: Launch
) -> dict[str, Any]:
    """Make the runs that are not finished yet, in any order; summarize all in `trials.json`, and return its content.

    Each keeps its best checkpoint alone; of a grid only the best run keeps one at all.
    """
    settings = expand_grid(prepared.config)
    trials = []
    for number, (setting, config) in enumerate(settings, 1):
        fold = None if config.fold is None else f"fold-{config.fold}"
        name = "_".join(filter(None, (setting, f"seed-{config.seed}", fold)))
        trials.append(_Trial(setting, config, run / TRIALS_FOLDER / name, f"{number} of {len(settings)}"))
    context, metric = prepared.context, prepared.metric
    finished = context.run_on_rank_zero(lambda: [trial for trial in trials if (trial.path / SCORES).exists()])
    unfinished = [trial for trial in trials if trial not in finished]
    if unfinished:
        prepared = prepared.with_teacher_outputs(run, launch.progress)
    if placement.in_process:
        make = partial(_run_trial, prepared, launch)
    else:
        load = partial(_prepare_in_worker, run, placement.device)
        make = partial(_run_trial_in_worker, LoadedPerWorker(load, placement.threads))
    made = map_unordered(make, unfinished, workers=placement.workers)
    results: Results = {}  # of rank zero

    def finish(trial: _Trial) -> str:
        """Delete checkpoints that are not kept; return the best score so far."""
        keep_best_checkpoint(trial.path)
        scores = {
            name: value
            for name, value in read_json(trial.path / SCORES).items()
            if not isinstance(value, dict)
        }
        undefined = {name: math.nan for name, value in scores.items() if value is None}
        results[trial.path.name] = {"trial": trial.path.name, **scores, **undefined}
        best = _best(trials, results, metric)
        if prepared.config.grid.size > 1:
            for other in trials:  # unfinished ones may still be running
                if other.path.name in results and other.path.name != best["trial"]:
                    remove_checkpoints(other.path)
        return format_score(best[metric])

    shown = SILENT if placement.in_process else launch.progress  # a run in this process shows its own bar
    with shown.bar("trials", total=len(trials), unit="runs") as bar:
        for trial in chain(finished, made):
            best = context.run_on_rank_zero(partial(finish, trial))
            bar.advance(1)
            bar.show(best=best)
    return context.run_on_rank_zero(lambda: _summarize(prepared, trials, results, run))


def _run_trial(prepared: PreparedData, launch: Launch, trial: _Trial) -> _Trial:
    """Make a run, or resume one of a worker that was lost or a command that was interrupted."""
    launch.progress.note(f"\ntrial {trial.number}: {trial.path.name}")
    resume = prepared.context.run_on_rank_zero(lambda: is_run(trial.path))
    data = prepared.data.in_fold(trial.config.fold)
    if prepared.config.grid.data_fractions:
        size = fraction_size(len(data.train), trial.config.data_fraction)
        pairs = sample(list(zip(data.train, data.train_features, strict=True)), size)
        train, features = ([pair[i] for pair in pairs] for i in (0, 1))
        data = replace(data, train=train, train_features=features)
        if counts := count_classes(prepared.task, data.train):
            launch.progress.note(describe_classes(counts))
    of_trial = replace(prepared, config=trial.config, data=data)
    train_and_score(of_trial, trial.path, replace(launch, resume=resume, overwrite=False))
    return trial


def _run_trial_in_worker(prepared: LoadedPerWorker[PreparedData], trial: _Trial) -> _Trial:
    try:
        return _run_trial(prepared.get(), Launch(), trial)
    except Interrupted:
        # The worker is terminated, and the state is saved: the next worker that gets the trial resumes it.
        os._exit(1)


def _prepare_in_worker(run: Path, device: str) -> PreparedData:
    configure_memory()
    task, config = load_finetuning(run / RUN_CONFIG)
    prepared = prepare_data(task, config, DistributedContext(resolve_device(device)), SILENT)
    return prepared.with_teacher_outputs(run, SILENT)


def _summarize(
    prepared: PreparedData, trials: Sequence[_Trial], results: Results, run: Path
) -> dict[str, Any]:
    """Write `trials.json`, `scores.json` and the links of the whole directory; return the summary."""
    metric = prepared.metric
    best = _best(trials, results, metric)
    settings: list[dict[str, Any]] = []
    for name, group in groupby(trials, key=attrgetter("setting")):
        of_setting = list(group)
        config, scored = of_setting[0].config, [results[trial.path.name] for trial in of_setting]
        columns = {score: [result[score] for result in scored] for score in extract_scores(scored[0])}
        setting = {
            "setting": name,
            "batch_size": config.batch_size,
            "learning_rate": config.optimizer.learning_rate,
            "epochs": config.epochs,
        }
        if prepared.config.grid.data_fractions:
            size = fraction_size(len(prepared.data.train), config.data_fraction)
            setting |= {"data_fraction": config.data_fraction, "train_examples": size}
        setting["mean"] = {score: fmean(values) for score, values in columns.items()}
        several = columns if len(scored) > 1 else {}
        setting["deviation"] = {score: float(np.std(values, ddof=1)) for score, values in several.items()}
        settings.append({**setting, "results": scored})
    settings.sort(key=lambda setting: _rank(metric, setting["mean"]), reverse=True)
    first = {key: best[key] for key in ("data", "examples")}
    if folds := prepared.data.folds:
        first = {"data": f"{prepared.config.folds} folds of {prepared.config.train}", "examples": len(folds)}
        of_best = [trial for trial in trials if trial.setting == settings[0]["setting"]]
        answers = {t.config.fold: t.path / ANSWERS for t in of_best[: prepared.config.folds]}  # of one seed
        first["out_of_fold"] = str(run / OUT_OF_FOLD)
        first["suspects"] = write_out_of_fold(prepared.task, folds, answers, run / OUT_OF_FOLD)
    summary = {"task": prepared.task.name, **first, "metric": metric, "best": best, "settings": settings}
    scores = {**best, **read_json(run / TRIALS_FOLDER / best["trial"] / SCORES)}
    checkpoint = follow_link(run / TRIALS_FOLDER / best["trial"], "best").relative_to(run).as_posix()
    link_checkpoints(run, checkpoint, checkpoint)
    write_json(run / SCORES, scores)
    write_json(run / TRIALS, summary)
    return summary


def _best(trials: Sequence[_Trial], results: Results, metric: str) -> dict[str, Any]:
    """Return the result with the best score; among equals the first trial."""
    finished = [results[trial.path.name] for trial in trials if trial.path.name in results]
    return max(finished, key=partial(_rank, metric))


def _rank(metric: str, scores: Mapping[str, Any]) -> float:
    """Return a number that is larger for better scores, and least for undefined ones."""
    value = float(scores[metric])
    return -math.inf if math.isnan(value) else -value if metric in LOWER_IS_BETTER else value


def extract_scores(result: Mapping[str, Any]) -> Scores:
    """Return the scores in the content of `scores.json`."""
    return {name: value for name, value in result.items() if isinstance(value, float)}


def scores_of_report(report: Mapping[str, Any]) -> Scores:
    """Return the scores in `scores.json`, or those of the best run in `trials.json`."""
    return extract_scores(report.get("best", report))
