"""The runs of a study: their settings, how far each of them is, and whether existing files belong to it."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from cloze import artifacts
from cloze import config as configuration
from cloze.data.dataset import dataset_fingerprint
from cloze.errors import InputError
from cloze.file_names import MANIFEST
from cloze.model_paths import resolve_checkpoint
from cloze.pretraining.config import PretrainConfig
from cloze.progress import format_duration
from cloze.training.metrics_log import METRICS, read_metrics
from experiments.origins import START, Origin
from experiments.study import Study
from experiments.task_runs import TaskRun, plan_task_runs

OUTCOME = "outcome.json"
"""Measurements of a pre-trained run."""
NO_DATA: Mapping[str, Path] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a study."""

    variant: str
    seed: int
    config: PretrainConfig | None
    """None if the encoder is not pre-trained."""
    directory: Path
    origin: Origin | None = None
    """Source of an encoder that is not pre-trained."""
    points: tuple[tuple[TaskRun, ...], ...] = ()
    """Fine-tunings at each point of the run."""
    encoder: str | None = None
    """The `model_type` of the initial encoder, which is made in the place that the settings name; None is BERT."""

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"{self.variant}, seed {self.seed}"

    @property
    def task_runs(self) -> list[TaskRun]:
        """Fine-tunings at all points."""
        return [task for tasks in self.points for task in tasks]

    @property
    def is_trained(self) -> bool:
        """Whether the encoder is pre-trained and measured, or need not be."""
        return self.config is None or (self.directory / OUTCOME).exists()

    @property
    def is_finished(self) -> bool:
        """Whether it is trained, and fine-tuned for every task."""
        return self.is_trained and all(task.is_finished for task in self.task_runs)

    @property
    def pretraining_left(self) -> float:
        """Steps of pre-training left or, for a budget of time, seconds."""
        if self.config is None or self.is_trained:
            return 0.0
        key, budget = "seconds", self.config.budget_seconds
        if budget is None:
            key, budget = "step", self.config.steps or 0
        rows = read_metrics(self.directory) if (self.directory / METRICS).exists() else []
        return max(0.0, budget - max((row.get(key, 0.0) for row in rows), default=0.0))

    @property
    def seconds_left(self) -> float:
        """Seconds of pre-training left in a budget of time; 0 for a budget of steps."""
        has_time = self.config is not None and self.config.budget_seconds is not None
        return self.pretraining_left if has_time else 0.0

    def encoder_at(self, point: int) -> Path:
        """Return the checkpoint to fine-tune at a point, counted from 1."""
        if self.config is None:
            assert self.origin is not None
            return self.origin.encoder(self.directory, self.seed)
        if point == len(self.points):
            return resolve_checkpoint(self.directory, "latest")
        assert self.config.steps is not None
        step = self.config.steps * point // len(self.points)
        return self.directory / "checkpoints" / f"step-{step:08}"


def plan_study(
    study: Study, data: Path | None, output: Path, tasks_data: Mapping[str, Path] = NO_DATA
) -> list[PlannedRun]:
    """Return the runs of a study in the order in which they are made.

    Args:
        data: the data set of all runs; None if nothing is pre-trained.
        tasks_data: by name, the data of tasks; a task without data is left out.
    """
    tasks = study.read_tasks()
    known = list(dict.fromkeys(task.data for task in tasks.values()))
    if unknown := [name for name in tasks_data if name not in known]:
        what = f"no task of the study has data called {unknown[0]}"
        remedy = f"Name {', '.join(known)}" if known else "It has no tasks"
        raise InputError(what, where="--tasks-data", remedy=remedy)
    runs = []
    for seed in study.seeds:
        for name in study.variants:
            directory = output / "runs" / name / f"seed-{seed}"
            origin = None
            if (kind_and_sources := study.origin(name)) is not None:
                kind, sources = kind_and_sources
                paths = (
                    Path(source) if kind == "checkpoint" else output / "runs" / source / f"seed-{seed}"
                    for source in sources
                )
                origin = Origin(kind, tuple(paths))
            count = study.points if origin is None else 1
            points = tuple(plan_task_runs(tasks, tasks_data, directory, point + 1) for point in range(count))
            if origin is None:
                config, encoder = study.config(name, seed, data), study.encoder(name)
                if encoder is not None:
                    config = replace(config, init=str(directory.with_name(f"{directory.name}-start")))
                _check_settings(config, directory, is_new=encoder is not None)
                runs.append(PlannedRun(name, seed, config, directory, points=points, encoder=encoder))
            elif points[0]:  # without tasks there is nothing to do with it
                runs.append(PlannedRun(name, seed, None, directory, origin, points))
    if not runs:
        what = "nothing to do: nothing is pre-trained, and no task has data"
        raise InputError(what, where="--tasks-data", remedy=f"Name {', '.join(known)}" if known else None)
    trained = {run.directory for run in runs if run.is_trained}
    for run in runs:  # before anything is run
        if run.origin is not None:
            run.origin.check(run.directory, trained)
        _check_encoder(run, trained)
    return runs


