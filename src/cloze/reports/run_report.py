"""HTML report of a run: scores, curves, settings, machine and versions."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeAlias

import numpy as np

from cloze.artifacts import RUN_CONFIG
from cloze.config import read_toml
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.finetuning.finetune import TRIALS_FOLDER
from cloze.finetuning.run import SCORES
from cloze.metrics.breakdown import Breakdown
from cloze.progress import format_duration
from cloze.reports.page import Table, format_value, render, tables_in, write_page
from cloze.training.metrics_log import read_metrics
from cloze.training.run_directory import ENVIRONMENT

REPORT = "report.html"

_MAX_TABLE_ROWS = 40
_WITHOUT_TILE = ("learning_rate", "gradient_norm")
_NOT_METRICS = frozenset({"kind", "step", "phase", "epoch", "tokens", "seconds"})
_OPTIMIZATION = ("learning_rate", "gradient_norm", "tokens_per_second")
_BASELINES = ("unigram", "majority")
_MAX_POINTS = 160
_TIME_TICKS = 6
_ROUND_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800)
_MAX_CLASSES = 25
_MAX_CLASS_ROWS = 100
_MAX_NAME = 24
_CELL, _CHARACTER = 34, 7.2  # in pixels
_MIN_OPACITY = 0.06
_MAX_OPACITY = 0.5  # numbers in the color of text have a contrast of 4.5 on it, in light and dark

Rows = Sequence[Mapping[str, Any]]
"""Rows of `metrics.jsonl`."""


Curve: TypeAlias = dict[int, float]
"""The values of a metric by step."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric in training and on held-out data, with a baseline on the same held-out data."""

    name: str
    train: Curve
    held_out: Curve
    baseline: Curve
    baseline_name: str | None


def write_report(run: Path, output: Path | None = None) -> Path:
    """Write a run's report as one HTML file; the same run gives the same bytes."""
    rows, path = read_run_metrics(run), output or run / REPORT
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
        classes=breakdown and _scores_by_class(breakdown),
        matrix=breakdown and _confusion_matrix(breakdown),
        has_phases=any(row.get("phase", 0) != 0 for row in rows),
        held_out=_table([row for row in rows if row["kind"] == "validation"]),
        skipped=[
            (f"step {row['step']:,}", row.get("reason", "")) for row in rows if row["kind"] == "skipped"
        ],
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
        if metric.held_out:
            value, context = _last(metric.held_out), "held-out"
        elif metric.name == "tokens_per_second":
            value, context = median(metric.train.values()), "training, median"
        elif metric.train and metric.name not in _WITHOUT_TILE:
            value, context = _last(metric.train), "training, last"
        else:
            continue
        if metric.baseline:
            context += f"; {metric.baseline_name} {format_value(_last(metric.baseline))}"
        tiles.append((metric_label(metric.name), format_value(value), context))
    return tiles


def _last(curve: Curve) -> float:
    return [*curve.values()][-1]


def _table(rows: Rows) -> Table | None:
    """Return a table of at most `_MAX_TABLE_ROWS` evenly spaced rows, first and last included; None without rows."""
    if not rows:
        return None
    shown, caption = rows, "All evaluations"
    if len(rows) > _MAX_TABLE_ROWS:
        shown = [rows[round(i * (len(rows) - 1) / (_MAX_TABLE_ROWS - 1))] for i in range(_MAX_TABLE_ROWS)]
        caption = f"{len(shown):,} of {len(rows):,} evaluations"
    names = list(dict.fromkeys(name for row in shown for name in row if name != "kind"))

    def cell(name: str, value: object) -> str:
        if name == "seconds" and isinstance(value, (int, float)):
            return format_duration(value)
        return format_value(value)

    columns = ["time" if name == "seconds" else name.replace("_", " ") for name in names]
    return Table(columns, [[cell(name, row.get(name, "")) for name in names] for row in shown], caption)


def metric_label(name: str) -> str:
    """Write a metric's name as words.

    >>> metric_label("masked_lm_accuracy"), metric_label("tokens_per_second"), metric_label("f1")
    ('Masked LM accuracy', 'Tokens per second', 'F1')
    """
    words = name.replace("_", " ").replace("masked lm", "masked LM")
    return words[:1].upper() + words[1:]


def collect_metrics(rows: Sequence[Mapping[str, Any]]) -> list[Metric]:
    """Return the metrics of a run: losses first, then scores, then those of the optimization."""
    train, held_out = (
        _curves(row for row in rows if row["kind"] == kind) for kind in ("train", "validation")
    )
    split: dict[str, tuple[str, str | None]] = {}  # masked_lm_unigram_loss: masked_lm_loss, unigram
    for name in (*train, *held_out):
        words = name.split("_")
        kind = next((word for word in words if word in _BASELINES), None)
        split[name] = "_".join(word for word in words if word != kind), kind
    baselines = {metric: (name, kind) for name, (metric, kind) in split.items() if kind is not None}
    metrics = []
    for name in sorted(
        (name for name, (_, kind) in split.items() if kind is None),
        key=lambda name: (name != "loss", not name.endswith("loss"), name in _OPTIMIZATION),
    ):
        baseline, kind = baselines.get(name, ("", None))
        curves = (train.get(name, {}), held_out.get(name, {}), held_out.get(baseline, {}))
        metrics.append(Metric(name, *curves, kind))
    return metrics


