"""What the runs of a study are, how far each of them is, and whether what is there is theirs."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from cloze import artifacts
from cloze import config as configuration
from cloze.corpus.store import identity_of
from cloze.errors import InputError
from cloze.evidence.study_file import Study
from cloze.evidence.study_origins import Origin
from cloze.evidence.study_tasks import PlannedTask, plan_tasks
from cloze.locate import resolve_checkpoint
from cloze.pretraining.config import PretrainConfig
from cloze.progress import clock
from cloze.training.metrics_log import METRICS, read_metrics

OUTCOME = "outcome.json"
"""Of a run that is pre-trained and measured."""
NO_DATA: Mapping[str, Path] = MappingProxyType({})


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
        return self.config is None or (self.directory / OUTCOME).exists()

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
    study: Study, data: Path | None, output: Path, tasks_data: Mapping[str, Path] = NO_DATA
) -> list[PlannedRun]:
    """Return the runs of a study in the order in which they are made.

    Args:
        study: what is compared.
        data: the data set of all runs; None where nothing is pre-trained.
        output: directory of the runs and the record.
        tasks_data: by name, where the data of tasks are; a task without data is left out.

    Raises:
        InputError: a setting or data are wrong, data are named that no task has, a run is there that was made with
            other settings, or there is nothing to make.
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
    if not runs:
        what = "there is nothing to make: nothing is pre-trained, and no task has data"
        raise InputError(what, where="--tasks-data", remedy=f"It wants {', '.join(known)}" if known else None)
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
    if config.init is not None:  # its widths are in the settings then
        config = replace(config, model=config.model.of(begun.model.encoder(vocab_size=1)))
    # data are the same wherever they lie, and saving changes no weights
    there = replace(begun, data=config.data, data_sha256=None, checkpoints=config.checkpoints)
    has_other_data = manifest.exists() and begun.data_sha256 != identity_of(
        manifest.parent, named=begun.data_sha256
    )
    if there != config or has_other_data:
        what = f"was run with other {'data' if has_other_data else 'settings'} than the study has now"
        raise InputError(what, where=directory, remedy="Choose another --output, or delete it")


def _check_origin(run: PlannedRun, origin: Origin, trained: Set[Path]) -> None:
    """Refuse a run that was made of something else, or of what is not there any more."""
    origin.check(run.directory, trained)
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
    positions = None
    if run.config is not None and run.config.init is None:
        positions = run.config.model.encoder(vocab_size=1).max_position_embeddings
    for point, tasks in enumerate(run.points, 1):
        encoder = run.encoder_at(point) if is_pretrained and (run.directory / "latest").exists() else None
        is_lost = is_pretrained and (encoder is None or not encoder.is_dir())
        for planned in tasks:
            planned.check(encoder, run.seed, positions)
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
