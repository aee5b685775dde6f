"""A study: runs of pre-training that differ in what is asked about, over the same seeds, and the record of them.

Each run is pre-trained, measured, and fine-tuned for the tasks of the study. Runs are made seed by seed, so that a
study that was stopped compares what it has. Whatever stops it, the same command goes on.

    OUT/runs/VARIANT/seed-1/{run.toml, metrics.jsonl, checkpoints, tasks, …, outcome.json}
    OUT/record/{README.md, curves.svg, study.toml, results.json}
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from filelock import FileLock

from cloze import artifacts
from cloze import config as configuration
from cloze.corpus.pairs import PairsConfig
from cloze.errors import InputError, RunError
from cloze.evidence.study_file import Study
from cloze.evidence.study_origins import Origin
from cloze.evidence.study_record import write_study_record
from cloze.evidence.study_results import Compared, TaskScores
from cloze.evidence.study_tasks import PlannedTask, measure_task, plan_tasks
from cloze.extras import require
from cloze.locate import resolve_checkpoint
from cloze.model.checkpoint import load_config, new_encoder
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.evaluate import PretrainingEvaluationConfig, evaluate_pretrained
from cloze.pretraining.run import pretrain, resume_pretraining
from cloze.progress import SILENT, Progress, clock
from cloze.training.environment import ENVIRONMENT
from cloze.training.interrupts import Interrupted
from cloze.training.metrics_log import METRICS, read_metrics

_OUTCOME = "outcome.json"
_MEASURED_INSTANCES = 2000  # at the end of a run; its curve may be of fewer
_NO_DATA: Mapping[str, Path] = MappingProxyType({})


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

    @property
    def share_left(self) -> float:
        """Of the steps of pre-training, for a run that has them for a budget."""
        assert self.config is not None
        assert self.config.steps is not None
        rows = read_metrics(self.directory) if (self.directory / METRICS).exists() else []
        return 1.0 - max((row["step"] for row in rows), default=0) / self.config.steps

    def encoder_at(self, point: int) -> Path:
        """Return the checkpoint that is fine-tuned at a point, counted from 1.

        Raises:
            InputError: what it is made of cannot be read.
        """
        if self.config is None:
            assert self.origin is not None
            return self.origin.encoder(self.directory, self.seed)
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
            if study.origin(name) is not None:
                only = plan_tasks(tasks, tasks_data, directory, 1)
                if only:  # else there is nothing to be done with it
                    origin = _origin(study, name, seed, data, output)
                    runs.append(PlannedRun(name, seed, None, directory, origin, (only,)))
                continue
            points = tuple(
                plan_tasks(tasks, tasks_data, directory, point) for point in range(1, study.points + 1)
            )
            config = _config(study, name, seed, data)
            _check_settings(config, directory)
            runs.append(PlannedRun(name, seed, config, directory, points=points))
    trained = {run.directory for run in runs if run.is_trained}
    for run in runs:  # what is wrong is found before anything is run
        if run.origin is not None:
            _check_origin(run, run.origin, trained)
        _check_tasks(run)
    return runs


def _config(study: Study, variant: str, seed: int, data: Path | None) -> PretrainConfig:
    if data is None:
        remedy = f"The variant {variant} is pre-trained on it"
        raise InputError("the flag --data is missing", remedy=remedy)
    return study.config(variant, seed, data)


def _origin(study: Study, variant: str, seed: int, data: Path | None, output: Path) -> Origin:
    found = study.origin(variant)
    assert found is not None
    kind, named = found
    if kind == "checkpoint":
        return Origin(kind, tuple(map(Path, named)))
    return Origin(
        kind,
        tuple(output / "runs" / source / f"seed-{seed}" for source in named),
        tuple(_config(study, source, seed, data) for source in named),
    )


def runs_of_seeds(study: Study, runs: Sequence[PlannedRun], seeds: Sequence[int]) -> list[PlannedRun]:
    """Return the runs of some of a study's seeds, of all where none is named.

    Raises:
        InputError: a seed is none of the study's.
    """
    if unknown := set(seeds) - set(study.seeds):
        raise InputError(f"seed {min(unknown)} is none of the study's: {study.seeds}", where="--seed")
    return [run for run in runs if run.seed in (seeds or study.seeds)]


def _check_settings(config: PretrainConfig, directory: Path) -> None:
    settings, manifest = directory / artifacts.RUN_CONFIG, Path(config.data) / artifacts.MANIFEST
    if not settings.exists():
        return
    begun = configuration.load(PretrainConfig, settings)
    # data are the same wherever they lie, and saving changes no weights
    there = replace(begun, data=config.data, data_sha256=None, checkpoints=config.checkpoints)
    has_other_data = manifest.exists() and begun.data_sha256 != artifacts.sha256_of(manifest)
    if there != config or has_other_data:
        what = f"was run with other {'data' if has_other_data else 'settings'} than the study has now"
        raise InputError(what, where=directory, remedy="Choose another --output, or delete it")


def _check_origin(run: PlannedRun, origin: Origin, trained: Set[Path]) -> None:
    """Refuse a run that was made of something else, or of what is not there any more."""
    origin.check(run.directory)
    if run.is_finished or origin.is_made(run.directory):
        return
    for source in origin.sources:
        if origin.kind == "checkpoint":
            resolve_checkpoint(source)
        elif source in trained and not (source / "latest").exists():
            what = f"has no encoder any more to make {run.variant} of"
            raise InputError(what, where=source, remedy="Delete it to make the run anew")


def _check_tasks(run: PlannedRun) -> None:
    is_pretrained = run.config is not None and run.is_trained
    for point, tasks in enumerate(run.points, 1):
        encoder = run.encoder_at(point) if is_pretrained and (run.directory / "latest").exists() else None
        is_lost = is_pretrained and (encoder is None or not encoder.is_dir())
        for planned in tasks:
            planned.check(encoder, run.seed)
            if is_lost and not planned.is_finished:
                what = f"has no encoder any more to be fine-tuned for {planned.name}"
                raise InputError(what, where=run.directory, remedy="Delete it to make the run anew")


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
    require(["scipy"], extra="tasks", where="the interval of a difference")
    runs = plan_study(study, data, output, tasks_data)
    own = runs_of_seeds(study, runs, seeds)
    progress.note(describe_plan(own))
    record = output / "record"
    failed: dict[Path, str] = {}
    for number, run in enumerate(own, 1):
        if run.is_finished:
            continue
        if run.origin is not None and any(source in failed for source in run.origin.sources):
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
    with FileLock(record.with_suffix(".lock")):  # another command may make other seeds
        write_study_record(
            study.title,
            study.base,
            configuration.to_toml(study),
            [_compared(run) for run in runs if run.is_finished],
            record,
            metrics={name: f"{task.task}, {task.metric}" for name, task in tasks.items()},
            built_on={
                name: variant["bilstm_on"]
                for name, variant in study.variants.items()
                if "bilstm_on" in variant
            },
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
    if (settings := run.directory / artifacts.RUN_CONFIG).exists():
        begun = configuration.load(PretrainConfig, settings)
        moved = replace(begun, data=run.config.data)  # the same, where they lie now
        artifacts.write_text(settings, configuration.to_toml(moved))
        resume_pretraining(run.directory, progress=progress)
    else:
        shutil.rmtree(run.directory, ignore_errors=True)
        pretrain(run.config, run.directory, progress=progress)
    with torch.device("meta"):  # shapes only
        encoder = new_encoder(load_config(resolve_checkpoint(run.directory)))
    outcome = {
        "parameters": sum(parameter.numel() for parameter in encoder.parameters()),
        **dict(_measure(run.config, run.directory, progress)),
    }
    artifacts.write_text(run.directory / _OUTCOME, json.dumps(outcome, indent=1) + "\n")


def _measure(
    config: PretrainConfig, directory: Path, progress: Progress
) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure what a run ended with on the held-out text, read as pairs and as one segment a sequence.

    The curve of a run was measured on instances made as its own settings say; these are made as the paper's do. An
    encoder that looks one way names neighbours, which is another question, and easier or harder. What never learned
    next sentences is not asked.
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
        yield name, {**found.masked_lm, **(found.next_sentence if config.pairs.next_sentence else {})}


def _compared(run: PlannedRun) -> Compared:
    last_tasks = run.points[-1]
    tasks = {
        last.name: TaskScores(
            tuple(task.score() for own in run.points for task in own if task.name == last.name),
            tuple(task.collapse() for own in run.points for task in own if task.name == last.name),
            last.majority(),
            last.data_used(),
        )
        for last in last_tasks
    }
    if run.config is None:
        return Compared(
            run.variant, run.seed, tasks=tasks, environment=_environment_in(last_tasks[0].directory)
        )
    rows = read_metrics(run.directory)
    validation = [row for row in rows if row["kind"] == "validation"]
    last = [row for row in rows if row["kind"] == "train"][-1]
    return Compared(
        variant=run.variant,
        seed=run.seed,
        data_sha256=configuration.load(PretrainConfig, run.directory / artifacts.RUN_CONFIG).data_sha256,
        held_out_as=_held_out_as(run.config),
        seconds=tuple(row["seconds"] for row in validation),
        masked_lm_losses=tuple(row["masked_lm_loss"] for row in validation),
        steps=last["step"],
        tokens=last["tokens"],
        tasks=tasks,
        environment=_environment_in(run.directory),
        **json.loads((run.directory / _OUTCOME).read_text("utf-8")),
    )


def _environment_in(directory: Path) -> dict[str, Any] | None:
    """Return where a run, or the first of several, was made; None where that was not kept."""
    file = min(directory.rglob(ENVIRONMENT), key=lambda file: (len(file.parts), file), default=None)
    return None if file is None else dict(json.loads(file.read_text("utf-8")))


def _held_out_as(config: PretrainConfig) -> str:
    """Say how the instances of a run's curve were made: where two runs say the same, the instances are."""
    last, masking = config.phases[-1], replace(config.masking, initial_masked_lm_prob=None)
    made = [asdict(config.pairs), asdict(masking), last.max_seq_length, last.max_predictions_per_seq]
    return json.dumps([*made, config.evaluation.max_instances, config.model.attends_to])
