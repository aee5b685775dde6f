"""The training loop. It knows steps, time, saving and stopping; what is learned is the caller's `Work`.

One step: the work names the instances, they pass through the model in micro-batches whose gradients add up,
the norm is clipped, the optimizer steps. Dropout is seeded anew each step from (seed, step, rank), so a resumed
run needs no random states: the same step always draws the same numbers.

Several ranks share the instances of a step. They agree on all that decides what is done next: the clock is that of the
first, a request to stop that of any, losses are sums over all. The first alone writes.
"""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Generic, NoReturn

import torch
from torch import Tensor, nn

from cloze import artifacts
from cloze.corpus.hashing import mix
from cloze.errors import RunError
from cloze.progress import Bar, Progress
from cloze.training.averaging import AveragingConfig, TailAverage
from cloze.training.budget import Budget
from cloze.training.checkpoints import (
    CheckpointConfig,
    TrainingState,
    load_optimizer,
    not_as_begun,
    optimizer_averages,
    point_to_checkpoints,
    prune_checkpoints,
    read_average,
    save_checkpoint,
    set_aside_later_checkpoints,
)
from cloze.training.distribution import DistributionConfig, World
from cloze.training.interrupts import Interrupted, StopRequest, catch_signals
from cloze.training.measures import Measures, Sums, Window
from cloze.training.memory import give_back_cached_memory, is_out_of_memory, memory_errors
from cloze.training.metrics_log import VALIDATION, MetricsLog, read_metrics
from cloze.training.optimizer import (
    OptimizerConfig,
    build_optimizer,
    clip_gradients,
    learning_rate_at,
    set_learning_rate,
    with_whole_warmup,
)
from cloze.training.precision import autocast, training_arithmetic
from cloze.training.replicas import Replica, gather, replicate
from cloze.training.work import Batch, StepData, Work

_SKIPPED_STEPS_ALLOWED = 2
_MUCH_EVALUATION = 0.25
_SEEDS = 2**32  # torch's generator on the CPU tells apart no more, and reads the low bits


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationConfig:
    """When a run is measured on held-out data."""

    times: int = 10
    """Evaluations, evenly over the run; the last is at its end."""
    max_instances: int = 2000
    """Held-out instances measured each time; always the same ones."""
    log_every_steps: int = 10

    def __post_init__(self) -> None:
        if self.times < 1 or self.max_instances < 1 or self.log_every_steps < 1:
            raise ValueError("times, max_instances and log_every_steps must be positive")


