"""Several runs on the same data: the paper's restarts over seeds, and its search over a grid of settings.

RUN/run.toml  trials.json  scores.json  best  latest
RUN/trials/batch-16_rate-2e-05_epochs-3_seed-12345/   a run each
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from cloze import artifacts
from cloze.progress import Progress
from cloze.tasks.config import FinetuneConfig, GridConfig
from cloze.tasks.run import SCORES, Prepared, begin_run, resume_run
from cloze.training.checkpoints import follow, keep_best_checkpoint

TRIALS = "trials.json"

_FOLDER = "trials"


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
            "rate": (grid.learning_rates, f"{rate:g}"),
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


def make_trials(
    prepared: Prepared, config: FinetuneConfig, run: Path, progress: Progress
) -> dict[str, float]:
    """Make the runs that are not finished yet, one after the other, and sum them up in `trials.json`.

    Each keeps its best checkpoint alone; of a grid only the best run keeps one at all.

    Returns:
        The scores of the best run.
    """
    settings = trials_of(config)
    world = prepared.world
    total = sum(map(len, settings.values()))
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in settings}
    for name, trials in settings.items():
        for trial in trials:
            path = run / _FOLDER / "_".join(filter(None, (name, f"seed-{trial.seed}")))
            is_finished, is_begun = world.by_first(partial(_progress_of, path))
            if not is_finished:
                number = 1 + sum(map(len, results.values()))
                progress.note(f"\ntrial {number} of {total}: {path.name}")
                make = resume_run if is_begun else begin_run
                make(prepared, trial, path, progress)
            results[name].append(world.by_first(partial(_result, path)))
            if len(settings) > 1:
                best_trial = _best(results, prepared.task.main_metric)["trial"]
                world.by_first(partial(_keep_best_trial, run, best_trial))
    world.by_first(lambda: _sum_up(prepared, settings, results, run))
    return scores_in(_best(results, prepared.task.main_metric))


def _progress_of(trial: Path) -> tuple[bool, bool]:
    """Return whether a trial is finished, and whether it is begun."""
    return (trial / SCORES).exists(), (trial / artifacts.RUN_CONFIG).exists()


def _result(trial: Path) -> dict[str, Any]:
    keep_best_checkpoint(trial)
    return {"trial": trial.name, **json.loads((trial / SCORES).read_text("utf-8"))}


def _sum_up(
    prepared: Prepared,
    settings: Mapping[str, Sequence[FinetuneConfig]],
    results: Mapping[str, Sequence[dict[str, Any]]],
    run: Path,
) -> None:
    best = _best(results, prepared.task.main_metric)
    summary = {
        "task": prepared.task.name,
        "data": best["data"],
        "examples": best["examples"],
        "metric": prepared.task.main_metric,
        "best": best,
        "settings": [_summary(name, trials[0], results[name]) for name, trials in settings.items()],
    }
    artifacts.write_text(run / TRIALS, json.dumps(summary, indent=1) + "\n")
    artifacts.write_text(run / SCORES, json.dumps(best, indent=1) + "\n")
    checkpoint = follow(run / _FOLDER / best["trial"], "best").relative_to(run)
    for pointer in ("latest", "best"):
        artifacts.write_text(run / pointer, f"{checkpoint.as_posix()}\n")


def _best(results: Mapping[str, Sequence[dict[str, Any]]], metric: str) -> dict[str, Any]:
    """Return the result with the highest score, the first of several."""
    return max((result for own in results.values() for result in own), key=lambda result: result[metric])


def _keep_best_trial(run: Path, best: str) -> None:
    for path in (run / _FOLDER).iterdir():
        if path.name != best and (path / SCORES).exists() and (path / "checkpoints").exists():
            artifacts.remove_directory(path / "checkpoints")


def _summary(name: str, config: FinetuneConfig, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and sample deviation of each score over the seeds of a setting, and its results."""
    columns = {score: [result[score] for result in results] for score in scores_in(results[0])}
    return {
        "setting": name,
        "batch_size": config.batch_size,
        "learning_rate": config.optimizer.learning_rate,
        "epochs": config.epochs,
        "mean": {score: fmean(values) for score, values in columns.items()},
        "deviation": {score: stdev(values) for score, values in columns.items() if len(values) > 1},
        "results": list(results),
    }


def scores_in(result: Mapping[str, Any]) -> dict[str, float]:
    """Return what of `scores.json` is scores."""
    return {name: value for name, value in result.items() if isinstance(value, float)}
