"""The metrics of a run as curves, which its report draws."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from cloze.progress import format_duration

_NOT_METRICS = frozenset({"kind", "step", "phase", "epoch", "tokens", "seconds"})
_OPTIMIZATION = ("learning_rate", "gradient_norm", "tokens_per_second")
_BASELINES = ("unigram", "majority")
_MAX_POINTS = 160
_TIME_TICKS = 6
_ROUND_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800)


@dataclass(frozen=True, slots=True)
class Curve:
    """Values of a metric at rising steps."""

    steps: tuple[int, ...] = ()
    values: tuple[float, ...] = ()

    @property
    def last(self) -> float | None:
        """The value at the last step; None for an empty curve."""
        return self.values[-1] if self.values else None

    def downsample(self, max_points: int) -> "Curve":
        """Average adjacent points so that at most `max_points` remain."""
        size = max(1, math.ceil(len(self.steps) / max_points))
        starts = range(0, len(self.steps), size)
        return Curve(
            tuple(self.steps[start : start + size][-1] for start in starts),
            tuple(fmean(self.values[start : start + size]) for start in starts),
        )


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric in training and on held-out data, with a baseline on the same held-out data."""

    name: str
    train: Curve
    held_out: Curve
    baseline: Curve
    baseline_name: str | None

    @property
    def label(self) -> str:
        """The name for people."""
        return metric_label(self.name)


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
    names = dict.fromkeys([*train, *held_out])
    baselines: dict[str, tuple[str, str]] = {}
    for name in names:
        if (split := _split_baseline(name)) is not None:
            baselines.setdefault(split[0], (name, split[1]))
    metrics = []
    ranked = sorted(
        (name for name in names if _split_baseline(name) is None),
        key=lambda name: (name != "loss", not name.endswith("loss"), name in _OPTIMIZATION),
    )
    for name in ranked:
        baseline, kind = baselines.get(name, ("", None))
        curves = (train.get(name, Curve()), held_out.get(name, Curve()), held_out.get(baseline, Curve()))
        metrics.append(Metric(name, *curves, kind))
    return metrics


def _curves(rows: Iterable[Mapping[str, Any]]) -> dict[str, Curve]:
    points: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        for name, value in row.items():
            if name not in _NOT_METRICS and isinstance(value, (int, float)) and math.isfinite(value):
                points.setdefault(name, []).append((row["step"], float(value)))
    return {name: Curve(*map(tuple, zip(*pairs, strict=True))) for name, pairs in points.items()}


def _split_baseline(name: str) -> tuple[str, str] | None:
    """Split `masked_lm_unigram_loss` into the metric, `masked_lm_loss`, and the baseline, `unigram`."""
    words = name.split("_")
    for baseline in _BASELINES:
        if baseline in words and len(words) > 1:
            return "_".join(word for word in words if word != baseline), baseline
    return None


def describe_curves(metrics: Sequence[Metric], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what `report.js` draws: the lines of each metric, the last step, the starts of phases, and times."""
    training = [row for row in rows if row["kind"] == "train" and "phase" in row]
    starts = [before["step"] for before, after in pairwise(training) if after["phase"] != before["phase"]]
    return {
        "measures": [_describe(metric) for metric in metrics],
        "end": max(row["step"] for row in rows),
        "phases": starts,
        "times": _times(rows),
    }


def _describe(metric: Metric) -> dict[str, Any]:
    lines = (
        ("baseline", metric.baseline_name, metric.baseline),
        ("train", "training", metric.train),
        ("held-out", "held out", metric.held_out),
    )
    shown = [
        {"kind": kind, "name": name, "curve": asdict(curve.downsample(_MAX_POINTS))}
        for kind, name, curve in lines
        if curve.values
    ]
    return {"name": metric.name, "title": metric.label, "lines": shown}


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