def _curves(rows: Iterable[Mapping[str, Any]]) -> dict[str, Curve]:
    curves: dict[str, Curve] = {}
    for row in rows:
        for name, value in row.items():
            if name not in _NOT_METRICS and isinstance(value, (int, float)) and math.isfinite(value):
                curves.setdefault(name, {})[row["step"]] = float(value)
    return curves


def describe_curves(metrics: Sequence[Metric], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what `report.js` draws: the lines of each metric, the last step, the starts of phases, and times."""
    training = [row for row in rows if row["kind"] == "train" and "phase" in row]
    starts = [before["step"] for before, after in pairwise(training) if after["phase"] != before["phase"]]
    measures = []
    for metric in metrics:
        lines = (
            ("baseline", metric.baseline_name, metric.baseline),
            ("train", "training", metric.train),
            ("held-out", "held out", metric.held_out),
        )
        shown = [
            {"kind": kind, "name": name, "curve": _downsample(curve)} for kind, name, curve in lines if curve
        ]
        measures.append({"name": metric.name, "title": metric_label(metric.name), "lines": shown})
    end = max(row["step"] for row in rows)
    return {"measures": measures, "end": end, "phases": starts, "times": _times(rows)}


def _downsample(curve: Curve) -> dict[str, list[float]]:
    """Average adjacent points so that at most `_MAX_POINTS` remain."""
    steps, values = list(curve), list(curve.values())
    size = math.ceil(len(steps) / _MAX_POINTS)
    starts = range(0, len(steps), size)
    return {
        "steps": [steps[start : start + size][-1] for start in starts],
        "values": [fmean(values[start : start + size]) for start in starts],
    }


def _times(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    timed = [(row["seconds"], row["step"]) for row in rows if "seconds" in row]
    if not timed:
        return []
    seconds, steps = zip(*sorted(timed), strict=True)
    interval = next((t for t in _ROUND_TIMES if seconds[-1] / t <= _TIME_TICKS), _ROUND_TIMES[-1])
    times = np.arange(interval, seconds[-1] + 1e-9, interval)
    at = np.interp(times, (0.0, *seconds), (0, *steps))
    return [
        {"step": round(float(step), 1), "label": format_duration(float(time))}
        for step, time in zip(at, times, strict=True)
    ]


def _scores_by_class(breakdown: Breakdown) -> Table:
    """Return the table of the scores of the classes with the most errors."""
    shown = breakdown.worst(list(breakdown.parts), _MAX_CLASS_ROWS)
    parts = [breakdown.parts[name] for name in shown]
    rows = [
        [name, *map(format_value, part.scores.values()), f"{part.support:,}"]
        for name, part in zip(shown, parts, strict=True)
    ]
    caption = f"{len(shown):,} of {len(breakdown.parts):,}, those with the most errors"
    columns = [breakdown.part.replace("_", " "), *breakdown.means, "support"]
    return Table(columns, rows, "" if len(shown) == len(breakdown.parts) else caption)


def _confusion_matrix(breakdown: Breakdown) -> dict[str, Any] | None:
    """Return picture, key and width for the classes with the most errors; None where there are none to confuse."""
    if breakdown.confusion is None or len(breakdown.classes) <= 1:
        return None
    shown = breakdown.worst(breakdown.classes, _MAX_CLASSES)
    left_out = len(breakdown.classes) - len(shown)
    names = [*shown, *(["(others)"] if left_out else [])]
    key = "rows: gold; columns: predicted; color: share of the row, the palest 0%, the strongest 100%"
    if left_out:
        key += f"; {left_out:,} classes with fewer errors are summed in (others)"
    svg = confusion_matrix_svg(breakdown.matrix(shown), names)
    return {"svg": svg, "key": key, "is_wide": len(names) > _MAX_CLASSES // 2}


def confusion_matrix_svg(matrix: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """Return an SVG element with a cell for each gold class (row) and predicted class (column)."""
    labels = [name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…" for name in names]
    rows = []
    for name, label, counts in zip(names, labels, matrix, strict=True):
        total = sum(counts)
        cells = []
        for predicted, count in zip(names, counts, strict=True):
            share = count / total if total else 0.0
            title = f"{name} predicted as {predicted}: {count:,} of {total:,}"
            text = f"{count}" if count < 10_000 else f"{count / 1000:.0f}k"
            opacity = _MIN_OPACITY + (_MAX_OPACITY - _MIN_OPACITY) * share
            cells.append((title, opacity, text if count else ""))
        rows.append((label, cells))
    left = 14 + _CHARACTER * max(map(len, labels))
    top = 10 + 0.75 * left  # labels of columns are turned by 45 degrees
    size = _CELL * len(labels)
    width, height = 1.55 * left + size, top + size + 4
    return render(
        "confusion_matrix.svg", rows=rows, cell=_CELL, left=left, top=top, width=width, height=height
    )
