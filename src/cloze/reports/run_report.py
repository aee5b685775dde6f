"""HTML report of a run: scores, curves, settings, machine and versions."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from cloze import artifacts
from cloze.artifacts import RUN_CONFIG
from cloze.config import read_toml
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.finetuning.finetune import TRIALS_FOLDER
from cloze.finetuning.run import SCORES
from cloze.metrics.breakdown import Breakdown
from cloze.progress import format_duration
from cloze.reports.class_scores import confusion_matrix, scores_by_class
from cloze.reports.curves import Metric, collect_metrics, describe_curves, metric_label
from cloze.reports.page import Table, format_value, tables_in, write_page
from cloze.training.environment import ENVIRONMENT
from cloze.training.metrics_log import read_metrics

REPORT = "report.html"

_MAX_TABLE_ROWS = 40
_WITHOUT_TILE = ("learning_rate", "gradient_norm")

Rows = Sequence[Mapping[str, Any]]
"""Rows of `metrics.jsonl`."""


def write_report(run: Path, *, output: Path | None = None, overwrite: bool = False) -> Path:
    """Write a run's report as one HTML file; the same run gives the same bytes.

    Args:
        run: directory of a pre-training or fine-tuning run, finished or not.
        output: default `report.html` in the run, which is always replaced.
    """
    rows = read_run_metrics(run)
    if output is not None:
        artifacts.check_output_path(output, overwrite=overwrite, directory=False)
    path = output or run / REPORT
    settings = read_toml(run / RUN_CONFIG) if (run / RUN_CONFIG).is_file() else {}
    scores, environment = (
        read_json(run / name) if (run / name).exists() else {} for name in (SCORES, ENVIRONMENT)
    )
    kind = "pre-training run" if "masking" in settings else "run"
    metrics = collect_metrics(rows)
    values = [
        (metric_label(name), format_value(math.nan if value is None else value))
        for name, value in scores.items()
        if not isinstance(value, dict) and name != "collapse"
    ]
    breakdown = Breakdown.from_dict(scores)
    skipped = [row for row in rows if row["kind"] == "skipped"]
    write_page(
        path,
        "report",
        describe_curves(metrics, rows) if metrics else None,
        name=run.resolve().name,
        kind=f"fine-tuning run: {settings['task']}" if "task" in settings else kind,
        extent=_extent(rows),
        tiles=_tiles(metrics),
        scores=values if scores else None,
        collapse=scores.get("collapse"),
        classes=breakdown and scores_by_class(breakdown),
        matrix=breakdown and confusion_matrix(breakdown),
        has_phases=any(row.get("phase", 0) != 0 for row in rows),
        held_out=_table("evaluations", [row for row in rows if row["kind"] == "validation"]),
        training=_table("logged training steps", [row for row in rows if row["kind"] == "train"]),
        skipped=[(f"step {row['step']:,}", row.get("reason", "")) for row in skipped],
        settings=tables_in(settings, "run"),
        environment=tables_in(environment),
    )
    return path


def read_run_metrics(run: Path) -> list[dict[str, Any]]:
    """Read the rows of a run's metrics, each with a kind and a step."""
    if not run.is_dir():
        what = "is a file" if run.exists() else "no such directory"
        raise InputError(what, where=run, remedy="Give the directory of a run")
    if (trials := run / TRIALS_FOLDER).is_dir():
        first = next(iter(sorted(trials.iterdir())), trials)
        raise InputError("holds several runs", where=run, remedy=f"Name one of them, as in {first}")
    return read_metrics(run)


def _extent(rows: Rows) -> str:
    if not rows:
        return "No metrics logged yet."
    parts = [f"{rows[-1]['step']:,} optimizer steps"]
    for name, write in (("tokens", "{:,} tokens".format), ("seconds", format_duration)):
        if (last := next((row[name] for row in reversed(rows) if name in row), None)) is not None:
            parts.append(write(last))
    return " · ".join(parts)


def _tiles(metrics: Sequence[Metric]) -> list[tuple[str, str, str]]:
    """Return label, last value and context of every result; the context has the baseline."""
    tiles = []
    for metric in metrics:
        value, context = metric.train.last, "training, last"
        if metric.held_out.last is not None:
            value, context = metric.held_out.last, "held-out"
        elif metric.name == "tokens_per_second" and metric.train.values:
            value, context = median(metric.train.values), "training, median"
        if value is None or metric.name in _WITHOUT_TILE:
            continue
        if metric.baseline.last is not None:
            context += f"; {metric.baseline_name} {format_value(metric.baseline.last)}"
        tiles.append((metric.label, format_value(value), context))
    return tiles


def _table(kind: str, rows: Rows) -> Table | None:
    """Return a table of at most `_MAX_TABLE_ROWS` evenly spaced rows, first and last included; None without rows."""
    if not rows:
        return None
    shown, caption = rows, f"All {kind}"
    if len(rows) > _MAX_TABLE_ROWS:
        shown = [rows[round(i * (len(rows) - 1) / (_MAX_TABLE_ROWS - 1))] for i in range(_MAX_TABLE_ROWS)]
        caption = f"{len(shown):,} of {len(rows):,} {kind}"
    names = list(dict.fromkeys(name for row in shown for name in row if name != "kind"))

    def cell(name: str, value: object) -> str:
        if name == "seconds" and isinstance(value, (int, float)):
            return format_duration(value)
        return format_value(value)

    columns = ["time" if name == "seconds" else name.replace("_", " ") for name in names]
    return Table(columns, [[cell(name, row.get(name, "")) for name in names] for row in shown], caption)