@dataclass(slots=True)
class Trainer(Generic[Batch]):
    """One run, from its first step or a checkpoint to its end.

    Args:
        model: what is trained, on its device.
        work: instances, loss and evaluation.
        budget: how long.
        run: the run's directory.
        write_model: puts config, weights, tokenizer and card into a checkpoint's directory.
        compute_dtype: the format of matrix products.
        micro_batch_tokens: tokens that pass through the model at once, until memory runs out.
        averaging_config: which mean of the weights is evaluated and saved in their place; None takes them as they are.
        world: the ranks of the run.
        distribution_config: how they share it.
    """

    model: nn.Module
    work: Work[Batch]
    budget: Budget
    run: Path
    write_model: Callable[[Path, nn.Module, TrainingState], None]
    optimizer_config: OptimizerConfig
    checkpoint_config: CheckpointConfig
    evaluation_config: EvaluationConfig
    seed: int
    compute_dtype: torch.dtype
    micro_batch_tokens: int
    progress: Progress
    world: World
    distribution_config: DistributionConfig = field(default_factory=DistributionConfig)
    state: TrainingState = field(default_factory=TrainingState)
    averaging_config: AveragingConfig | None = None
    _average: TailAverage | None = field(init=False, default=None)
    _replica: Replica = field(init=False)
    _optimizer: torch.optim.Optimizer = field(init=False)
    _log: MetricsLog | None = field(init=False, default=None)
    """Of the first rank."""
    _window: Window = field(init=False)
    _saved_step: int = field(init=False)
    _saved_at: float = field(init=False)
    _started_at: float = field(init=False)
    _skipped_in_a_row: int = field(init=False, default=0)

    def train(self, *, resume_from: Path | None = None) -> dict[str, float]:
        """Train until the budget is used up; return the last evaluation.

        Args:
            resume_from: the checkpoint that `model` and `state` were read from.

        Raises:
            Interrupted: SIGINT or SIGTERM came; the newest checkpoint holds the last step that was not skipped.
            RunError: the loss stayed infinite or NaN, memory is too small for one sequence, or the disk is full.
        """
        self._replica = replicate(self.model, self.world, self.distribution_config)
        self._optimizer = build_optimizer(self.model, self.optimizer_config)
        if self.averaging_config is not None:
            self._average = TailAverage(self.model, self.averaging_config)
        if resume_from is not None:
            load_optimizer(resume_from, self.model, self._optimizer, self.optimizer_config)
            average = read_average(resume_from)
            if (average is None) != (self._average is None):
                raise not_as_begun("averaging", self.run)
            if self._average is not None and average is not None:
                self._average.restore(average)
        self._saved_step = self.state.step
        done = self.budget.used(self.state.step, self.state.elapsed_seconds)
        bar = self.progress.bar("training", total=self.budget.total, unit=self.budget.unit, done=done)
        with catch_signals() as stop, training_arithmetic(), memory_errors(), bar as shown:
            self.world.by_first(self._open_log)
            self._window = Window()
            self._saved_at = time.monotonic()
            self._started_at = time.monotonic() - self.state.elapsed_seconds
            try:
                measured = self._run_steps(stop, shown)
            except _StopAskedFor:
                if not self._skipped_in_a_row:  # else the steps are taken again, and counted from the first
                    self._save()
                raise self._interrupted(stop) from None
            finally:
                if self._log is not None:
                    self._log.close()
            if self.world.any(stop):  # while the last step was saved: whoever called may have more to do
                raise self._interrupted(stop)
            return measured

    def _interrupted(self, stop: StopRequest) -> Interrupted:
        message = f"stopped by {stop.signal_name or 'another rank'} after step {self.state.step}"
        return Interrupted(message, remedy="The state is saved: go on with --resume")

    def _run_steps(self, stop: StopRequest, bar: Bar) -> dict[str, float]:
        measured, evaluations = self.world.by_first(self._measured_before)
        used, save_due, asked_to_stop = self._agree(stop)
        while True:
            if asked_to_stop:
                raise _StopAskedFor
            due = self._evaluations_due(used)
            is_over = used >= self.budget.total
            # weights that make steps be skipped may be spoilt: they must not push out the checkpoints before them
            if is_over or not self._skipped_in_a_row:
                if due > evaluations:
                    measured = self._evaluate(stop)
                    if not evaluations:
                        self._warn_of_long_evaluations(used)
                    evaluations = due
                elif save_due:
                    self._save()
            if is_over:
                return measured
            self._step(used / self.budget.total, stop)
            now_used, save_due, asked_to_stop = self._agree(stop)
            bar.advance(now_used - used)
            used = now_used
            if self.state.step % self.evaluation_config.log_every_steps == 0 or used >= self.budget.total:
                self._write_log(bar)

    def _open_log(self) -> None:
        artifacts.remove_leftovers(self.run / "checkpoints")
        set_aside_later_checkpoints(self.run, self.state.step)
        point_to_checkpoints(self.run, self.state)
        self._log = MetricsLog(self.run, resume_step=self.state.step)

    def _record(self, kind: str, step: int, **values: object) -> None:
        if self._log is not None:
            self._log.write(kind, step, **values)

    def _agree(self, stop: StopRequest) -> tuple[float, bool, bool]:
        """Return what is used of the budget and whether to save, by the first rank's clock; and whether to stop."""
        own = (time.monotonic() - self._started_at, self._save_due()) if self.world.is_first else (0.0, False)
        elapsed, save_due, asked_to_stop = self.world.sums(*own, bool(stop))
        return self.budget.used(self.state.step, elapsed), bool(save_due), bool(asked_to_stop)

    def _measured_before(self) -> tuple[dict[str, float], int]:
        """Return the last evaluation in a resumed run's log, and how many are behind it.

        The log is asked, not the clock: a run that was stopped within an evaluation has yet to make it.
        """
        rows = [row for row in read_metrics(self.run) if row["kind"] == VALIDATION]
        if not rows:
            return {}, 0
        step, seconds = rows[-1].pop("step"), rows[-1].pop("seconds")
        del rows[-1]["kind"]
        return rows[-1], self._evaluations_due(self.budget.used(step, seconds))

    def _evaluations_due(self, used: float) -> int:
        times = self.evaluation_config.times
        return times if used >= self.budget.total else math.floor(used * times / self.budget.total)

    def _warn_of_long_evaluations(self, used_before: float) -> None:
        """Say so where evaluations as long as the one just made take much of a run on the clock."""
        used = self.budget.used(self.state.step, time.monotonic() - self._started_at)
        times = self.evaluation_config.times
        share = times * (used - used_before) / self.budget.total
        if share > _MUCH_EVALUATION:
            self.progress.note(
                f"warning: {times} evaluations like this one take {share:.0%} of the run: make them fewer or smaller"
            )

    def _step(self, progress: float, stop: StopRequest) -> None:
        """Take one optimizer step, or raise with the weights as before it when asked to stop."""
        started = time.monotonic()
        learning_rate = learning_rate_at(progress, with_whole_warmup(self.optimizer_config, self.budget))
        data = self._step_data(progress, self._micro_batch_tokens)
        while True:
            found = self._loss_of(data, stop)
            own_loss, sums = found or (0.0, Sums())
            total, num_broken_off = self.world.sums(own_loss, found is None)
            if not num_broken_off:
                break
            data = self._smaller_micro_batches(progress, data, broke_off=found is None)
        norm = clip_gradients(self.model.parameters(), self.optimizer_config.max_grad_norm)
        if math.isfinite(total) and math.isfinite(norm.item()):
            set_learning_rate(self._optimizer, learning_rate)
            self._optimizer.step()
            if self._average is not None:
                self._average.update(progress)
            self._skipped_in_a_row = 0
            self._window.add(sums, learning_rate, norm.item(), data.num_tokens, time.monotonic() - started)
        else:
            self._skip(data.name, total, norm.item())
        self.state = replace(
            self.state,
            step=self.state.step + 1,
            elapsed_seconds=time.monotonic() - self._started_at,
            tokens=self.state.tokens + data.num_tokens,
            position=data.next_position,
        )

    @property
    def _micro_batch_tokens(self) -> int:
        """As the settings say, or what is left of it after memory ran out, if that is less."""
        return min(self.state.micro_batch_tokens or self.micro_batch_tokens, self.micro_batch_tokens)

    def _step_data(self, progress: float, micro_batch_tokens: int) -> StepData[Batch]:
        return self.work.step_data(progress, self.state.position, micro_batch_tokens)

    def _loss_of(self, data: StepData[Batch], stop: StopRequest) -> tuple[float, Sums] | None:
        """Return the step's loss and measures, and add up its gradients; None where memory does not suffice."""
        torch.manual_seed(int(mix(self.seed, self.state.step, self.world.rank)) % _SEEDS)
        self._optimizer.zero_grad(set_to_none=True)
        self.model.train()
        try:
            # several ranks leave together, between steps
            heard = stop if self.world.size == 1 else None
            return add_up_gradients(self._replica, self.work, data, self.compute_dtype, heard)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        self._replica.catch_up()  # out here, where the error no longer holds on to tensors
        return None

    def _smaller_micro_batches(
        self, progress: float, data: StepData[Batch], *, broke_off: bool
    ) -> StepData[Batch]:
        """Cut the step's instances into more micro-batches than those of `data`; the run keeps to that size.

        Args:
            progress: where the step begins.
            data: this rank's share of the step, as it was cut.
            broke_off: whether it was this rank that had too little memory for it.
        """
        self._optimizer.zero_grad(set_to_none=True)
        give_back_cached_memory(next(self.model.parameters()).device)
        tokens = self._micro_batch_tokens
        step = self.state.step + 1
        while tokens > 1:
            tokens //= 2
            smaller = self._step_data(progress, tokens)
            if not self.world.any(broke_off and len(smaller.batches) <= len(data.batches)):
                self.state = replace(self.state, micro_batch_tokens=tokens)
                self._record("halved", step, micro_batch_tokens=tokens, reason="out of memory")
                self.progress.note(
                    f"warning: out of memory at step {step}: micro_batch_tokens is {tokens:,} from here"
                )
                return smaller
        return self.world.by_first(partial(_give_up, step, self.run))

    def _skip(self, name: str, loss: float, norm: float) -> None:
        """Leave the weights as they are; give up when it happens again and again."""
        self._skipped_in_a_row += 1
        what = f"loss {loss}, gradient norm {norm} at step {self.state.step + 1} ({name})"
        self._record("skipped", self.state.step + 1, reason=what)
        self.progress.note(f"warning: {what}: the step was skipped")
        if self._skipped_in_a_row > _SKIPPED_STEPS_ALLOWED:
            remedy = "Lower optimizer.learning_rate in run.toml and go on with --resume"
            if self._saved_step and self._saved_step == self.state.step + 1 - self._skipped_in_a_row:
                remedy += (
                    f"; step {self._saved_step} was saved right before and may be spoilt: if so, delete it"
                )
            raise RunError(f"{what}, {self._skipped_in_a_row} times in a row", where=self.run, remedy=remedy)

    def _write_log(self, bar: Bar) -> None:
        values = self._window.means(self.work.losses, self.world)
        if not values:
            return
        position = self.state.position
        self._record(
            "train",
            self.state.step,
            **values,
            phase=position.phase,
            epoch=position.epoch,
            tokens=self.state.tokens,
            seconds=round(self.state.elapsed_seconds, 3),
        )
        bar.show(
            step=f"{self.state.step:,}",
            loss=f"{values['loss']:.3f}",
            lr=f"{values['learning_rate']:.1e}",
            norm=f"{values['gradient_norm']:.2f}",
            **{"tokens/s": f"{values['tokens_per_second']:,.0f}"},
        )
        self._window = Window()

    def _evaluate(self, stop: StopRequest) -> dict[str, float]:
        self.model.eval()
        sums = Sums()
        device = next(self.model.parameters()).device
        replica = self._replica
        with self._mean_in_place(), replica.without_gradients(), autocast(device, self.compute_dtype):
            batches = replica.use(self.work.evaluate)
            while (measures := replica.use(lambda _: next(batches, None))) is not None:
                if self.world.any(stop):
                    raise _StopAskedFor
                sums.add(measures)
        measured = sums.means(self.work.losses)
        self._record(VALIDATION, self.state.step, **measured, seconds=self.state.elapsed_seconds)
        shown = " ".join(f"{name} {value:.4g}" for name, value in measured.items())
        self.progress.note(f"step {self.state.step:,} held-out: {shown}")
        # NaN is neither more nor less than anything, and would stay the best
        merit = tuple(-math.inf if math.isnan(value) else value for value in self.work.merit(measured))
        if merit > self.state.best_merit:
            self.state = replace(self.state, best_merit=merit, best_step=self.state.step)
        self._write()  # once more where a stop within the evaluation had saved this step: the best may be another now
        return measured

    def _mean_in_place(self) -> AbstractContextManager[None]:
        return nullcontext() if self._average is None else self._average.in_place()

    def _save_due(self) -> bool:
        config = self.checkpoint_config
        every = (config.every_steps, config.keep_every_steps)
        if any(steps is not None and self.state.step % steps == 0 for steps in every):
            return True
        return time.monotonic() - self._saved_at >= 60 * config.every_minutes

    def _save(self) -> None:
        if self._saved_step != self.state.step:
            self._write()

    def _write(self) -> None:
        self.state = replace(self.state, elapsed_seconds=time.monotonic() - self._started_at)
        with self._mean_in_place():
            averages = gather(optimizer_averages(self.model, self._optimizer), keep=self.world.is_first)
            model = self._replica.whole(keep=self.world.is_first)
            self.world.by_first(lambda: self._write_checkpoint(model, averages))
        self._saved_step = self.state.step
        self._saved_at = time.monotonic()

    def _write_checkpoint(self, model: nn.Module, averages: Mapping[str, Tensor]) -> None:
        save_checkpoint(
            self.run,
            self.state,
            averages,
            lambda directory: self.write_model(directory, model, self.state),
            average=None if self._average is None else self._average.tensors(),
        )
        prune_checkpoints(self.run, self.checkpoint_config)


