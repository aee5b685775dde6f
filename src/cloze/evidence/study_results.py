"""What the finished runs of a study show, before it is compared."""

import math
from dataclasses import dataclass, field
from typing import Any

MASKED = "masked_lm_loss"
NEXT_SENTENCE = "next_sentence_accuracy"
PERPLEXITY = "perplexity"
"""A measure beside the tasks: that of masked words, on held-out text read as pairs, or as single segments where the
encoder never saw a pair."""


@dataclass(frozen=True, slots=True)
class TaskScores:
    """What an encoder reached on a task."""

    points: tuple[float, ...]
    """In percent, at each point of its pre-training; the last is its end."""
    collapses: tuple[str | None, ...] = ()
    """How the answers show that nothing was learned, at the points where they do."""
    majority: float | None = None
    """What always saying the most frequent class reaches, where that is known."""
    data: str = ""
    """What it was learned from and scored on."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What one finished run shows."""

    variant: str
    seed: int
    parameters: int | None = None
    """Of its encoder; None of one that is made of others."""
    data_sha256: str | None = None
    """Of the data set that it was pre-trained on."""
    held_out_as: str | None = None
    """How the instances of its curve were made: curves of one making compare. None: it was not pre-trained."""
    max_seq_length: int | None = None
    """Of the instances that its end was measured on."""
    seconds: tuple[float, ...] = ()
    """When it was evaluated."""
    masked_lm_losses: tuple[float, ...] = ()
    """What was found then, in nats."""
    steps: int | None = None
    tokens: int | None = None
    pairs: dict[str, float] = field(default_factory=dict)
    """Measures of its end on held-out text read as pairs, the same for all runs that name hidden words."""
    segments: dict[str, float] = field(default_factory=dict)
    """The same on that text read as single segments."""
    neighbours: dict[str, float] = field(default_factory=dict)
    """Of a run that looks one way, in the place of these: how well it names the next piece, or the one before."""
    tasks: dict[str, TaskScores] = field(default_factory=dict)
    environment: dict[str, Any] | None = None

    def seconds_to(self, loss: float) -> float | None:
        """Return when the curve first came down to a loss, on the line between evaluations; None if never."""
        before = None
        for seconds, value in zip(self.seconds, self.masked_lm_losses, strict=True):
            if value <= loss:
                if before is None:
                    return seconds
                share = (before[1] - loss) / (before[1] - value)
                return before[0] + share * (seconds - before[0])
            before = (seconds, value)
        return None

    def steps_at(self, place: int, count: int) -> int:
        """Return after how many steps it was fine-tuned at one of so many points, counted from 0."""
        return (self.steps or 0) * (place + 1) // count

    def score(self, measure: str) -> float | None:
        """Return what was reached at the end: on a task, or the perplexity; None where that was not measured."""
        if measure == PERPLEXITY:
            read = self.pairs if NEXT_SENTENCE in self.pairs else self.segments
            return math.exp(read[MASKED]) if read else None
        return self.tasks[measure].points[-1] if measure in self.tasks else None
