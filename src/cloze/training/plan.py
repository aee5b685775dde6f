"""What a run will cost: its time and memory, measured in a few of its steps."""

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

from cloze.callbacks import Callback
from cloze.data.batch import DataPosition
from cloze.progress import Progress
from cloze.results import Result
from cloze.training.checkpoints import TrainingState
from cloze.training.config import RunSettings
from cloze.training.distributed import DistributedContext
from cloze.training.interrupts import StopRequest
from cloze.training.metric_sums import read_sums
from cloze.training.objective import BatchSource, Objective
from cloze.training.precision import (
    available_memory,
    inference_arithmetic,
    memory_errors,
    peak_memory,
    training_arithmetic,
)
from cloze.training.step import OptimizerSteps

_STEPS, _MAX_SECONDS = 5, 30.0
"""Steps of each phase, and when no further one begins: a step of 256 long sequences takes minutes on a CPU."""


@dataclass(frozen=True, slots=True)
class PhaseEstimate:
    """A part of a run whose steps are alike."""

    name: str
    steps: int
    tokens: int
    """In a step."""
    step_seconds: float

    @property
    def seconds(self) -> float:
        """All its steps."""
        return self.steps * self.step_seconds


@dataclass(frozen=True, slots=True, repr=False)
class RunPlan(Result):
    """The expected cost of a run."""

    device: str
    dtype: str
    peak_memory: int | None
    """Bytes of the process, or of tensors on an accelerator; None where it does not say."""
    available_memory: int | None
    """Bytes that were free before; None where the device does not say."""
    micro_batch_tokens: int
    """The setting, or what is left of it if memory ran out."""
    phases: tuple[PhaseEstimate, ...]
    evaluation_seconds: float
    """All evaluations of the run."""
    runs: int
    """Number of such runs, one after the other."""

    @property
    def seconds(self) -> float:
        """All runs; saving takes a little more."""
        return self.runs * (sum(phase.seconds for phase in self.phases) + self.evaluation_seconds)


def plan_run(
    load: Callable[[], Objective],
    batches: BatchSource,
    config: RunSettings,
    phases: Sequence[tuple[str, int | None, float]],
    context: DistributedContext,
    *,
    evaluations: float,
    runs: int = 1,
    progress: Progress,
) -> RunPlan:
    """Take steps of each phase as the run does, and begin one of its `evaluations`; write nothing.

    A phase is its name, its number of steps (None if the budget decides), and its share of the run.
    """
    available = available_memory(context.device)
    objective = load()
    steps = OptimizerSteps(
        path=None,
        state=TrainingState(),
        objective=objective,
        batches=batches,
        config=config,
        context=context,
        callbacks=Callback(),
        progress=progress,
    )
    budget, estimates, start = config.budget_seconds or math.inf, [], 0.0
    with training_arithmetic(deterministic=config.deterministic), memory_errors(), closing(steps):
        for number, (name, planned, fraction) in enumerate(phases):
            progress.note(f"timing steps of {name}")
            steps.state = replace(steps.state, position=DataPosition(number), tokens=0)
            share, times = start + fraction / 2, list[float]()
            while len(times) < _STEPS and sum(times) < _MAX_SECONDS:
                started = progress.clock()
                steps.take(share, share, StopRequest())
                times.append(progress.clock() - started)
            seconds = fmean(times[1:] or times)  # the first step touches memory
            count = int(min(math.inf if planned is None else planned, fraction * budget / seconds))
            estimates.append(PhaseEstimate(name, count, steps.state.tokens // len(times), seconds))
            start += fraction
        objective.model.eval()
        started = progress.clock()
        with inference_arithmetic(objective.model):  # reading the sums waits for the device
            measured = [read_sums([sums]) for sums in islice(objective.evaluate(), _STEPS)]
        share = min(len(measured) / objective.num_evaluation_batches, 1)
        evaluation_seconds = evaluations * (progress.clock() - started) / share
    return RunPlan(
        device=str(context.device),
        dtype=str(steps.compute_dtype).removeprefix("torch."),
        peak_memory=peak_memory(context.device),
        available_memory=available,
        micro_batch_tokens=steps.micro_batch_tokens,
        phases=tuple(estimates),
        evaluation_seconds=evaluation_seconds,
        runs=runs,
    )
