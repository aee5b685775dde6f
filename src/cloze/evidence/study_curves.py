"""The curves of a study: held-out loss over time, scores over the steps of pre-training."""

import io
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from cloze.evidence.study_results import Compared


def loss_curves(by_variant: Mapping[str, Sequence[Compared]], base: str) -> str:
    """Draw the mean over seeds of every variant's curve; the same runs give the same bytes."""
    with _style():
        figure = Figure(figsize=(9.4, 5.0), layout="constrained")
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
        return _as_svg(figure)


def score_curves(by_variant: Mapping[str, Sequence[Compared]], metrics: Mapping[str, str]) -> str:
    """Draw every task's score over the steps of pre-training: each seed, and the mean over seeds."""
    names = [name for name in metrics if any(name in run.tasks for own in by_variant.values() for run in own)]
    with _style():
        figure = Figure(figsize=(9.4, 4.0 * len(names)), layout="constrained")
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
        return _as_svg(figure)


def _style() -> AbstractContextManager[None]:
    return rc_context({"svg.fonttype": "none", "svg.hashsalt": "cloze", "font.size": 9.0})


def _as_svg(figure: Figure) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None})
    return stream.getvalue()
