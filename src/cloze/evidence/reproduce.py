"""The paper's result tables: what was published, and your models' scores beside it.

A table is two things: its published rows, in `published.toml`, and its columns, here, which say how a score of yours
comes about.
"""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from cloze import artifacts
from cloze.errors import InputError
from cloze.evidence.ablations import ABLATIONS
from cloze.evidence.study_published import SOURCE, published_tables
from cloze.inference.ensemble import load_ensemble, models_by_task
from cloze.progress import SILENT, Progress
from cloze.tasks.data import find_data
from cloze.tasks.registry import find_task
from cloze.training.environment import describe_environment

_AVERAGE = "Average"
_PERPLEXITY = "LM (ppl)"


@dataclass(frozen=True, slots=True)
class Measured:
    """How a score of yours comes about: a model of `task`, on a file, one of its metrics, in percent."""

    task: str
    metric: str
    folder: str = ""
    """Where the data are, below the directory that the user names."""
    file: str | None = None
    """None: the dev file, by one of the names that the task knows."""
    factor: float = 100.0
    """SQuAD's metrics are in percent already."""


_SQUAD_V1 = {
    "Dev EM": Measured("squad_v1", "exact_match", factor=1.0),
    "Dev F1": Measured("squad_v1", "f1", factor=1.0),
}
_SQUAD_V2 = {
    "Dev EM": Measured("squad_v2", "exact", factor=1.0),
    "Dev F1": Measured("squad_v2", "f1", factor=1.0),
}
_NOT_MEASURED = {"Test EM": None, "Test F1": None}
COLUMNS: Mapping[str, Mapping[str, Measured | None]] = {
    "table1": {
        "MNLI-m": Measured("mnli", "accuracy", "MNLI"),
        "MNLI-mm": Measured("mnli", "accuracy", "MNLI", "dev_mismatched.tsv"),
        "QQP": Measured("qqp", "f1", "QQP"),
        "QNLI": Measured("qnli", "accuracy", "QNLI"),
        "SST-2": Measured("sst2", "accuracy", "SST-2"),
        "CoLA": Measured("cola", "matthews", "CoLA"),
        "STS-B": Measured("stsb", "spearman", "STS-B"),
        "MRPC": Measured("mrpc", "f1", "MRPC"),
        "RTE": Measured("rte", "accuracy", "RTE"),
        _AVERAGE: None,
    },
    "table2": {**_SQUAD_V1, **_NOT_MEASURED},
    "table3": {**_SQUAD_V2, **_NOT_MEASURED},
    "table4": {"Dev": Measured("swag", "accuracy"), "Test": None},
}
"""The columns of each table in their order; None: published only, or the mean of the others."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What a score of yours was computed of."""

    task: str
    models: tuple[str, ...]
    data: str
    data_sha256: str
    examples: int
    scores: dict[str, float]
    """All of the task's, as `cloze evaluate` prints them."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A table of the paper, and a row of yours where there are models."""

    table: str
    title: str
    measured_on: str
    own_measured_on: str
    says: str
    """What the paper concludes of an ablation, in our words."""
    columns: tuple[str, ...]
    published: dict[str, dict[str, float]]
    own: dict[str, float]
    """By column, in percent; empty where no model was given."""
    missing: tuple[str, ...]
    """Which columns of yours are empty, and why."""
    evaluated: tuple[Evaluated, ...]

    @property
    def own_name(self) -> str:
        """How your row is called."""
        most = max((len(each.models) for each in self.evaluated), default=1)
        return "yours" if most == 1 else f"yours (ensemble of {most})"

    @property
    def caption(self) -> list[str]:
        """What the numbers are."""
        unit = "percent, but for perplexity (ppl)" if _PERPLEXITY in self.columns else "percent"
        lines = [
            f"{self.title}, as in {self.table[:-1]} {self.table[-1]} of {SOURCE}; {unit}",
            f"published: {self.measured_on}",
        ]
        if self.says:
            lines.append(f"what it says: {self.says}")
        return [*lines, f"yours: {self.own_measured_on}"] if self.evaluated else lines

    def cells(self) -> list[list[str]]:
        """Return the table with its heads, row by row."""
        rows = {
            name: {column: str(value) for column, value in row.items()}
            for name, row in self.published.items()
        }
        if self.evaluated:
            rows[self.own_name] = {column: f"{value:.1f}" for column, value in self.own.items()}
        lines = [[name, *(row.get(column, "-") for column in self.columns)] for name, row in rows.items()]
        return [["", *self.columns], *lines]

    def as_text(self) -> str:
        """Return the table aligned, below what its numbers are, above what is missing and what it was computed of."""
        if not self.columns:
            return "\n".join(self.caption)
        cells = self.cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in cells
        ]
        return "\n".join([*self.caption, "", *rows, *(["", *self._notes()] if self._notes() else [])])

    def as_markdown(self) -> str:
        """Return the same as a page."""
        head, *rows = (f"| {' | '.join(row)} |" for row in self.cells())
        rule = "|" + "---|" * (len(self.columns) + 1)
        notes = [f"- {note}" for note in (*self.caption[1:], *self._notes())]
        return "\n".join([f"# {self.caption[0]}", "", head, rule, *rows, "", *notes]) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        return {
            "table": self.table,
            "title": self.title,
            "source": SOURCE,
            "measured_on": self.measured_on,
            "own_measured_on": self.own_measured_on,
            "says": self.says,
            "published": self.published,
            "own": self.own,
            "missing": list(self.missing),
            "evaluated": [
                {
                    "task": each.task,
                    "models": list(each.models),
                    "data": each.data,
                    "data_sha256": each.data_sha256,
                    "examples": each.examples,
                    "scores": each.scores,
                }
                for each in self.evaluated
            ],
        }

    def _notes(self) -> list[str]:
        done = [
            f"{each.task}: {each.examples:,} examples of {each.data}, by {', '.join(each.models)}"
            for each in self.evaluated
        ]
        return [*self.missing, *done]


