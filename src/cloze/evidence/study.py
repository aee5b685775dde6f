"""A study: runs of pre-training that differ in what is asked about, over the same seeds, and the record of them.

A study is a TOML file: settings of every run, and by name the variants, each with the settings of its own. Runs are
made seed by seed, so that a study that was stopped compares what it has. Whatever stops it, the same command goes on.

    OUT/runs/VARIANT/seed-1/{run.toml, metrics.jsonl, checkpoints, …, outcome.json}
    OUT/record/{README.md, curves.svg, study.toml, results.json, environment.json}
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cloze import artifacts
from cloze import config as configuration
from cloze.corpus.pairs import PairsConfig
from cloze.errors import InputError, RunError
from cloze.evidence.study_record import Compared, write_study_record
from cloze.metrics.libraries import require
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.evaluate import PretrainingEvaluationConfig, evaluate_pretrained
from cloze.pretraining.run import pretrain, resume_pretraining
from cloze.progress import SILENT, Progress, clock
from cloze.training.interrupts import Interrupted
from cloze.training.metrics_log import METRICS, read_metrics

_OUTCOME = "outcome.json"
_MEASURED_INSTANCES = 2000  # at the end of a run; its curve may be of fewer
_NAME = re.compile(r"[A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Study:
    """What is compared."""

    title: str
    base: str
    """The variant that the others are compared with."""
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    """Of every run, as in a recipe."""
    variants: Mapping[str, Mapping[str, Any]]
    """By name, what a variant sets beside these or otherwise."""

    def config(self, variant: str, seed: int, data: Path) -> PretrainConfig:
        """Return the settings of a run.

        Raises:
            InputError: one of them is wrong.
        """
        table = deepcopy(dict(self.settings))
        configuration.merge(table, deepcopy(dict(self.variants[variant])))
        configuration.merge(table, {"data": str(data), "seed": seed})
        return configuration.from_table(PretrainConfig, table, where=f"the variant {variant}")


def read_study(path: Path, overrides: Sequence[str] = ()) -> Study:
    """Read a study.

    Args:
        path: the TOML file.
        overrides: settings of every run, as in "budget_seconds=600"; those of a variant are stronger.

    Raises:
        InputError: a key is unknown or missing, or the base is none of the variants.
    """
    table = configuration.read_toml(path)
    wanted = {"title": str, "base": str, "seeds": list, "settings": dict, "variants": dict}
    for key in table.keys() | wanted.keys():
        if key not in wanted:
            raise InputError(f"unknown key {key}", where=path, remedy=f"A study has {', '.join(wanted)}")
        if not isinstance(table.get(key), wanted[key]):
            raise InputError(f"{key} is missing or of another type than a study's", where=path)
    seeds, variants = table["seeds"], table["variants"]
    if not seeds or not all(isinstance(seed, int) for seed in seeds) or len(set(seeds)) < len(seeds):
        raise InputError("seeds must be different whole numbers", where=path)
    if table["base"] not in variants:
        raise InputError(f"base {table['base']!r} is none of the variants", where=path)
    for name, variant in variants.items():
        if not _NAME.fullmatch(name):
            raise InputError(
                f"the variant {name!r} has not only letters, digits and - in its name", where=path
            )
        if not isinstance(variant, dict):
            raise InputError(f"the variant {name} is no table of settings", where=path)
        if "seed" in variant or "data" in variant:
            raise InputError(f"the variant {name} sets seed or data: all have the same", where=path)
    settings = table["settings"]
    configuration.merge(settings, configuration.read_table(overrides=overrides))
    return Study(table["title"], table["base"], tuple(seeds), settings, variants)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a study."""

    variant: str
    seed: int
    config: PretrainConfig
    directory: Path

    @property
    def name(self) -> str:
        """How a message calls it."""
        return f"{self.variant}, seed {self.seed}"

    @property
    def is_finished(self) -> bool:
        """Whether it is run and measured."""
        return (self.directory / _OUTCOME).exists()

    @property
    def seconds_left(self) -> float:
        """Of training, by its budget; 0 for a run that is finished or has steps for a budget."""
        if self.config.budget_seconds is None or self.is_finished:
            return 0.0
        rows = read_metrics(self.directory) if (self.directory / METRICS).exists() else []
        spent = max((row.get("seconds", 0.0) for row in rows), default=0.0)
        return max(0.0, self.config.budget_seconds - spent)


def plan_study(study: Study, data: Path, output: Path) -> list[PlannedRun]:
    """Return the runs of a study in the order in which they are made.

    Raises:
        InputError: a setting is wrong, or a run is there that was made with other settings.
    """
    names = list(study.variants)
    runs = [
        PlannedRun(name, seed, study.config(name, seed, data), output / "runs" / name / f"seed-{seed}")
        for seed in study.seeds
        for name in names
    ]
    for run in runs:
        settings = run.directory / artifacts.RUN_CONFIG
        if not settings.exists():
            continue
        there = replace(configuration.load(PretrainConfig, settings), data_sha256=None)
        if there != run.config:
            remedy = "Choose another --output, or delete it"
            raise InputError(
                "was run with other settings than the study has now", where=run.directory, remedy=remedy
            )
    return runs


