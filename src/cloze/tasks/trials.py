"""Several runs on the same data: the paper's restarts over seeds, and its search over a grid of settings.

RUN/run.toml  trials.json  scores.json  best  latest
RUN/trials/batch-16_rate-2e-05_epochs-3_seed-12345/   a run each
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, groupby, product
from operator import attrgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeAlias

import torch

from cloze import artifacts
from cloze.executor import map_unordered
from cloze.locate import follow, resolve_checkpoint
from cloze.progress import SILENT, Progress
from cloze.tasks.config import FinetuneConfig, GridConfig, load_finetuning
from cloze.tasks.data import with_files
from cloze.tasks.run import SCORES, Prepared, begin_run, precompute, prepare, resume_run
from cloze.tasks.task import AnyTask
from cloze.training.checkpoints import keep_best_checkpoint
from cloze.training.distribution import World
from cloze.training.interrupts import Interrupted
from cloze.training.memory import keep_freed_memory
from cloze.training.precision import resolve_device
from cloze.training.workers import Workplace

TRIALS = "trials.json"
Results: TypeAlias = dict[str, dict[str, Any]]
"""By the name of a trial, what its `scores.json` says."""

TRIALS_FOLDER = "trials"


def trials_of(config: FinetuneConfig) -> dict[str, list[FinetuneConfig]]:
    """Return the runs that the settings ask for, by what their grid varies: as many of each as there are seeds."""
    grid = config.grid
    found = {}
    for batch_size, rate, epochs in product(
        grid.batch_sizes or (config.batch_size,),
        grid.learning_rates or (config.optimizer.learning_rate,),
        grid.epochs or (config.epochs,),
    ):
        varied = {
            "batch": (grid.batch_sizes, batch_size),
            "rate": (grid.learning_rates, rate),
            "epochs": (grid.epochs, epochs),
        }
        setting = replace(
            config,
            batch_size=batch_size,
            optimizer=replace(config.optimizer, learning_rate=rate),
            epochs=epochs,
            seeds=1,
            grid=GridConfig(),
        )
        name = "_".join(f"{key}-{value}" for key, (values, value) in varied.items() if values)
        found[name] = [replace(setting, seed=config.seed + i) for i in range(config.seeds)]
    return found


@dataclass(frozen=True, slots=True)
class _Trial:
    """One of the runs."""

    setting: str
    config: FinetuneConfig
    path: Path
    number: str
    """Of all, as in "2 of 5"."""


def make_trials(
    prepared: Prepared, config: FinetuneConfig, run: Path, workplace: Workplace, progress: Progress
) -> dict[str, float]:
    """Make the runs that are not finished yet, and sum them up in `trials.json`.

    Each keeps its best checkpoint alone; of a grid only the best run keeps one at all.

    Args:
        prepared: the data, which workers read once more.
        config: what the runs have in common, and what differs.
        run: the directory of all of them.
        workplace: where they are made; the order in which they are finished is of no consequence.
        progress: where to tell how far it is.

    Returns:
        The scores of the best run.
    """
    trials = _trials_in(run, config)
    world, metric = prepared.world, config.metric_of(prepared.task)
    finished = world.by_first(lambda: [trial for trial in trials if (trial.path / SCORES).exists()])
    to_do = [trial for trial in trials if trial not in finished]
    make = _maker(prepared, config, run, workplace, progress)
    made = map_unordered(make, to_do, workers=workplace.workers)
    results: Results = {}
    telling = nullcontext() if workplace.is_here else progress.bar("trials", total=len(trials), unit="runs")
    with telling as bar:
        for trial in chain(finished, made):
            results[trial.path.name] = world.by_first(partial(_result, trial.path))
            best = _best(prepared.task, trials, results, metric)
            if len({trial.setting for trial in trials}) > 1:
                world.by_first(partial(_keep_best_trial, trials, results, best["trial"]))
            if bar is not None:
                bar.advance(1)
                bar.show(best=f"{best[metric]:.4f}")
    world.by_first(lambda: _sum_up(prepared.task, metric, trials, results, run))
    return scores_in(best)


def _trials_in(run: Path, config: FinetuneConfig) -> list[_Trial]:
    named = [
        (setting, trial, run / TRIALS_FOLDER / "_".join(filter(None, (setting, f"seed-{trial.seed}"))))
        for setting, own in trials_of(config).items()
        for trial in own
    ]
    return [_Trial(*trial, f"{number} of {len(named)}") for number, trial in enumerate(named, 1)]


def _maker(
    prepared: Prepared, config: FinetuneConfig, run: Path, workplace: Workplace, progress: Progress
) -> Callable[[_Trial], _Trial]:
    """Return what makes a run, here or in a worker, which reads the data itself."""
    if workplace.is_here:
        return partial(_make, precompute(prepared, config, progress), progress)
    settings = (run / artifacts.RUN_CONFIG).read_text("utf-8")
    return partial(_make_in_worker, _Preparation(run, settings, workplace))


def _make(prepared: Prepared, progress: Progress, trial: _Trial) -> _Trial:
    """Make a run, or go on with what a worker that was lost, or a command that was cut off, has left of it."""
    progress.note(f"\ntrial {trial.number}: {trial.path.name}")
    is_begun = prepared.world.by_first(lambda: (trial.path / artifacts.RUN_CONFIG).exists())
    make = resume_run if is_begun else begin_run
    make(prepared, trial.config, trial.path, progress)
    return trial


@dataclass(frozen=True, slots=True)
class _Preparation:
    """How a worker comes to the data."""

    run: Path
    settings: str
    """What `run.toml` says: tells trials apart that were in the same place."""
    workplace: Workplace


def _make_in_worker(preparation: _Preparation, trial: _Trial) -> _Trial:
    try:
        return _make(_prepared_in_worker(preparation), SILENT, trial)
    except Interrupted:
        # its machine is taken away, and the state is saved: who is given the trial next goes on with it
        os._exit(1)


@lru_cache(maxsize=1)  # a worker makes many trials
def _prepared_in_worker(preparation: _Preparation) -> Prepared:
    torch.set_num_threads(preparation.workplace.threads)
    keep_freed_memory()
    task, config = load_finetuning(path=preparation.run / artifacts.RUN_CONFIG)
    config = with_files(task, config)  # the data must still be those of the run
    world = World(resolve_device(preparation.workplace.device))
    prepared = prepare(task, config, resolve_checkpoint(Path(config.model)), world, SILENT)
    return precompute(prepared, config, SILENT)


def _result(trial: Path) -> dict[str, Any]:
    keep_best_checkpoint(trial)
    return {"trial": trial.name, **json.loads((trial / SCORES).read_text("utf-8"))}


def _sum_up(task: AnyTask, metric: str, trials: Sequence[_Trial], results: Results, run: Path) -> None:
    best = _best(task, trials, results, metric)
    by_setting = groupby(trials, key=attrgetter("setting"))
    settings = [_summary(name, list(own), results) for name, own in by_setting]
    settings.sort(key=lambda setting: setting["mean"][metric], reverse=metric not in task.errors)
    summary = {
        "task": task.name,
        "data": best["data"],
        "examples": best["examples"],
        "metric": metric,
        "best": best,
        "settings": settings,
    }
    artifacts.write_text(run / TRIALS, json.dumps(summary, indent=1) + "\n")
    artifacts.write_text(run / SCORES, json.dumps(best, indent=1) + "\n")
    checkpoint = follow(run / TRIALS_FOLDER / best["trial"], "best").relative_to(run)
    for pointer in ("latest", "best"):
        artifacts.write_text(run / pointer, f"{checkpoint.as_posix()}\n")


def _best(task: AnyTask, trials: Sequence[_Trial], results: Results, metric: str) -> dict[str, Any]:
    """Return the result with the best score; of several the first in the order of the trials."""
    there = [results[trial.path.name] for trial in trials if trial.path.name in results]
    best_of = min if metric in task.errors else max
    return best_of(there, key=lambda result: result[metric])


def _keep_best_trial(trials: Sequence[_Trial], results: Results, best: str) -> None:
    """Delete the checkpoints of the others; what a worker has just finished is not yet among the results."""
    for path in (trial.path for trial in trials):
        if path.name in results and path.name != best and (path / "checkpoints").exists():
            artifacts.remove_directory(path / "checkpoints")


def _summary(name: str, trials: Sequence[_Trial], found: Results) -> dict[str, Any]:
    """Return mean and sample deviation of each score over the seeds of a setting, and its results."""
    config, results = trials[0].config, [found[trial.path.name] for trial in trials]
    columns = {score: [result[score] for result in results] for score in scores_in(results[0])}
    return {
        "setting": name,
        "batch_size": config.batch_size,
        "learning_rate": config.optimizer.learning_rate,
        "epochs": config.epochs,
        "mean": {score: fmean(values) for score, values in columns.items()},
        "deviation": {score: stdev(values) for score, values in columns.items() if len(values) > 1},
        "results": results,
    }


def scores_in(result: Mapping[str, Any]) -> dict[str, float]:
    """Return what of `scores.json` is scores."""
    return {name: value for name, value in result.items() if isinstance(value, float)}
