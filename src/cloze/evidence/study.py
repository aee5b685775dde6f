"""A study: runs of pre-training that differ in what is asked about, over the same seeds, and the record of them.

A study is a TOML file: settings of every run, and by name the variants, each with the settings of its own. It may name
tasks, for which every variant is then fine-tuned. Runs are made seed by seed, so that a study that was stopped compares
what it has. Whatever stops it, the same command goes on.

    OUT/runs/VARIANT/seed-1/{run.toml, metrics.jsonl, checkpoints, tasks, …, outcome.json}
    OUT/record/{README.md, curves.svg, study.toml, results.json}
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from cloze import artifacts
from cloze import config as configuration
from cloze.corpus.pairs import PairsConfig
from cloze.errors import InputError, RunError
from cloze.evidence.study_published import Published
from cloze.evidence.study_record import Compared, TaskScores, write_study_record
from cloze.evidence.study_tasks import Origin, PlannedTask, StudyTask, make_start, measure_task, plan_tasks
from cloze.metrics.libraries import require
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.evaluate import PretrainingEvaluationConfig, evaluate_pretrained
from cloze.pretraining.run import pretrain, resume_pretraining
from cloze.progress import SILENT, Progress, clock
from cloze.training.checkpoints import resolve_checkpoint
from cloze.training.interrupts import Interrupted
from cloze.training.metrics_log import METRICS, read_metrics

_OUTCOME = "outcome.json"
_MEASURED_INSTANCES = 2000  # at the end of a run; its curve may be of fewer
_NAME = re.compile(r"[A-Za-z0-9-]+")
_REQUIRED = {"title": str, "base": str, "seeds": list, "settings": dict, "variants": dict}
_OPTIONAL = {"tasks": dict, "points": int, "published": dict}
_NO_DATA: Mapping[str, Path] = MappingProxyType({})


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
    """By name, what a variant sets beside these or otherwise; or where it has its encoder from, without pre-training:
    `checkpoint`, a path; `bilstm_on`, a variant above it; `concatenates`, two of them."""
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name, what every variant is fine-tuned for, as `StudyTask` reads it."""
    points: int = 1
    """At how many steps of a run that is done, evenly over it; the last is its end."""
    published: Published | None = None
    """Where the paper has the same."""

    def config(self, variant: str, seed: int, data: Path) -> PretrainConfig:
        """Return the settings of a run.

        Raises:
            InputError: one of them is wrong.
        """
        table = deepcopy(dict(self.settings))
        configuration.merge(table, deepcopy(dict(self.variants[variant])))
        configuration.merge(table, {"data": str(data), "seed": seed})
        where = f"the variant {variant}"
        if self.points > 1:
            steps = table.get("steps")
            if not isinstance(steps, int) or steps % self.points:
                what = f"{self.points} points want a budget of steps that they divide evenly"
                raise InputError(what, where=where)
            every = steps // self.points
            configuration.merge(table, {"checkpoints": {"every_steps": every, "keep_every_steps": every}})
        return configuration.from_table(PretrainConfig, table, where=where)

    def origin(self, variant: str) -> tuple[Origin, tuple[str, ...]] | None:
        """Return where a variant that is not pre-trained has its encoder from; None for one that is."""
        for kind in get_args(Origin):
            if kind in self.variants[variant]:
                named = self.variants[variant][kind]
                return kind, tuple(named) if isinstance(named, list | tuple) else (named,)
        return None

    def read_tasks(self) -> dict[str, StudyTask]:
        """Return the tasks by name.

        Raises:
            InputError: one is wrong.
        """
        return {name: StudyTask.read(table, where=f"the task {name}") for name, table in self.tasks.items()}