def runs_of_seeds(study: Study, runs: Sequence[PlannedRun], seeds: Sequence[int]) -> list[PlannedRun]:
    """Return the runs of some seeds of a study; of all seeds if none is given."""
    if unknown := set(seeds) - set(study.seeds):
        raise InputError(f"seed {min(unknown)} is not one of the study: {study.seeds}", where="--seed")
    return [run for run in runs if run.seed in (seeds or study.seeds)]


def _check_settings(config: PretrainConfig, directory: Path, *, is_new: bool) -> None:
    """Refuse a run with other settings; `is_new`: the initial encoder is made in the study, which may be moved."""
    file, manifest = directory / artifacts.RUN_CONFIG, Path(config.data) / MANIFEST
    if not file.exists():
        return
    started = configuration.load(PretrainConfig, file)
    if is_new:
        started = replace(started, init=config.init)
    if config.init is not None:  # the run's settings have the sizes of the checkpoint
        encoder = started.model.encoder(vocab_size=1)
        config, started = (
            replace(settings, model=settings.model.with_architecture(encoder))
            for settings in (config, started)
        )
    # data may be moved, and saving changes no weights
    same_place = replace(started, data=config.data, data_sha256=None, checkpoints=config.checkpoints)
    has_other_data = manifest.exists() and started.data_sha256 != dataset_fingerprint(manifest.parent)
    if same_place != config or has_other_data:
        what = f"was run with other {'data' if has_other_data else 'settings'} than the study has now"
        raise InputError(what, where=directory, remedy="Choose another --output, or delete it")


def _check_encoder(run: PlannedRun, trained: Set[Path]) -> None:
    """Check the fine-tunings of a run; refuse one whose encoder, or a source of that, is gone."""
    needed = {}
    if run.origin is not None and not run.is_finished and not (run.directory / START).exists():
        if run.origin.kind == "checkpoint":
            resolve_checkpoint(run.origin.sources[0], "latest")
        else:
            needed = {
                source: run.variant
                for source in run.origin.sources
                if source in trained and not (source / "latest").exists()
            }
    is_pretrained = run.config is not None and run.is_trained
    positions = None
    if run.config is not None and run.config.init is None:
        positions = run.config.model.encoder(vocab_size=1).max_position_embeddings
    for point, tasks in enumerate(run.points, 1):
        encoder = run.encoder_at(point) if is_pretrained and (run.directory / "latest").exists() else None
        for task in tasks:
            task.check(encoder, run.seed, positions)
            if is_pretrained and not task.is_finished and (encoder is None or not encoder.is_dir()):
                needed.setdefault(run.directory, task.name)
    for directory, name in needed.items():
        what = f"its encoder, which {name} needs, is gone"
        raise InputError(what, where=directory, remedy="Delete the run to make it again")


def describe_plan(runs: Sequence[PlannedRun]) -> str:
    """Return the numbers of runs and, for budgets of time, the time that is left."""
    variants, seeds = ({getattr(run, key) for run in runs} for key in ("variant", "seed"))
    parts = [f"{len(runs)} runs: {len(variants)} variants, {len(seeds)} seeds"]
    if finished := sum(run.is_finished for run in runs):
        parts.append(f"{finished} are finished")
    if tasks := [task for run in runs for task in run.task_runs]:
        done = sum(task.is_finished for task in tasks)
        parts.append(f"{len(tasks)} fine-tunings" + (f", {done} of them done" if done else ""))
    if left := sum(run.seconds_left for run in runs):
        duration = format_duration(left)
        parts.append(f"{duration} of training left, and about a minute per run to measure it")
    return "; ".join(parts)
