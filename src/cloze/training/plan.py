"""Before a run: whether it fits in memory, and how long it will take, from a few micro-batches that are thrown away."""

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from cloze.model.bert import BertConfig
from cloze.training.cost import (
    Workload,
    activation_bytes,
    optimizer_bytes,
    parameter_bytes,
    transient_bytes,
    update_bytes,
)
from cloze.training.loop import add_up_gradients
from cloze.training.optimizer import OptimizerConfig, build_optimizer, clip_gradients
from cloze.training.precision import training_arithmetic
from cloze.training.replicas import Alone
from cloze.training.work import StepData, Work

_FORWARD_SHARE = 1 / 3  # of a training step: backward takes twice forward


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes that training takes beside the program and its data, and what there is."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    """Of the most expensive micro-batch, with what its backward pass needs for a moment."""
    update: int
    """What the optimizer's step needs for a moment, when there are no activations."""
    available: int | None
    """Before the model is made; None where the device does not say."""
    micro_batch_tokens: int
    """Of that micro-batch."""
    largest_micro_batch_tokens: int | None
    """At most the tokens of a whole step, which need not be cut; None where `available` is."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.parameters + self.gradients + self.optimizer + max(self.activations, self.update)

    @property
    def fits(self) -> bool:
        """Whether it does, as far as the device says."""
        return self.available is None or self.total <= self.available


@dataclass(frozen=True, slots=True)
class Stretch:
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
    """What a run will take."""

    device: str
    dtype: str
    memory: MemoryPlan
    stretches: tuple[Stretch, ...]
    """None of them where the memory does not suffice to try."""
    evaluation_seconds: float
    """All evaluations of the run."""
    runs: int = 1
    """How often all this is done, one run after the other."""

    @property
    def seconds(self) -> float:
        """All runs; saving takes a little more."""
        return self.runs * (sum(stretch.seconds for stretch in self.stretches) + self.evaluation_seconds)


def plan_memory(
    model: nn.Module,
    config: BertConfig,
    micro_batches: Sequence[Workload],
    dtype: torch.dtype,
    optimizer: torch.optim.Optimizer,
    *,
    available: int | None,
    kept_copies: int = 0,
) -> MemoryPlan:
    """Add up what training takes.

    Args:
        model: with its heads.
        config: of its encoder.
        micro_batches: those of a step.
        dtype: of matrix products.
        optimizer: of the model.
        available: bytes, as `available_memory` had them before the model was made.
        kept_copies: of the weights, beside those that are trained, such as a mean of them.
    """

    def bytes_of(work: Workload) -> int:
        return activation_bytes(config, work, dtype) + transient_bytes(config, work, dtype)

    dearest = max(micro_batches, key=bytes_of)
    parameters, gradients = parameter_bytes(model)
    averages = optimizer_bytes(optimizer)
    largest = None
    if available is not None:
        a_token = (bytes_of(dearest + dearest) - bytes_of(dearest)) / dearest.num_tokens
        fixed = parameters + gradients + averages + kept_copies * gradients
        more = (available - fixed - bytes_of(dearest)) / a_token
        step_tokens = sum(work.num_tokens for work in micro_batches)
        largest = max(0, min(step_tokens, dearest.num_tokens + math.floor(more)))
    return MemoryPlan(
        parameters=parameters,
        gradients=gradients,
        optimizer=averages + kept_copies * gradients,
        activations=bytes_of(dearest),
        update=update_bytes(optimizer),
        available=available,
        micro_batch_tokens=dearest.num_tokens,
        largest_micro_batch_tokens=largest,
    )


class Rehearsal:
    """A model whose steps are timed and thrown away.

    Args:
        model: on its device; it changes.
        work: what is trained.
        optimizer_config: as the run's.
        dtype: of matrix products.
        seconds: to spend on each step at most, when its first two micro-batches are over.
    """

    def __init__(
        self,
        model: nn.Module,
        work: Work[Any],
        optimizer_config: OptimizerConfig,
        dtype: torch.dtype,
        *,
        seconds: float = 10.0,
    ) -> None:
        self._model = model
        self._work = work
        self._dtype = dtype
        self._seconds = seconds
        self._max_grad_norm = optimizer_config.max_grad_norm
        self.optimizer = build_optimizer(model, optimizer_config)

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
        add_up_gradients(Alone(self._model), self._work, replace(step, batches=[batch]), self._dtype)
        return time.perf_counter() - started

    def _update_seconds(self) -> float:
        started = time.perf_counter()
        norm = clip_gradients(self._model.parameters(), self._max_grad_norm)
        self.optimizer.step()
        norm.item()  # waits for the device
        return time.perf_counter() - started


def evaluation_seconds(tokens: int, stretches: Sequence[Stretch]) -> float:
    """Return how long the forward passes over so many tokens take, judged by training steps; 0 without any."""
    trained = sum(stretch.tokens for stretch in stretches)
    return tokens * _FORWARD_SHARE * sum(stretch.step_seconds for stretch in stretches) / max(trained, 1)
