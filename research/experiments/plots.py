"""Plots of a study: held-out loss over time, scores over steps or perplexity, differences to the base."""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cloze.optional_dependencies import require
from experiments.published import Published
from experiments.results import PERPLEXITY, ByVariant, measured_tasks
from experiments.score_tables import ScoreTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANELS_PER_ROW = 2
_STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "cloze", "font.size": 9.0}
_PAPER: dict[str, Any] = {"color": "black", "marker": "D", "fillstyle": "none", "linestyle": ""}


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of a record; equal runs give equal bytes."""

    file: str
    caption: str
    svg: str

    @property
    def lines(self) -> list[str]:
        """The plot in a Markdown page."""
        return [f"![{self.caption}]({self.file})", ""]


def require_matplotlib() -> None:
    """Check that the plots of a record can be drawn; call it before hours of training."""
    require(["matplotlib"], extra="plots", where="the plots of a record")


@contextmanager
def styled() -> Iterator[None]:
    """Draw figures in the style of the records; also a decorator of functions that draw one."""
    require_matplotlib()
    from matplotlib import rc_context

    with rc_context(_STYLE):
        yield


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of a size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@styled()
def plot_losses(by_variant: ByVariant, base: str) -> Plot:
    """Plot the mean loss over seeds of every variant over time."""
    figure = new_figure(9.4, 5.0)
    axes = figure.add_subplot()
    for name, runs in by_variant.items():
        count = min(len(run.seconds) for run in runs)
        minutes = np.mean([run.seconds[:count] for run in runs], axis=0) / 60
        losses = np.mean([run.masked_lm_losses[:count] for run in runs], axis=0)
        style = {"color": "black", "linewidth": 2.0} if name == base else {"linewidth": 1.2}
        axes.plot(minutes, losses, label=name, **style)
    axes.set_xlabel("minutes")
    axes.set_ylabel("held-out masked-word loss, nats")
    axes.grid(axis="y", linewidth=0.4)
    axes.legend(frameon=False)
    caption = "Masked-word loss on held-out text over time, mean over seeds"
    return Plot("curves.svg", caption, as_svg(figure))


@styled()
def plot_scores(by_variant: ByVariant, metrics: Mapping[str, str]) -> Plot:
    """Plot the scores of every task over the steps of pre-training: each seed, and the mean over seeds."""
    names = measured_tasks(by_variant, metrics)
    figure = new_figure(9.4, 4.0 * len(names))
    for number, name in enumerate(names, 1):
        axes = figure.add_subplot(len(names), 1, number)
        for place, (variant, runs) in enumerate(by_variant.items()):
            points = np.array([run.tasks[name].points for run in runs if name in run.tasks])
            if not len(points):
                continue
            steps = [runs[0].steps_at(place, points.shape[1]) for place in range(points.shape[1])]
            axes.plot(steps, points.mean(0), f"C{place}-o", label=variant)
            axes.plot(steps, points.T, f"C{place}.", markersize=3.0)
        axes.set_xlabel("steps of pre-training")
        axes.set_ylabel(f"{name} ({metrics[name]}), percent")
        axes.grid(axis="y", linewidth=0.4)
        axes.legend(frameon=False)
    return Plot("quality.svg", "Scores over the steps of pre-training", as_svg(figure))


@styled()
def plot_differences(tables: Sequence[ScoreTable]) -> Plot:
    """Plot the difference of each row to the base: ours with the 95% interval, and the paper's."""
    from matplotlib.lines import Line2D

    columns = min(len(tables), _PANELS_PER_ROW)
    max_rows = max(len(table.rows) for table in tables)
    count = math.ceil(len(tables) / columns)
    figure = new_figure(9.4, count * (0.9 + 0.26 * max_rows))
    for number, table in enumerate(tables, 1):
        axes = figure.add_subplot(count, columns, number)
        axes.axvline(0, color="black", linewidth=0.8)
        for place, row in enumerate(table.rows):
            if (difference := row.difference) is not None:
                interval = [difference.low, difference.high]
                axes.plot(interval, [place, place], "C0-", solid_capstyle="butt")
                axes.plot(difference.mean, place, "C0o")
            if row.published_difference is not None:
                axes.plot(row.published_difference, place, **_PAPER)
        axes.set_yticks(range(len(table.rows)), [row.name for row in table.rows])
        axes.set_ylim(len(table.rows) - 0.5, -0.5)
        axes.set_title(table.title, fontsize="medium")
        axes.set_xlabel(f"less {table.base}")
        axes.grid(axis="x", linewidth=0.4)
    marks = [
        Line2D([], [], color="C0", marker="o", label="ours, with the 95% interval"),
        Line2D([], [], **_PAPER, label="the paper's"),
    ]
    has_papers = any(row.published_difference is not None for table in tables for row in table.rows)
    figure.legend(handles=marks[: 1 + has_papers], loc="outside lower center", ncols=2, frameon=False)
    caption = f"Differences to {tables[0].base}, with their 95% intervals"
    return Plot("differences.svg", caption, as_svg(figure))


@styled()
def plot_scores_over_perplexity(
    by_variant: ByVariant, metrics: Mapping[str, str], published: Published
) -> Plot:
    """Plot the scores of every task over the perplexity of masked words: each seed of ours, and the paper's rows."""
    names = measured_tasks(by_variant, metrics)
    figure = new_figure(9.4, 3.6)
    for number, name in enumerate(names, 1):
        axes = figure.add_subplot(1, len(names), number)
        for variant, runs in by_variant.items():
            points = np.array([(run.score(PERPLEXITY), run.score(name)) for run in runs], float)
            axes.plot(points[:, 0], points[:, 1], "o", markersize=4.0, label=variant)
        column, score = published.columns[PERPLEXITY], published.columns.get(name)
        rows = [row for row in published.facts["rows"].values() if column in row and score in row]
        axes.plot([row[column] for row in rows], [row[score] for row in rows], **_PAPER, label="the paper's")
        axes.set_xscale("log")
        axes.invert_xaxis()
        axes.set_title(f"{name} ({metrics[name]})", fontsize="medium")
        axes.set_xlabel("perplexity of masked words")
        axes.grid(linewidth=0.4)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    caption = "Scores over the perplexity of masked words, each seed, and the paper's"
    return Plot("sizes.svg", caption, as_svg(figure))


def as_svg(figure: "Figure") -> str:
    """Return a figure as SVG; equal figures give equal bytes."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None})
    return stream.getvalue()
