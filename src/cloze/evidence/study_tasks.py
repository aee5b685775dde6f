"""What an encoder of a study is worth to tasks: it is fine-tuned for each, and scored as `cloze finetune` scores.

RUN/start/                      an encoder that is made of those of other runs
RUN/tasks/NAME/POINT/{run.toml, scores.json}   POINT is 1, 2, … over the run of pre-training; the last is its end
"""

import json
import shutil
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from cloze import artifacts
from cloze.corpus.streams import file_version
from cloze.errors import InputError
from cloze.progress import Progress
from cloze.tasks.config import FinetuneConfig, finetuning_from_table, load_finetuning, to_toml
from cloze.tasks.data import find_files, with_files
from cloze.tasks.finetune import finetune, resume_finetuning
from cloze.tasks.registry import find_task
from cloze.tasks.run import SCORES
from cloze.tasks.task import AnyTask
from cloze.tasks.trials import TRIALS, scores_in

_MAJORITY = "majority_accuracy"


@dataclass(frozen=True, slots=True)
class StudyTask:
    """What a study says of a task, beside the settings of its fine-tuning."""

    task: str
    """Of the registry."""
    data: str
    """What the data are called on the command line."""
    metric: str
    """The score that is compared."""
    scale: float
    """What it is multiplied by to be in percent."""
    settings: Mapping[str, Any]
    """Of the fine-tuning, as in a recipe, with the task's own in a table of its name."""

    @classmethod
    def read(cls, table: Mapping[str, Any], *, where: str) -> "StudyTask":
        """Read a table of a study.

        Raises:
            InputError: it names no task, or a wrong type.
        """
        rest = deepcopy(dict(table))
        name = rest.pop("task", None)
        task = find_task(str(name), where=where)
        data, metric, scale = (
            rest.pop("data", name),
            rest.pop("metric", task.main_metric),
            rest.pop("scale", 100),
        )
        if not isinstance(data, str) or not isinstance(metric, str) or not isinstance(scale, int | float):
            raise InputError("data and metric are names, scale is a number", where=where)
        for key in ("model", "train", "dev", "seed", "best_metric"):
            if key in rest:
                raise InputError(f"sets {key}, which the study says", where=where)
        if "grid" in rest:
            raise InputError("has a grid: give one setting", where=where)
        return cls(task.name, data, metric, float(scale), rest)


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One fine-tuning, or several over seeds whose mean counts."""

    name: str
    """How the study calls the task."""
    task: StudyTask
    data: Path | None
    """None of one that is finished, whose data are not at hand any more."""
    directory: Path

    @property
    def is_finished(self) -> bool:
        """Whether it is scored."""
        return (self.directory / SCORES).exists()

    def config(self, model: Path, seed: int) -> tuple[AnyTask, FinetuneConfig]:
        """Return task and settings for an encoder.

        Raises:
            InputError: one of them is wrong.
        """
        table = {
            **deepcopy(dict(self.task.settings)),
            "model": str(model),
            "train": str(self.data),
            "seed": seed,
            "best_metric": self.task.metric,
        }
        return finetuning_from_table(self.task.task, table, where=f"the task {self.name}")

    def check(self, encoder: Path | None, seed: int, positions: int | None = None) -> None:
        """Refuse settings that are wrong, or other than those with which it was begun.

        Args:
            encoder: what is fine-tuned; None where that is not made yet, or made of others.
            seed: of the run.
            positions: how many tokens the encoder takes, where that is known before it is made.

        Raises:
            InputError: they are.
        """
        task, config = self.config(encoder or self.directory, seed)
        config.metric_of(task)
        if positions is not None and config.max_seq_length > positions:
            what = f"max_seq_length {config.max_seq_length}, the encoder takes {positions} tokens"
            raise InputError(what, where=f"the task {self.name}")
        settings = self.directory / artifacts.RUN_CONFIG
        if not settings.exists():
            if self.data is not None:
                find_files(task, config.train, config.dev)
            return
        begun_task, begun = load_finetuning(path=settings)
        if self.data is not None and _digest(type(task), config.train) != begun.data_sha256:
            what = f"was run with other data than {self.data}"
            raise InputError(what, where=self.directory, remedy="Name those, or choose another --output")
        is_of_encoder = encoder is None or Path(begun.model).name == encoder.name
        there = replace(begun, model=config.model, train=config.train, dev=config.dev, data_sha256=None)
        own = {each.name: getattr(task, each.name) for each in fields(task)}
        left_to_data = {name: value for name, value in own.items() if value in (None, ())}
        if not is_of_encoder or there != config or replace(begun_task, **left_to_data) != task:
            remedy = "Choose another --output, or delete it"
            raise InputError("was run with other settings", where=self.directory, remedy=remedy)

    def score(self) -> float:
        """Return what was reached, in percent.

        Raises:
            InputError: the task has no such score.
        """
        results = self._results()
        if self.task.metric not in results[0]:
            remedy = f"It has {', '.join(scores_in(results[0]))}"
            raise InputError(f"no score {self.task.metric!r}", where=f"the task {self.name}", remedy=remedy)
        return self.task.scale * fmean(result[self.task.metric] for result in results)

    def majority(self) -> float | None:
        """Return what always saying the most frequent class would reach, in percent, where the score is accuracy."""
        share = self._results()[0].get(_MAJORITY)
        return None if share is None or self.task.metric != "accuracy" else self.task.scale * share

    def data_used(self) -> str:
        """Say what was learned from and scored on."""
        _, config = load_finetuning(path=self.directory / artifacts.RUN_CONFIG)
        drawn = "" if config.train_examples is None else f"{config.train_examples:,} of "
        scored = f"{self._results()[0]['examples']:,} of {Path(config.dev or config.train).name}"
        return f"{drawn}{Path(config.train).name}, scored on {scored} (SHA-256 of both {config.data_sha256})"

    def collapse(self) -> str | None:
        """Return how the answers show that nothing was learned, where they do."""
        return next((result["collapse"] for result in self._results() if "collapse" in result), None)

    def _results(self) -> list[dict[str, Any]]:
        """Return what each run of it wrote down.

        Raises:
            InputError: of several runs only the best is left.
        """
        if self.task.settings.get("seeds", 1) == 1:
            return [json.loads((self.directory / SCORES).read_text("utf-8"))]
        if not (file := self.directory / TRIALS).exists():
            remedy = "Delete its directory to measure it anew"
            raise InputError("what each seed reached is not there any more", where=file, remedy=remedy)
        (setting,) = json.loads(file.read_text("utf-8"))["settings"]
        return list(setting["results"])

    def clear(self) -> None:
        """Remove the checkpoints of a fine-tuning that is scored: what stays is the settings and the scores."""
        for checkpoints in sorted(self.directory.rglob("checkpoints")):
            artifacts.remove_directory(checkpoints)


def plan_tasks(
    tasks: Mapping[str, StudyTask], data: Mapping[str, Path], directory: Path, point: int
) -> tuple[PlannedTask, ...]:
    """Return the fine-tunings of a run at one of its points: those that are done, or whose data are at hand."""
    planned = (
        PlannedTask(name, task, data.get(task.data), directory / "tasks" / name / str(point))
        for name, task in tasks.items()
    )
    return tuple(each for each in planned if each.data is not None or each.is_finished)


def measure_task(planned: PlannedTask, model: Path, seed: int, progress: Progress) -> None:
    """Fine-tune and score, or go on with that.

    Raises:
        InputError: the data or a setting is wrong, or it was begun with other settings.
        Interrupted: SIGINT or SIGTERM came; the same call goes on.
    """
    planned.check(model, seed)
    if (settings := planned.directory / artifacts.RUN_CONFIG).exists():
        begun_task, begun = load_finetuning(path=settings)
        train, dev = find_files(begun_task, str(planned.data), None)
        moved = replace(begun, model=str(model), train=train, dev=dev)  # the same, where they lie now
        artifacts.write_text(settings, to_toml(begun_task, moved))
        resume_finetuning(planned.directory, progress=progress)
    else:
        shutil.rmtree(planned.directory, ignore_errors=True)  # killed before it had settings
        task, config = planned.config(model, seed)
        finetune(task, config, planned.directory, progress=progress)
    planned.clear()


def _digest(task: type[AnyTask], data: str) -> str | None:
    """Return what identifies the content of data."""
    files = find_files(task(), data, None)
    return _digest_of_versions(task, data, tuple(file_version(file) for file in files if file is not None))


@cache  # many fine-tunings have the same
def _digest_of_versions(task: type[AnyTask], data: str, versions: tuple[object, ...]) -> str | None:
    return with_files(task(), FinetuneConfig(model="", train=data)).data_sha256