def describe_plan(runs: Sequence[PlannedRun]) -> str:
    """Say how many runs there are and, where their budgets are times, how long they take."""
    finished = sum(run.is_finished for run in runs)
    said = f"{len(runs)} runs: {len({run.variant for run in runs})} variants, {len({run.seed for run in runs})} seeds"
    if finished:
        said += f"; {finished} are finished"
    left = sum(run.seconds_left for run in runs)
    if left:
        said += f"; {clock(left)} of training left, and a minute or so a run to measure it"
    return said


def run_study(
    study: Study, data: Path, output: Path, *, seeds: Sequence[int] = (), progress: Progress = SILENT
) -> Path:
    """Make the runs that are not finished, and write the record of all that are anew after each.

    Args:
        study: what is compared.
        data: the data set of all runs.
        output: directory of the runs and the record.
        seeds: make the runs of these alone, so that others can be made beside them; empty are all.
        progress: where to tell how far it is.

    Returns:
        The record.

    Raises:
        InputError: a setting or the data set is wrong, or a run is there that was made with other settings.
        Interrupted: SIGINT or SIGTERM came; the same call goes on.
        RunError: runs failed, by an infinite loss or a full disk; the others were made.
    """
    require(["scipy"], what="the interval of a difference")
    if unknown := set(seeds) - set(study.seeds):
        raise InputError(f"seed {min(unknown)} is none of the study's: {study.seeds}", where="--seed")
    runs = plan_study(study, data, output)
    own = [run for run in runs if run.seed in (seeds or study.seeds)]
    progress.note(describe_plan(own))
    record = output / "record"
    failed = []
    for number, run in enumerate(own, 1):
        if run.is_finished:
            continue
        progress.note(f"run {number} of {len(own)}: {run.name}")
        try:
            _train_and_measure(run, progress)
        except RunError as error:
            progress.note(f"warning: {run.name} failed: {error}")
            failed.append(run.name)
        else:
            _write_record(study, runs, record)
    if failed:
        what = f"{len(failed)} of {len(own)} runs failed: {'; '.join(failed)}"
        raise RunError(what, where=output, remedy="The same command tries them again")
    _write_record(study, runs, record)
    return record


def _write_record(study: Study, runs: Sequence[PlannedRun], record: Path) -> None:
    finished = [_compared(run) for run in runs if run.is_finished]
    write_study_record(study.title, study.base, configuration.to_toml(study), finished, record)


def _train_and_measure(run: PlannedRun, progress: Progress) -> None:
    try:
        if (run.directory / artifacts.RUN_CONFIG).exists():
            resume_pretraining(run.directory, progress=progress)
        else:
            shutil.rmtree(run.directory, ignore_errors=True)
            pretrain(run.config, run.directory, progress=progress)
    except Interrupted as interrupted:
        raise Interrupted(interrupted.what, remedy="The same command goes on") from interrupted
    outcome = dict(_measure(run, progress))
    artifacts.write_text(run.directory / _OUTCOME, json.dumps(outcome, indent=1) + "\n")


def _measure(run: PlannedRun, progress: Progress) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure what a run ended with on the held-out text, read as pairs and as one segment a sequence.

    The curve of a run was measured on instances made as its own settings say; these are made as the paper's do.
    """
    config = run.config
    for name, next_sentence in (("pairs", True), ("segments", False)):
        settings = PretrainingEvaluationConfig(
            max_seq_length=config.phases[-1].max_seq_length,
            max_instances=_MEASURED_INSTANCES,
            pairs=PairsConfig(next_sentence=next_sentence),
        )
        found = evaluate_pretrained(
            run.directory, [config.data], settings, device=config.device, progress=progress
        )
        yield name, {**found.masked_lm, **found.next_sentence}


def _compared(run: PlannedRun) -> Compared:
    rows = read_metrics(run.directory)
    validation = [row for row in rows if row["kind"] == "validation"]
    last = [row for row in rows if row["kind"] == "train"][-1]
    return Compared(
        variant=run.variant,
        seed=run.seed,
        held_out_as=_held_out_as(run.config),
        seconds=tuple(row["seconds"] for row in validation),
        masked_lm_losses=tuple(row["masked_lm_loss"] for row in validation),
        steps=last["step"],
        tokens=last["tokens"],
        environment=json.loads((run.directory / "environment.json").read_text("utf-8")),
        **json.loads((run.directory / _OUTCOME).read_text("utf-8")),
    )


def _held_out_as(config: PretrainConfig) -> str:
    """Say how the instances of a run's curve were made: where two runs say the same, the instances are."""
    last, masking = config.phases[-1], replace(config.masking, initial_masked_lm_prob=None)
    made = [asdict(config.pairs), asdict(masking), last.max_seq_length, last.max_predictions_per_seq]
    return json.dumps([*made, config.evaluation.max_instances])
