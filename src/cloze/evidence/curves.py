"""The measures of a run over its steps, and their pictures."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from cloze.evidence.pictures import BASELINE, HELD_OUT, TRAIN, draw_picture
from cloze.progress import clock

_BOOKKEEPING = frozenset({"kind", "step", "phase", "epoch", "tokens", "seconds"})
_BASELINES = ("unigram", "majority")
_ROUND_STEPS = (1, 2, 2.5, 5, 10)
_FEW_POINTS = 30
_TIME_TICKS = 6
_ROUND_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800)


@dataclass(frozen=True, slots=True)
class Curve:
    """Values of one measure at rising steps."""

    steps: tuple[int, ...] = ()
    values: tuple[float, ...] = ()

    @property
    def last(self) -> float | None:
        """The value at the last step; None where nothing was measured."""
        return self.values[-1] if self.values else None

    def thinned(self, most: int) -> "Curve":
        """Return means over neighbours, so that a long run draws no more points than a short one."""
        size = max(1, math.ceil(len(self.steps) / most))
        starts = range(0, len(self.steps), size)
        return Curve(
            tuple(self.steps[start : start + size][-1] for start in starts),
            tuple(fmean(self.values[start : start + size]) for start in starts),
        )


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure in training and on held-out data, and what the simplest method reaches on the same data."""

    name: str
    train: Curve
    held_out: Curve
    baseline: Curve
    baseline_name: str | None

    @property
    def label(self) -> str:
        """What a person calls it."""
        return label_of(self.name)


def label_of(name: str) -> str:
    """Write a measure's name as words.

    >>> label_of("masked_lm_accuracy"), label_of("tokens_per_second"), label_of("f1")
    ('Masked LM accuracy', 'Tokens per second', 'F1')
    """
    words = name.replace("_", " ").replace("masked lm", "masked LM")
    return words[:1].upper() + words[1:]


def measures_of(rows: Sequence[Mapping[str, Any]]) -> list[Measure]:
    """Gather the curves of a run: losses first, then scores, then how the training went."""
    curves = {kind: _curves(row for row in rows if row["kind"] == kind) for kind in ("train", "validation")}
    names = dict.fromkeys([*curves["train"], *curves["validation"]])
    baselines = {name: parts for name in names if (parts := _baseline_of(name)) is not None}
    found = []
    for name in sorted((n for n in names if n not in baselines), key=_rank):
        beside = next((b for b, (measure, _) in baselines.items() if measure == name), None)
        found.append(
            Measure(
                name,
                curves["train"].get(name, Curve()),
                curves["validation"].get(name, Curve()),
                Curve() if beside is None else curves["validation"].get(beside, Curve()),
                None if beside is None else baselines[beside][1],
            )
        )
    return found


def _curves(rows: Iterable[Mapping[str, Any]]) -> dict[str, Curve]:
    points: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        for name, value in row.items():
            if name not in _BOOKKEEPING and isinstance(value, (int, float)) and math.isfinite(value):
                points.setdefault(name, []).append((row["step"], float(value)))
    return {name: Curve(*map(tuple, zip(*pairs, strict=True))) for name, pairs in points.items()}


def _baseline_of(name: str) -> tuple[str, str] | None:
    """Split masked_lm_unigram_loss into the measure it stands beside, masked_lm_loss, and unigram."""
    words = name.split("_")
    for baseline in _BASELINES:
        if baseline in words and len(words) > 1:
            return "_".join(word for word in words if word != baseline), baseline
    return None


def _rank(name: str) -> int:
    if name == "loss":
        return 0
    if name.endswith("loss"):
        return 1
    return 3 if name in ("learning_rate", "gradient_norm", "tokens_per_second") else 2


def draw(measure: Measure, rows: Sequence[Mapping[str, Any]], *, wide: bool) -> str:
    """Draw one measure over the steps as an SVG element; the same rows give the same bytes.

    Args:
        measure: what is drawn.
        rows: of the run; they tell where a phase begins and, for a wide picture, when a step was taken.
        wide: span the page and show the time, too.
    """

    def plot(axes: Axes) -> None:
        most_points = 300 if wide else 150
        _plot(axes, measure.train.thinned(most_points), TRAIN, "-")
        _plot(axes, measure.baseline.thinned(most_points), BASELINE, "--")
        _plot(axes, measure.held_out.thinned(most_points), HELD_OUT, "-")
        axes.set_xlabel("step")
        axes.xaxis.set_major_locator(
            MaxNLocator(nbins=8 if wide else 5, steps=_ROUND_STEPS, integer=True, min_n_ticks=1)
        )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=_ROUND_STEPS))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        end = max(row["step"] for row in rows)
        axes.set_xlim(-0.015 * end, 1.015 * end + 1)  # the same in all pictures of a run
        _mark_phases(axes, rows)
        if wide:
            _add_time_axis(axes, rows)

    return draw_picture(measure.name, plot, wide=wide)


def _plot(axes: Axes, curve: Curve, colour: str, line: str) -> None:
    if len(curve.values) == 1 and colour == BASELINE:
        axes.axhline(curve.values[0], color=colour, linestyle=line)
    marker = "o" if len(curve.steps) <= _FEW_POINTS and line == "-" else ""
    axes.plot(curve.steps, curve.values, color=colour, linestyle=line, marker=marker)


def _mark_phases(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    training = [row for row in rows if row["kind"] == "train" and "phase" in row]
    for before, after in pairwise(training):
        if after["phase"] != before["phase"]:
            axes.axvline(before["step"], color=BASELINE, linewidth=0.8, linestyle=":")


def _add_time_axis(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    timed = [(row["seconds"], row["step"]) for row in rows if "seconds" in row]
    if not timed:
        return
    seconds, steps = zip(*sorted(timed), strict=True)
    interval = next((t for t in _ROUND_TIMES if seconds[-1] / t <= _TIME_TICKS), _ROUND_TIMES[-1])
    times = np.arange(0, seconds[-1] + 1e-9, interval)
    top = axes.twiny()
    top.set_xlim(axes.get_xlim())
    places = np.interp(times, (0.0, *seconds), (0, *steps))
    top.set_xticks(places, [clock(time) for time in times])
    top.set_xlabel("time since the start")
    top.spines[["left", "right", "bottom"]].set_visible(False)
    top.grid(visible=False)