def reproduce(
    table: str,
    models: Sequence[Path] = (),
    data: Path | None = None,
    *,
    ensemble: bool = False,
    device: str = "auto",
    progress: Progress = SILENT,
) -> Reproduction:
    """Return a table of the paper, with a row of your models' scores where some are given.

    Args:
        table: table1 to table4; of an ablation there are the published rows alone.
        models: checkpoints or runs, fine-tuned for tasks of the table: their task.toml says which.
        data: for table 1 the directory of GLUE's data, a folder a task; for the others the dev file, or its directory.
        ensemble: whether several models of one task answer as one.
        device: cpu, cuda, mps or auto.
        progress: where to tell how far it is.

    Raises:
        InputError: no such table, a model that is none of the table's, or nothing to be measured at all.
    """
    columns = _columns_of(table)
    published = published_tables()[table]
    own, missing, evaluated = {}, [], {}
    if models:
        if data is None or not data.exists():
            what, remedy = "no such file or directory", "Name that of the dev data"
            raise InputError(what, where=data or "--data", remedy=remedy)
        by_task = _models_of(models, columns, ensemble=ensemble, table=table)
        for name, measured in columns.items():
            if measured is None:
                continue
            if measured.task not in by_task:
                missing.append(f"{name}: no model for {measured.task}")
                continue
            try:
                file = _find(measured, data)
            except InputError as error:
                missing.append(f"{name}: no data, {error.where}: {error.what}")
                continue
            if (measured.task, file) not in evaluated:
                own_models = by_task[measured.task]
                evaluated[measured.task, file] = _evaluate(
                    measured.task, own_models, file, device=device, progress=progress
                )
            own[name] = measured.factor * evaluated[measured.task, file].scores[measured.metric]
        if not own:
            raise InputError("; ".join(missing), where=data, remedy="Nothing of the table can be measured")
        if _AVERAGE in columns and not missing:
            own[_AVERAGE] = fmean(own.values())
    return Reproduction(
        table,
        published["title"],
        published["measured_on"],
        published.get("own_measured_on", ""),
        published.get("says", ""),
        tuple(columns),
        published["rows"],
        own,
        tuple(missing),
        tuple(evaluated.values()),
    )


def write_record(found: Reproduction, directory: Path, *, device: str, overwrite: bool = False) -> None:
    """Write a directory with the table as a page, as JSON, and with where it was made.

    Raises:
        InputError: something is there already.
        RunError: the disk is full or cannot be written.
    """
    import torch

    from cloze.training.precision import resolve_device

    environment = describe_environment(resolve_device(device), torch.float32)
    with artifacts.write_directory(directory, kind="record", overwrite=overwrite) as temporary:
        (temporary / "README.md").write_text(found.as_markdown(), "utf-8")
        record = {**found.as_dict(), "environment": environment}
        (temporary / "table.json").write_text(
            json.dumps(record, ensure_ascii=False, indent=1) + "\n", "utf-8"
        )


def _columns_of(table: str) -> Mapping[str, Measured | None]:
    if table in COLUMNS:
        return COLUMNS[table]
    if table in ABLATIONS:
        rows = published_tables()[table]["rows"].values()
        return dict.fromkeys(column for row in rows for column in row)
    known = (*COLUMNS, *ABLATIONS)
    near = difflib.get_close_matches(table, known, n=1)
    remedy = f"Did you mean {near[0]}" if near else f"There are {', '.join(known)}"
    raise InputError(f"no table {table!r}", remedy=remedy)


def _models_of(
    models: Sequence[Path], columns: Mapping[str, Measured | None], *, ensemble: bool, table: str
) -> dict[str, list[Path]]:
    """Return the models for each task, all of which must be the table's."""
    found = models_by_task(models, ensemble=ensemble)
    wanted = {measured.task: None for measured in columns.values() if measured is not None}
    for task, own in found.items():
        if task not in wanted:
            what = f"is for {task}, which is not in {table}"
            raise InputError(what, where=own[0], remedy=f"That has {', '.join(wanted)}")
    return found


def _find(measured: Measured, data: Path) -> Path:
    """Return the file with the dev data.

    Raises:
        InputError: it is not there.
    """
    folder = data / measured.folder
    file = (
        Path(find_data(find_task(measured.task)(), folder, "dev"))
        if measured.file is None
        else folder / measured.file
    )
    if not file.is_file():
        raise InputError("not there", where=file)
    return file


def _evaluate(task: str, models: Sequence[Path], file: Path, *, device: str, progress: Progress) -> Evaluated:
    """Score a model, or several as one, on a file."""
    progress.note(f"{task}: {file}")
    predictor = load_ensemble(models, task, device=device)
    evaluation = predictor.evaluate(predictor.task.examples(file), progress=progress)
    return Evaluated(
        task,
        tuple(map(str, models)),
        str(file),
        artifacts.sha256_of(file),
        len(evaluation.answers),
        evaluation.scores,
    )