def read_study(path: Path, overrides: Sequence[str] = ()) -> Study:
    """Read a study.

    Args:
        path: the TOML file.
        overrides: settings of every run, as in "budget_seconds=600"; those of a variant are stronger.

    Raises:
        InputError: a key is unknown or missing, or the base is none of the variants.
    """
    table = configuration.read_toml(path)
    wanted = {**_REQUIRED, **_OPTIONAL}
    for key in table.keys() | _REQUIRED.keys():
        if key not in wanted:
            raise InputError(f"unknown key {key}", where=path, remedy=f"A study has {', '.join(wanted)}")
        if not isinstance(table.get(key), wanted[key]):
            raise InputError(f"{key} is missing or of another type than a study's", where=path)
    configuration.merge(table["settings"], configuration.read_table(overrides=overrides))
    published = table.get("published")
    if published is not None:
        published = Published.read(published, where=path)
    study = Study(
        table["title"],
        table["base"],
        tuple(table["seeds"]),
        table["settings"],
        table["variants"],
        table.get("tasks", {}),
        table.get("points", 1),
        published,
    )
    check_study(study, path)
    return study


def check_study(study: Study, where: Path) -> None:
    """Refuse a study that cannot be made.

    Raises:
        InputError: seeds, names or origins are wrong, or the base is none of the variants.
    """
    seeds = study.seeds
    if not seeds or not all(isinstance(seed, int) for seed in seeds) or len(set(seeds)) < len(seeds):
        raise InputError("seeds must be different whole numbers", where=where)
    if study.points < 1:
        raise InputError("points must be at least 1", where=where)
    if study.base not in study.variants:
        raise InputError(f"base {study.base!r} is none of the variants", where=where)
    above: list[str] = []
    for name, variant in study.variants.items():
        if not _NAME.fullmatch(name):
            raise InputError(
                f"the variant {name!r} has not only letters, digits and - in its name", where=where
            )
        if not isinstance(variant, dict):
            raise InputError(f"the variant {name} is no table of settings", where=where)
        if "seed" in variant or "data" in variant:
            raise InputError(f"the variant {name} sets seed or data: all have the same", where=where)
        _check_origin(study, name, above, where)
        if "checkpoint" not in variant:
            above.append(name)
    for name, task in study.tasks.items():
        if not _NAME.fullmatch(name) or not isinstance(task, dict):
            what = f"the task {name!r} is no table, or has not only letters, digits and - in its name"
            raise InputError(what, where=where)
    study.read_tasks()