def add_up_gradients(
    replica: Replica,
    work: Work[Batch],
    data: StepData[Batch],
    compute_dtype: torch.dtype,
    stop: StopRequest | None = None,
) -> tuple[float, Sums]:
    """Pass a step's micro-batches through the model; its parameters' gradients grow by theirs.

    Returns:
        This rank's share of the step's loss, and what was measured.
    """
    total = torch.zeros((), device=next(replica.model.parameters()).device)
    sums = Sums()
    passes = replica.num_passes(len(data.batches))
    for number in range(passes):
        if stop:
            raise _StopAskedFor
        batch = data.batches[number % len(data.batches)]

        def compute(model: nn.Module, batch: Batch = batch) -> tuple[Tensor, Measures]:
            return work.loss(model, batch, data)

        counts = data.has_share and number < len(data.batches)  # else the other ranks need this one's company
        with replica.accumulating(more=number + 1 < passes):
            with autocast(total.device, compute_dtype):
                loss, measures = replica.use(compute)
            replica.backward(loss if counts else 0 * loss)
        if counts:
            total += loss.detach()
            sums.add(measures)
    return total.item(), sums


def _give_up(step: int, run: Path) -> NoReturn:
    what = f"out of memory at step {step} with one sequence at a time"
    raise RunError(what, where=run, remedy="Use shorter sequences or a smaller model")


class _StopAskedFor(Exception):  # noqa: N818 (no error: how a request leaves the middle of a step)
    pass
