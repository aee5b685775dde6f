"""The paper's result tables, with the scores of your models.

published.toml has the rows of each table, and how the score of a column is computed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from cloze import artifacts, file_io
from cloze.errors import InputError
from cloze.inference.load import group_models_by_task, load_ensemble
from cloze.progress import SILENT, Progress
from cloze.tables import text_table
from cloze.tasks.data import find_split_file
from cloze.tasks.registry import find_task
from cloze.training.precision import resolve_device
from cloze.training.run_directory import describe_environment
from experiments.markdown_tables import markdown_table
from experiments.published import SOURCE, published_table, table_name

_AVERAGE = "Average"
_PERPLEXITY = "LM (ppl)"


@dataclass(frozen=True, slots=True)
class Column:
    """How the score of a column is computed: one metric of a task's model on a file, in percent."""

    task: str
    metric: str
    folder: str = ""
    """Of the data, in the directory that the user names."""
    file: str | None = None
    """None: the dev file, by a name that the task knows."""
    factor: float = 100.0
    """1 for metrics that are in percent already."""


def table_columns(table: str) -> dict[str, Column | None]:
    """Return the columns of a table in their order; None if a column is only published or an average."""
    facts = published_table(table)
    if "columns" in facts:
        return {name: Column(**settings) if settings else None for name, settings in facts["columns"].items()}
    return dict.fromkeys(column for row in facts["rows"].values() for column in row)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The models, data and scores behind a column."""

    task: str
    models: list[str]
    data: str
    data_sha256: str
    examples: int
    scores: dict[str, float]
    """All scores of the task, as `cloze evaluate` prints them."""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table of the paper, with a row of your models if there are any."""

    table: str
    columns: tuple[str, ...]
    scores: dict[str, float]
    """Your scores by column, in percent."""
    missing: list[str]
    """The columns without a score of yours, and the reasons."""
    evaluations: list[Evaluation]

    @property
    def facts(self) -> dict[str, Any]:
        """The published table."""
        return published_table(self.table)

    @property
    def caption(self) -> list[str]:
        """The meaning of the numbers."""
        unit = "percent, but for perplexity (ppl)" if _PERPLEXITY in self.columns else "percent"
        lines = [
            f"{self.facts['title']}, as in {table_name(self.table)} of {SOURCE}; {unit}",
            f"published: {self.facts['measured_on']}",
        ]
        if "says" in self.facts:
            lines.append(f"what it says: {self.facts['says']}")
        return [*lines, f"yours: {self.facts['own_measured_on']}"] if self.evaluations else lines

    @property
    def rows(self) -> list[list[str]]:
        """The published rows and, if there are scores, yours."""
        rows = {
            name: {column: str(score) for column, score in row.items()}
            for name, row in self.facts["rows"].items()
        }
        if self.evaluations:
            count = max(len(evaluation.models) for evaluation in self.evaluations)
            name = "yours" if count == 1 else f"yours (ensemble of {count})"
            rows[name] = {column: f"{score:.1f}" for column, score in self.scores.items()}
        return [[name, *(row.get(column, "-") for column in self.columns)] for name, row in rows.items()]

    @property
    def notes(self) -> list[str]:
        """The missing columns, and the sources of the others."""
        sources = [
            f"{used.task}: {used.examples:,} examples of {used.data}, by {', '.join(used.models)}"
            for used in self.evaluations
        ]
        return [*self.missing, *sources]

    def as_text(self) -> str:
        """Return the table with its caption, missing columns and sources."""
        lines = self.caption
        if self.columns:
            lines += ["", text_table(["", *self.columns], self.rows)]
            lines += ["", *self.notes] if self.notes else []
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the table as JSON."""
        return {
            "table": self.table,
            "title": self.facts["title"],
            "source": SOURCE,
            "measured_on": self.facts["measured_on"],
            "own_measured_on": self.facts.get("own_measured_on", ""),
            "says": self.facts.get("says", ""),
            "published": self.facts["rows"],
            "own": self.scores,
            "missing": self.missing,
            "evaluated": [asdict(evaluation) for evaluation in self.evaluations],
        }

    def write(self, directory: Path, *, device: str, overwrite: bool = False) -> None:
        """Write a directory with the table as a page and as JSON, and with the environment."""
        environment = describe_environment(resolve_device(device), torch.float32)
        title, *caption = self.caption
        table = markdown_table(["", *self.columns], self.rows)
        page = [f"# {title}", "", table, "", *(f"- {note}" for note in (*caption, *self.notes))]
        record = json.dumps({**self.as_dict(), "environment": environment}, ensure_ascii=False, indent=1)
        with artifacts.write_directory(directory, kind="record", overwrite=overwrite) as temporary:
            (temporary / "README.md").write_text("\n".join(page) + "\n", "utf-8")
            (temporary / "table.json").write_text(record + "\n", "utf-8")


def reproduce(
    table: str,
    models: Sequence[Path] = (),
    data: Path | None = None,
    *,
    ensemble: bool = False,
    device: str = "auto",
    progress: Progress = SILENT,
) -> ResultTable:
    """Return a table of the paper, with a row of scores of your models.

    Args:
        table: table1 to table4; for an ablation only the published rows are returned.
        models: checkpoints or runs, fine-tuned for tasks of the table, as their task.toml says.
        data: for table 1 the directory of GLUE's data, with a folder per task; else the dev file or its directory.
        ensemble: average the logits of several models of one task.
    """
    columns = table_columns(table)
    scores: dict[str, float] = {}
    missing: list[str] = []
    evaluations: dict[tuple[str, Path], Evaluation] = {}
    if models:
        if data is None or not data.exists():
            remedy = "Name that of the dev data"
            raise InputError("no such file or directory", where=data or "--data", remedy=remedy)
        by_task = _group_models(models, columns, ensemble=ensemble, table=table)
        for name, column in columns.items():
            if column is None:
                continue
            if column.task not in by_task:
                missing.append(f"{name}: no model for {column.task}")
                continue
            try:
                file = _find_file(column, data)
            except InputError as error:
                missing.append(f"{name}: no data, {error.where}: {error.what}")
                continue
            key = column.task, file
            if key not in evaluations:
                evaluations[key] = _evaluate(column.task, by_task[column.task], file, device, progress)
            scores[name] = column.factor * evaluations[key].scores[column.metric]
        if not scores:
            raise InputError("; ".join(missing), where=data, remedy="Give models and data of the table")
        if _AVERAGE in columns and not missing:
            scores[_AVERAGE] = fmean(scores.values())
    return ResultTable(table, tuple(columns), scores, missing, list(evaluations.values()))


def _group_models(
    models: Sequence[Path], columns: Mapping[str, Column | None], *, ensemble: bool, table: str
) -> dict[str, list[Path]]:
    """Return the models of each task; every task must be in the table."""
    by_task = group_models_by_task(models, ensemble=ensemble)
    tasks = dict.fromkeys(column.task for column in columns.values() if column is not None)
    for task, paths in by_task.items():
        if task not in tasks:
            what = f"is for {task}, which is not in {table}"
            raise InputError(what, where=paths[0], remedy=f"{table} has {', '.join(tasks)}")
    return by_task


def _find_file(column: Column, data: Path) -> Path:
    """Return the file with the dev data."""
    folder = data / column.folder
    task = find_task(column.task)
    file = Path(find_split_file(task, folder, "dev")) if column.file is None else folder / column.file
    if not file.is_file():
        raise InputError("does not exist", where=file)
    return file


def _evaluate(task: str, models: Sequence[Path], file: Path, device: str, progress: Progress) -> Evaluation:
    """Score a model, or an ensemble, on a file."""
    progress.note(f"{task}: {file}")
    predictor = load_ensemble(models, task, device=device)
    scores, answers = predictor.evaluate(predictor.task.examples(file), progress=progress)
    digest = file_io.sha256_of_file(file)
    return Evaluation(task, list(map(str, models)), str(file), digest, len(answers), scores)