def _check_origin(study: Study, name: str, above: Sequence[str], where: Path) -> None:
    """Refuse an encoder that is made of something else than a checkpoint or variants that stand above it."""
    found = study.origin(name)
    if found is None:
        return
    kind, sources = found
    if len(study.variants[name]) > 1:
        raise InputError(f"the variant {name} is not pre-trained: it has {kind} alone", where=where)
    wanted = 2 if kind == "concatenates" else 1
    if len(sources) != wanted or not all(isinstance(source, str) for source in sources):
        raise InputError(f"the variant {name}: {kind} wants {wanted} by name", where=where)
    if kind != "checkpoint" and (unknown := [source for source in sources if source not in above]):
        raise InputError(f"the variant {name}: {unknown[0]!r} is no variant above it", where=where)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a study."""

    variant: str
    seed: int
    config: PretrainConfig | None
    """None: it is not pre-trained."""
    directory: Path
    origin: Origin | None = None
    """Where it has its encoder from, then."""
    sources: tuple[Path, ...] = ()
    """Checkpoints or runs."""
    points: tuple[tuple[PlannedTask, ...], ...] = ()
    """What is fine-tuned at each point of it."""

    @property
    def name(self) -> str:
        """How a message calls it."""
        return f"{self.variant}, seed {self.seed}"

    @property
    def is_trained(self) -> bool:
        """Whether its encoder is there, and measured by itself."""
        return self.config is None or (self.directory / _OUTCOME).exists()

    @property
    def is_finished(self) -> bool:
        """Whether it is trained, and fine-tuned for every task."""
        return self.is_trained and all(task.is_finished for tasks in self.points for task in tasks)

    @property
    def seconds_left(self) -> float:
        """Of pre-training, by its budget; 0 for a run that is trained or has steps for a budget."""
        if self.config is None or self.config.budget_seconds is None or self.is_trained:
            return 0.0
        rows = read_metrics(self.directory) if (self.directory / METRICS).exists() else []
        spent = max((row.get("seconds", 0.0) for row in rows), default=0.0)
        return max(0.0, self.config.budget_seconds - spent)

    def encoder_at(self, point: int) -> Path:
        """Return the checkpoint that is fine-tuned at a point, counted from 1.

        Raises:
            InputError: what it is made of cannot be read.
        """
        if self.config is None:
            assert self.origin is not None
            return make_start(self.origin, self.sources, self.directory, self.seed)
        if point == len(self.points):
            return resolve_checkpoint(self.directory)
        assert self.config.steps is not None
        step = self.config.steps * point // len(self.points)
        return self.directory / "checkpoints" / f"step-{step:08}"


def plan_study(
    study: Study, data: Path | None, output: Path, tasks_data: Mapping[str, Path] = _NO_DATA
) -> list[PlannedRun]:
    """Return the runs of a study in the order in which they are made.

    Args:
        study: what is compared.
        data: the data set of all runs; None where nothing is pre-trained.
        output: directory of the runs and the record.
        tasks_data: by name, where the data of tasks are; a task without data is left out.

    Raises:
        InputError: a setting is wrong, data are named that no task has, or a run is there that was made with other
            settings.
    """
    tasks = study.read_tasks()
    known = dict.fromkeys(task.data for task in tasks.values())
    if unknown := [name for name in tasks_data if name not in known]:
        remedy = f"It wants {', '.join(known)}" if known else "It has no tasks"
        raise InputError(
            f"no task of the study has data called {unknown[0]}", where="--tasks-data", remedy=remedy
        )
    runs = []
    for seed in study.seeds:
        for name in study.variants:
            directory = output / "runs" / name / f"seed-{seed}"
            origin = study.origin(name)
            num_points = study.points if origin is None else 1
            points = tuple(
                plan_tasks(tasks, tasks_data, directory, point) for point in range(1, num_points + 1)
            )
            if origin is not None:
                kind, named = origin
                sources = tuple(
                    Path(source) if kind == "checkpoint" else output / "runs" / source / f"seed-{seed}"
                    for source in named
                )
                runs.append(PlannedRun(name, seed, None, directory, kind, sources, points))
                continue
            if data is None:
                raise InputError(
                    "the flag --data is missing", remedy=f"The variant {name} is pre-trained on it"
                )
            config = study.config(name, seed, data)
            _check_settings(config, directory)
            runs.append(PlannedRun(name, seed, config, directory, points=points))
    for run in runs:
        for planned in (task for own in run.points for task in own):
            if not planned.is_finished:
                planned.config(run.directory, run.seed)  # a wrong setting is found before anything is run
    return runs


def _check_settings(config: PretrainConfig, directory: Path) -> None:
    settings = directory / artifacts.RUN_CONFIG
    if not settings.exists():
        return
    there = replace(configuration.load(PretrainConfig, settings), data_sha256=None)
    if there != config:
        remedy = "Choose another --output, or delete it"
        raise InputError("was run with other settings than the study has now", where=directory, remedy=remedy)


def describe_plan(runs: Sequence[PlannedRun]) -> str:
    """Say how many runs there are and, where their budgets are times, how long they take."""
    finished = sum(run.is_finished for run in runs)
    said = f"{len(runs)} runs: {len({run.variant for run in runs})} variants, {len({run.seed for run in runs})} seeds"
    if finished:
        said += f"; {finished} are finished"
    tasks = [task for run in runs for own in run.points for task in own]
    if tasks:
        done = sum(task.is_finished for task in tasks)
        said += f"; {len(tasks)} fine-tunings" + (f", {done} of them done" if done else "")
    left = sum(run.seconds_left for run in runs)
    if left:
        said += f"; {clock(left)} of training left, and a minute or so a run to measure it"
    return said


def run_study(
    study: Study,
    data: Path | None,
    output: Path,
    *,
    tasks_data: Mapping[str, Path] = _NO_DATA,
    seeds: Sequence[int] = (),
    progress: Progress = SILENT,
) -> Path:
    """Make the runs that are not finished, and write the record of all that are anew after each.

    Args:
        study: what is compared.
        data: the data set of all runs; None where nothing is pre-trained.
        output: directory of the runs and the record.
        tasks_data: by name, where the data of tasks are; a task without data is left out.
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
    runs = plan_study(study, data, output, tasks_data)
    own = [run for run in runs if run.seed in (seeds or study.seeds)]
    progress.note(describe_plan(own))
    record = output / "record"
    failed: dict[Path, str] = {}
    for number, run in enumerate(own, 1):
        if run.is_finished:
            continue
        if any(source in failed for source in run.sources):
            failed[run.directory] = run.name
            continue
        progress.note(f"run {number} of {len(own)}: {run.name}")
        try:
            _train_and_measure(run, progress)
        except RunError as error:
            progress.note(f"warning: {run.name} failed: {error}")
            failed[run.directory] = run.name
        else:
            _write_record(study, runs, record)
    if failed:
        what = f"{len(failed)} of {len(own)} runs failed: {'; '.join(failed.values())}"
        raise RunError(what, where=output, remedy="The same command tries them again")
    _write_record(study, runs, record)
    return record


