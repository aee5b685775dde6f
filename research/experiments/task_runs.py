"""Fine-tune the encoders of a study for its tasks, and score them as `cloze finetune` does.

RUN/tasks/NAME/POINT/{run.toml, scores.json}   points are 1, 2, … over the pre-training run; the last is its end
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from cloze import artifacts
from cloze.api.settings import finetuning_layers, resolve_finetuning
from cloze.data.reading.files import file_version
from cloze.errors import InputError
from cloze.finetuning.config import FinetuneConfig, load_finetuning, selection_metric
from cloze.finetuning.data import find_data, hash_files
from cloze.finetuning.finetune import TRIALS, extract_scores, finetune
from cloze.finetuning.run import SCORES
from cloze.progress import Progress
from cloze.tasks.data import find_files
from cloze.tasks.registry import find_task
from cloze.tasks.task import Task
from cloze.training.checkpoints import remove_checkpoints
from cloze.training.run import Launch
from experiments.results import TaskScores

_MAJORITY = "majority_accuracy"


@dataclass(frozen=True, slots=True)
class StudyTask:
    """A task of a study, with the settings of its fine-tuning."""

    task: str
    """Name in the registry."""
    data: str
    """Name of the data on the command line."""
    metric: str
    """The compared score."""
    scale: float
    """Factor that turns the score into percent."""
    settings: Mapping[str, Any]
    """Settings of the fine-tuning, as in a recipe, with the task's own in a table of its name."""

    @classmethod
    def read(cls, table: Mapping[str, Any], *, where: str) -> "StudyTask":
        """Read a table of a study."""
        settings = deepcopy(dict(table))
        name = settings.pop("task", None)
        if name == "feature-tagging":
            import experiments.feature_tagging  # noqa: F401 (registers the task)
        task = find_task(str(name), where=where)
        data = settings.pop("data", name)
        metric = settings.pop("metric", task.metrics[0])
        scale = settings.pop("scale", 100)
        if not isinstance(data, str) or not isinstance(metric, str) or not isinstance(scale, int | float):
            raise InputError("data and metric must be names, and scale a number", where=where)
        for key in ("model", "train", "dev", "seed", "best_metric", "grid"):
            if key in settings:
                raise InputError(f"sets {key}, which the study sets", where=where)
        return cls(task.name, data, metric, float(scale), settings)


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One fine-tuning, or several over seeds, whose mean counts."""

    name: str
    """Name of the task in the study."""
    task: StudyTask
    data: Path | None
    """None if the fine-tuning is finished and its data are not named any more."""
    directory: Path

    @property
    def is_finished(self) -> bool:
        """Whether it is scored."""
        return (self.directory / SCORES).exists()

    def config(self, model: Path, seed: int) -> tuple[Task, FinetuneConfig]:
        """Return task and settings for an encoder."""
        table = {
            **deepcopy(dict(self.task.settings)),
            "model": str(model),
            "train": str(self.data),
            "seed": seed,
            "best_metric": self.task.metric,
        }
        try:
            return resolve_finetuning(finetuning_layers(self.task.task, None, {"settings": table}))
        except InputError as error:
            error.where = f"the task {self.name}"
            raise

    def check(self, encoder: Path | None, seed: int, positions: int | None = None) -> None:
        """Refuse wrong settings, and settings other than those with which the fine-tuning was started.

        Args:
            encoder: the checkpoint to fine-tune; None if it does not exist yet, or is combined from others.
            positions: maximum sequence length of the encoder, if it is known before the encoder exists.
        """
        task, config = self.config(encoder or self.directory, seed)
        selection_metric(task, config.best_metric)
        if positions is not None and config.max_seq_length > positions:
            what = f"max_seq_length {config.max_seq_length} exceeds the {positions} positions of the encoder"
            raise InputError(what, where=f"the task {self.name}")
        settings = self.directory / artifacts.RUN_CONFIG
        if not settings.exists():
            if self.data is not None:
                find_files(task, config.train, config.dev)
            return
        started_task, started = load_finetuning(settings)
        if self.data is not None:
            versions = tuple(
                map(file_version, filter(None, find_files(find_task(task.name), config.train, None)))
            )
            if _data_sha256(task.name, config.train, versions) != started.data_sha256:
                what = f"was run with other data than {self.data}"
                raise InputError(what, where=self.directory, remedy="Name those, or choose another --output")
        is_of_encoder = encoder is None or Path(started.model).name == encoder.name
        same_place = replace(
            started, model=config.model, train=config.train, dev=config.dev, data_sha256=None
        )
        read_from_data = {name: value for name, value in task.settings.items() if value in (None, ())}
        if (
            not is_of_encoder
            or same_place != config
            or started_task.settings | read_from_data != task.settings
        ):
            remedy = "Choose another --output, or delete it"
            raise InputError("was run with other settings", where=self.directory, remedy=remedy)

    def fine_tune(self, model: Path, seed: int, progress: Progress) -> None:
        """Fine-tune and score an encoder, or continue with that."""
        self.check(model, seed)
        if (settings := self.directory / artifacts.RUN_CONFIG).exists():
            started_task, started = load_finetuning(settings)
            train, dev = find_files(started_task, str(self.data), None)
            moved = replace(started, model=str(model), train=train, dev=dev)  # where they are now
            finetune(started_task, moved, self.directory, Launch(resume=True, progress=progress))
        else:
            shutil.rmtree(self.directory, ignore_errors=True)  # killed before it had settings
            task, config = self.config(model, seed)
            finetune(task, config, self.directory, Launch(progress=progress))
        self.remove_checkpoints()

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints of a scored fine-tuning; settings and scores stay."""
        runs = [checkpoints.parent for checkpoints in sorted(self.directory.rglob("checkpoints"))]
        for run in dict.fromkeys([*runs, self.directory]):
            remove_checkpoints(run)

    def results(self) -> list[dict[str, Any]]:
        """Return the scores of each seed."""
        if self.task.settings.get("seeds", 1) == 1:
            results = [json.loads((self.directory / SCORES).read_text("utf-8"))]
        elif (file := self.directory / TRIALS).exists():
            (setting,) = json.loads(file.read_text("utf-8"))["settings"]
            results = list(setting["results"])
        else:
            remedy = "Delete its directory to measure it again"
            raise InputError("the scores of each seed are missing", where=file, remedy=remedy)
        if self.task.metric not in results[0]:
            remedy = f"It has {', '.join(extract_scores(results[0]))}"
            raise InputError(f"no score {self.task.metric!r}", where=f"the task {self.name}", remedy=remedy)
        return results


