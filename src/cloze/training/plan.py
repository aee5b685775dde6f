"""Before a run: whether it fits in memory, and how long it will take, from a few micro-batches that are thrown away."""

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from cloze.models.encoder import get_encoder
from cloze.progress import Progress
from cloze.training.objective import Objective, StepData
from cloze.training.optimizer import OptimizerConfig, build_optimizer, clip_gradients
from cloze.training.parallelize import accumulate_gradients
from cloze.training.precision import training_arithmetic
from cloze.training.step_cost import (
    Workload,
    activation_bytes,
    parameter_bytes,
    transient_bytes,
)

_FORWARD_SHARE = 1 / 3  # of a training step: backward takes twice forward


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes that training takes beside the program and its data, and the bytes that are free."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    """Of the largest micro-batch, with the temporary memory of its backward pass."""
    update: int
    """Temporary memory of the optimizer's step, when there are no activations."""
    available: int | None
    """Before the model is made; None where the device does not say."""
    micro_batch_tokens: int
    """Tokens of the largest micro-batch."""
    largest_micro_batch_tokens: int | None
    """The most that fit, up to the tokens of a whole step; None where `available` is."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.parameters + self.gradients + self.optimizer + max(self.activations, self.update)

    @property
    def fits(self) -> bool:
        """Whether it does, as far as the device says."""
        return self.available is None or self.total <= self.available


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


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The estimated cost of a run."""

    device: str
    dtype: str
    memory: MemoryPlan
    phases: tuple[PhaseEstimate, ...]
    """Empty if memory does not suffice to time a step."""
    evaluation_seconds: float
    """All evaluations of the run."""
    runs: int
    """Number of such runs, one after the other."""

    @property
    def seconds(self) -> float:
        """All runs; saving takes a little more."""
        return self.runs * (sum(phase.seconds for phase in self.phases) + self.evaluation_seconds)


class PlannedPhase(NamedTuple):
    """A phase to estimate."""

    name: str
    step: StepData[Any]
    """One of its steps."""
    steps: int | None
    """Number of steps; None if the budget decides."""
    fraction: float = 1.0
    """Share of the run."""


class Rehearsal:
    """A model whose steps are measured and thrown away.

    Args:
        objective: the objective; its model changes.
        optimizer: the settings of the run.
        dtype: the format of matrix products.
        available: bytes, as `available_memory` had them before the model was made.
        kept_copies: copies of the weights beside those that are trained, such as a mean of them.
        seconds: maximum time for each step, after its first two micro-batches.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: OptimizerConfig,
        dtype: torch.dtype,
        *,
        available: int | None = None,
        kept_copies: int = 0,
        seconds: float = 10.0,
    ) -> None:
        self._objective = objective
        self._model = objective.model
        self._dtype = dtype
        self._available = available
        self._kept_copies = kept_copies
        self._seconds = seconds
        self._max_grad_norm = optimizer.max_grad_norm
        self._optimizer = build_optimizer(objective.model, optimizer)

    def plan(
        self,
        phases: Sequence[PlannedPhase],
        budget_seconds: float | None,
        *,
        evaluation_tokens: float,
        runs: int = 1,
        progress: Progress,
    ) -> RunPlan:
        """Estimate memory and time of a run.

        Args:
            phases: the phases of the run.
            budget_seconds: time of the run, with its evaluations.
            evaluation_tokens: tokens of all evaluations.
            runs: number of such runs.
            progress: receives progress messages.
        """
        memory = max(
            (self.memory([Workload.of(batch) for batch in phase.step.batches]) for phase in phases),
            key=lambda plan: plan.activations,
        )
        step_seconds = []
        for phase in phases if memory.fits else ():
            progress.note(f"timing steps of {phase.name}")
            step_seconds.append(self.step_seconds(phase.step))
        evaluations = 0.0
        if step_seconds:
            tokens_per_second = phases[-1].step.num_tokens / step_seconds[-1]
            evaluations = evaluation_tokens * _FORWARD_SHARE / tokens_per_second
        left = math.inf if budget_seconds is None else max(budget_seconds - evaluations, 0)
        estimates = []
        for phase, seconds in zip(phases, step_seconds, strict=False):
            planned = math.inf if phase.steps is None else phase.steps
            steps = int(min(planned, phase.fraction * left / seconds))
            estimates.append(PhaseEstimate(phase.name, steps, phase.step.num_tokens, seconds))
        return RunPlan(
            device=str(next(self._model.parameters()).device),
            dtype=str(self._dtype).removeprefix("torch."),
            memory=memory,
            phases=tuple(estimates),
            evaluation_seconds=evaluations,
            runs=runs,
        )

    def memory(self, micro_batches: Sequence[Workload]) -> MemoryPlan:
        """Add up the memory that training takes, from the micro-batches of a step."""
        config, dtype = get_encoder(self._model).config, self._dtype

        def bytes_of(workload: Workload) -> int:
            return activation_bytes(config, workload, dtype) + transient_bytes(config, workload, dtype)

        largest = max(micro_batches, key=bytes_of)
        parameters, gradients = parameter_bytes(self._model)
        plan = MemoryPlan(
            parameters=parameters,
            gradients=gradients,
            optimizer=self._optimizer.state_bytes() + self._kept_copies * gradients,
            activations=bytes_of(largest),
            update=self._optimizer.transient_bytes(),
            available=self._available,
            micro_batch_tokens=largest.num_tokens,
            largest_micro_batch_tokens=None,
        )
        if self._available is None:
            return plan
        bytes_per_token = (bytes_of(largest + largest) - plan.activations) / largest.num_tokens
        free = self._available - parameters - gradients - plan.optimizer - plan.activations
        step_tokens = sum(workload.num_tokens for workload in micro_batches)
        possible = largest.num_tokens + math.floor(free / bytes_per_token)
        return replace(plan, largest_micro_batch_tokens=max(0, min(step_tokens, possible)))

    def step_seconds(self, step: StepData[Any]) -> float:
        """Return how long an optimizer step takes: of many micro-batches some are timed, from all over the step."""
        chosen = random.Random(0).sample(step.batches, len(step.batches))
        with training_arithmetic():
            self._micro_batch_seconds(step, chosen[0])  # not counted: memory is touched for the first time
            seconds: list[float] = []
            while len(seconds) < len(chosen) and (not seconds or sum(seconds) < self._seconds):
                seconds.append(self._micro_batch_seconds(step, chosen[len(seconds)]))
            self._update_seconds()
            update = self._update_seconds()
        return len(chosen) * sum(seconds) / len(seconds) + update

    def _micro_batch_seconds(self, step: StepData[Any], batch: Any) -> float:
        started = time.perf_counter()
        self._model.train()
        accumulate_gradients(self._objective, replace(step, batches=[batch]), self._dtype)
        return time.perf_counter() - started

    def _update_seconds(self) -> float:
        started = time.perf_counter()
        norm = clip_gradients(self._model.parameters(), self._max_grad_norm)
        self._optimizer.step()
        norm.item()  # waits for the device
        return time.perf_counter() - started
