"""The measurements of the finished runs of a study."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloze import file_io
from cloze.training.run_directory import ENVIRONMENT

MASKED = "masked_lm_loss"
NEXT_SENTENCE = "next_sentence_accuracy"
PERPLEXITY = "perplexity"
"""Perplexity of masked words, on held-out text read as pairs, or as single segments by an encoder without pairs."""
NEIGHBORS = "neighbors"


@dataclass(frozen=True, slots=True)
class TaskScores:
    """The scores of an encoder on a task."""

    points: tuple[float, ...]
    """In percent, at each point of pre-training; the last is its end."""
    collapses: tuple[str | None, ...] = ()
    """How the answers show that nothing was learned, by point."""
    majority: float | None = None
    """Accuracy of always choosing the most frequent class, if known."""
    data: str = ""
    """Training and scoring data."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The measurements of a finished run."""

    variant: str
    seed: int
    parameters: int | None = None
    """Parameters of the encoder; None if it is not pre-trained."""
    data_sha256: str | None = None
    """Fingerprint of the pre-training data."""
    held_out_as: str | None = None
    """How the instances of the loss curve were made: curves with equal values can be compared. None: not
    pre-trained."""
    max_seq_length: int | None = None
    """Of the instances measured at the end."""
    seconds: tuple[float, ...] = ()
    """Times of the evaluations."""
    masked_lm_losses: tuple[float, ...] = ()
    """Losses of the evaluations, in nats."""
    steps: int | None = None
    tokens: int | None = None
    pairs: dict[str, float] = field(default_factory=dict)
    """Metrics at the end on held-out text read as pairs, the same for all encoders with masked words."""
    segments: dict[str, float] = field(default_factory=dict)
    """The same on text read as single segments."""
    neighbors: dict[str, float] = field(default_factory=dict)
    """For a causal encoder, its metrics instead: of predicting the next token, or the one before."""
    tasks: dict[str, TaskScores] = field(default_factory=dict)
    environment: dict[str, Any] | None = None

    def loss(self, kind: str) -> float | None:
        """Return the masked-word loss at the end on pairs, segments or neighbors; None if it was not measured."""
        metrics: dict[str, float] = getattr(self, kind)
        return metrics.get(MASKED)

    def seconds_to(self, loss: float) -> float | None:
        """Return when the curve first reached a loss, interpolated between evaluations; None if never."""
        before = None
        for seconds, value in zip(self.seconds, self.masked_lm_losses, strict=True):
            if value <= loss:
                if before is None:
                    return seconds
                share = (before[1] - loss) / (before[1] - value)
                return before[0] + share * (seconds - before[0])
            before = (seconds, value)
        return None

    def steps_at(self, index: int, count: int) -> int:
        """Return the steps of pre-training before a point, counted from 0."""
        return (self.steps or 0) * (index + 1) // count

    def score(self, measure: str) -> float | None:
        """Return the final score on a task, or the perplexity; None if it was not measured."""
        if measure == PERPLEXITY:
            loss = self.loss("pairs" if NEXT_SENTENCE in self.pairs else "segments")
            return None if loss is None else math.exp(loss)
        return self.tasks[measure].points[-1] if measure in self.tasks else None


ByVariant = Mapping[str, list[RunResult]]


def group_by_variant(runs: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    """Return the runs of each variant, in their order."""
    by_variant: dict[str, list[RunResult]] = {}
    for run in runs:
        by_variant.setdefault(run.variant, []).append(run)
    return by_variant


def measured_tasks(by_variant: ByVariant, metrics: Mapping[str, str]) -> list[str]:
    """Return the tasks with scores, in the order of the study."""
    measured = {name for runs in by_variant.values() for run in runs for name in run.tasks}
    return [name for name in metrics if name in measured]


def scores_by_seed(runs: list[RunResult], measure: str) -> dict[int, float]:
    """Return the final scores of runs by seed."""
    return {run.seed: score for run in runs if (score := run.score(measure)) is not None}


def read_environment(directory: Path) -> dict[str, Any] | None:
    """Return the environment of a run, or of the first of several; None if it was not kept."""
    file = min(directory.rglob(ENVIRONMENT), key=lambda file: (len(file.parts), file), default=None)
    return None if file is None else file_io.read_json(file)


def describe_machine(environment: Mapping[str, Any]) -> str:
    """Return the device, threads, number format and version of torch of a run."""
    device = "" if environment["device"] == "cpu" else f"{environment['device']}, "
    machine = f"Processor: {device}{environment['processor']}, threads: {environment['threads']}, "
    return f"{machine}{environment['compute_dtype']}, torch {environment['versions']['torch']}"