def read_scores(points: Sequence[TaskRun]) -> TaskScores:
    """Return the scores of a task at every point of a run, all of them finished."""
    last = points[-1]
    scale, metric = last.task.scale, last.task.metric
    results = [point.results() for point in points]
    final = results[-1][0]
    _, config = load_finetuning(last.directory / artifacts.RUN_CONFIG)
    train, dev = Path(config.train).name, Path(config.dev or config.train).name
    drawn = "" if config.train_examples is None else f"{config.train_examples:,} of "
    scored = f"{final['examples']:,} of {dev} (SHA-256 of both {config.data_sha256})"
    has_majority = metric == "accuracy" and _MAJORITY in final
    return TaskScores(
        points=tuple(scale * fmean(result[metric] for result in at_point) for at_point in results),
        collapses=tuple(
            next((result["collapse"] for result in at_point if "collapse" in result), None)
            for at_point in results
        ),
        majority=scale * final[_MAJORITY] if has_majority else None,
        data=f"{drawn}{train}, scored on {scored}",
    )


def plan_task_runs(
    tasks: Mapping[str, StudyTask], data: Mapping[str, Path], directory: Path, point: int
) -> tuple[TaskRun, ...]:
    """Return the fine-tunings of a run at a point: those that are finished, or whose data are named."""
    runs = (
        TaskRun(name, task, data.get(task.data), directory / "tasks" / name / str(point))
        for name, task in tasks.items()
    )
    return tuple(run for run in runs if run.data is not None or run.is_finished)


@cache  # many fine-tunings have the same data
def _data_sha256(task: str, data: str, versions: tuple[object, ...]) -> str | None:
    return hash_files(find_data(find_task(task), data))[0]
