"""Before a run: its memory and time, measured in a few steps that are thrown away."""

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from cloze.progress import Progress
from cloze.results import Result
from cloze.training.memory import memory_errors, peak_memory
from cloze.training.objective import Objective, StepData
from cloze.training.optimizer import OptimizerConfig, build_optimizer, clip_gradients
from cloze.training.parallelize import accumulate_gradients
from cloze.training.precision import training_arithmetic

_FORWARD_SHARE = 1 / 3  # of a training step: backward takes twice forward
_SECONDS_PER_STEP = 10.0
"""Maximum time for a measured step, after its first two micro-batches."""


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
    """Tokens of the largest micro-batch."""
    phases: tuple[PhaseEstimate, ...]
    evaluation_seconds: float
    """All evaluations of the run."""
    runs: int
    """Number of such runs, one after the other."""

    @property
    def seconds(self) -> float:
        """All runs; saving takes a little more."""
        return self.runs * (sum(phase.seconds for phase in self.phases) + self.evaluation_seconds)


class PlannedPhase(NamedTuple):
    """A phase to measure."""

    name: str
    step: StepData[Any]
    """One of its steps."""
    steps: int | None
    """Number of steps; None if the budget decides."""
    fraction: float = 1.0
    """Share of the run."""


def plan_run(
    objective: Objective,
    optimizer: OptimizerConfig,
    dtype: torch.dtype,
    phases: Sequence[PlannedPhase],
    *,
    budget_seconds: float | None,
    evaluation_tokens: float,
    available_memory: int | None,
    runs: int = 1,
    progress: Progress,
) -> RunPlan:
    """Measure a step of each phase of a run.

    Args:
        objective: the objective, on its device; its model changes.
        budget_seconds: time of the run without its evaluations.
        evaluation_tokens: tokens of all evaluations.
        available_memory: bytes that were free before the model was made.
    """
    device = next(objective.parameters()).device
    timer = StepTimer(objective, optimizer, dtype)
    step_seconds = []
    for phase in phases:
        progress.note(f"timing steps of {phase.name}")
        step_seconds.append(timer.step_seconds(phase.step))
    evaluations = evaluation_tokens * _FORWARD_SHARE * step_seconds[-1] / phases[-1].step.num_tokens
    left = math.inf if budget_seconds is None else budget_seconds
    estimates = []
    for phase, seconds in zip(phases, step_seconds, strict=True):
        planned = math.inf if phase.steps is None else phase.steps
        steps = int(min(planned, phase.fraction * left / seconds))
        estimates.append(PhaseEstimate(phase.name, steps, phase.step.num_tokens, seconds))
    return RunPlan(
        device=str(device),
        dtype=str(dtype).removeprefix("torch."),
        peak_memory=peak_memory(device),
        available_memory=available_memory,
        micro_batch_tokens=max(batch.num_tokens for phase in phases for batch in phase.step.batches),
        phases=tuple(estimates),
        evaluation_seconds=evaluations,
        runs=runs,
    )


class StepTimer:
    """Times steps of a model, which change it."""

    def __init__(self, objective: Objective, optimizer: OptimizerConfig, dtype: torch.dtype) -> None:
        self._objective = objective
        self._dtype = dtype
        self._max_grad_norm = optimizer.max_grad_norm
        self._optimizer = build_optimizer(objective.model, optimizer)

    def step_seconds(self, step: StepData[Any]) -> float:
        """Return how long an optimizer step takes: of many micro-batches some are timed, from all over the step."""
        chosen = random.Random(0).sample(step.batches, len(step.batches))
        largest = max(step.batches, key=lambda batch: batch.num_tokens)
        with training_arithmetic(), memory_errors():
            # not counted: memory is touched for the first time
            self._micro_batch_seconds(step, largest)
            seconds: list[float] = []
            while len(seconds) < len(chosen) and (not seconds or sum(seconds) < _SECONDS_PER_STEP):
                seconds.append(self._micro_batch_seconds(step, chosen[len(seconds)]))
            self._update_seconds()
            update = self._update_seconds()
        return len(chosen) * sum(seconds) / len(seconds) + update

    def _micro_batch_seconds(self, step: StepData[Any], batch: Any) -> float:
        started = time.perf_counter()
        self._objective.model.train()
        loss, _ = accumulate_gradients(self._objective, replace(step, batches=[batch]), self._dtype)
        loss.item()  # waits for the device
        return time.perf_counter() - started

    def _update_seconds(self) -> float:
        started = time.perf_counter()
        norm = clip_gradients(self._objective.model.parameters(), self._max_grad_norm)
        self._optimizer.step()
        norm.item()  # waits for the device
        return time.perf_counter() - started