def _write_record(study: Study, runs: Sequence[PlannedRun], record: Path) -> None:
    tasks = study.read_tasks()
    finished = [_compared(run) for run in runs if run.is_finished]
    write_study_record(
        study.title,
        study.base,
        configuration.to_toml(study),
        finished,
        record,
        metrics={name: f"{task.task}, {task.metric}" for name, task in tasks.items()},
        published=study.published,
    )


def _train_and_measure(run: PlannedRun, progress: Progress) -> None:
    try:
        if not run.is_trained:
            _train(run, progress)
        for point, tasks in enumerate(run.points, 1):
            encoder = run.encoder_at(point) if tasks else None
            for task in tasks:
                if not task.is_finished:
                    assert encoder is not None
                    where = f", at {point} of {len(run.points)}" if len(run.points) > 1 else ""
                    progress.note(f"{run.name}: {task.name}{where}")
                    measure_task(task, encoder, run.seed, progress)
    except Interrupted as interrupted:
        raise Interrupted(interrupted.what, remedy="The same command goes on") from interrupted


def _train(run: PlannedRun, progress: Progress) -> None:
    assert run.config is not None
    if (run.directory / artifacts.RUN_CONFIG).exists():
        resume_pretraining(run.directory, progress=progress)
    else:
        shutil.rmtree(run.directory, ignore_errors=True)
        pretrain(run.config, run.directory, progress=progress)
    outcome = dict(_measure(run.config, run.directory, progress))
    artifacts.write_text(run.directory / _OUTCOME, json.dumps(outcome, indent=1) + "\n")


def _measure(
    config: PretrainConfig, directory: Path, progress: Progress
) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure what a run ended with on the held-out text, read as pairs and as one segment a sequence.

    The curve of a run was measured on instances made as its own settings say; these are made as the paper's do. An
    encoder that looks one way names neighbours, which is another question, and easier or harder.
    """
    both = {"pairs": True, "segments": False}
    for name, next_sentence in both.items() if config.model.attends_to == "all" else [("neighbours", False)]:
        settings = PretrainingEvaluationConfig(
            max_seq_length=config.phases[-1].max_seq_length,
            max_instances=_MEASURED_INSTANCES,
            pairs=PairsConfig(next_sentence=next_sentence),
        )
        found = evaluate_pretrained(
            directory, [config.data], settings, device=config.device, progress=progress
        )
        yield name, {**found.masked_lm, **found.next_sentence}


def _compared(run: PlannedRun) -> Compared:
    last_tasks = run.points[-1]
    tasks = {
        last.name: TaskScores(
            tuple(task.score() for own in run.points for task in own if task.name == last.name),
            last.majority(),
            last.collapse(),
        )
        for last in last_tasks
    }
    if run.config is None:
        environment = last_tasks[0].directory.rglob("environment.json") if last_tasks else ()
        return Compared(
            run.variant,
            run.seed,
            tasks=tasks,
            environment=next((json.loads(file.read_text("utf-8")) for file in environment), None),
        )
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
        tasks=tasks,
        environment=json.loads((run.directory / "environment.json").read_text("utf-8")),
        **json.loads((run.directory / _OUTCOME).read_text("utf-8")),
    )


def _held_out_as(config: PretrainConfig) -> str:
    """Say how the instances of a run's curve were made: where two runs say the same, the instances are."""
    last, masking = config.phases[-1], replace(config.masking, initial_masked_lm_prob=None)
    made = [asdict(config.pairs), asdict(masking), last.max_seq_length, last.max_predictions_per_seq]
    return json.dumps([*made, config.evaluation.max_instances, config.model.attends_to])
