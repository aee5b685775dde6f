"""The training loop: steps, time, saving and stopping. `Objective` defines what is learned.

One step: the batch source names the instances, they pass through the model in micro-batches whose gradients add up,
the norm is clipped, the optimizer steps. Dropout is seeded in each step from (seed, step, rank), so a resumed run
needs no random states: the same step always draws the same numbers.

Several ranks share the instances of a step. They agree on all that decides the next action: rank zero's clock, a
request to stop on any rank, sums of losses. Rank zero alone writes.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from cloze import artifacts
from cloze.callbacks import Callback, Callbacks
from cloze.data.hashing import mix
from cloze.errors import RunError
from cloze.models.torch_internals import is_out_of_memory
from cloze.progress import Bar, Progress, join_values
from cloze.training.budget import Budget
from cloze.training.checkpoints import (
    TrainingState,
    load_optimizer,
    move_later_checkpoints_aside,
    optimizer_state_tensors,
    prune_checkpoints,
    save_checkpoint,
    write_pointers,
)
from cloze.training.config import EvaluationConfig, RunSettings
from cloze.training.distributed import DistributedContext
from cloze.training.interrupts import Interrupted, StopRequest, StopRequested, catch_signals
from cloze.training.memory import empty_cache, memory_errors
from cloze.training.metric_sums import LogWindow, MetricAccumulator
from cloze.training.metrics_log import FILLS, VALIDATION, default_callbacks, read_metrics
from cloze.training.objective import BatchSource, Objective, StepData
from cloze.training.optimizer import (
    build_optimizer,
    clip_gradients,
    learning_rate_at,
    round_warmup,
    set_learning_rate,
)
from cloze.training.parallelize import accumulate_gradients, replicate
from cloze.training.precision import autocast, resolve_dtype, training_arithmetic

_MAX_LINE_WIDTH = 100
_MAX_SKIPPED_STEPS = 2
"""Steps with an infinite or NaN loss that may follow each other; one more ends the run."""
_NUM_SEEDS = 2**32  # torch's CPU generator distinguishes no more, and reads the low bits


@dataclass(slots=True)
class Trainer:
    """One run, from its first step or a checkpoint to its end.

    Args:
        objective: the model, on its device, with loss and evaluation.
        batches: the training instances.
        config: settings of the run.
        evaluation: when it is evaluated.
        budget: length of the run.
        run: the run's directory.
        save_model: writes config, weights, tokenizer and card into a checkpoint's directory.
        context: the ranks of the run.
        settings: those of the run, for callbacks.
        callbacks: receive what the run measures, besides its log.
        state: of the checkpoint that the model was read from.
    """

    objective: Objective
    batches: BatchSource
    config: RunSettings
    evaluation: EvaluationConfig
    budget: Budget
    run: Path
    save_model: Callable[[Path, nn.Module, TrainingState], None]
    context: DistributedContext
    progress: Progress
    settings: Mapping[str, Any] = field(default_factory=dict)
    callbacks: Sequence[Callback] = ()
    evaluate_first: bool = False
    """Also evaluate before the first step, so that a loss or gain against the initial model is seen."""
    changed_settings: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """Settings that the resumed run changes: the values before and from here."""
    state: TrainingState = field(default_factory=TrainingState)
    _replicas: DistributedDataParallel | None = field(init=False)
    _optimizer: torch.optim.Optimizer = field(init=False)
    _compute_dtype: torch.dtype = field(init=False)
    _callbacks: Callback = field(init=False, default_factory=Callback)
    """Of rank zero; the others have one that does nothing."""
    _window: LogWindow = field(init=False, default_factory=LogWindow)
    _saved_step: int = field(init=False)
    _saved_at: float = field(init=False)
    _started_at: float = field(init=False)
    _num_skipped: int = field(init=False, default=0)
    """Steps skipped in a row."""
    _shown: dict[str, str] = field(init=False, default_factory=dict)
    """Values of the last log below the bar."""

    def train(self, *, resume_from: Path | None = None) -> dict[str, float]:
        """Train until the budget is used up; return the metrics of the last evaluation.

        Args:
            resume_from: the checkpoint that the model and `state` were read from.

        Raises:
            Interrupted: SIGINT or SIGTERM arrived; the newest checkpoint holds the last step that was not skipped.
            RunError: the loss stayed infinite or NaN, memory is too small for one sequence, or the disk is full.
        """
        self._compute_dtype = resolve_dtype(self.config.precision, self.context.device)
        self._replicas = replicate(self.objective, self.context, self.config.distribution)
        self._optimizer = build_optimizer(self._model, self.config.optimizer)
        if resume_from is not None:
            self._restore(resume_from)
        self._saved_step = self.state.step
        used = self.budget.used(self.state.step, self.state.elapsed_seconds)
        done = used if self.budget.unit == "seconds" else self.state.step
        bar = self.progress.bar("training", total=self.budget.total, unit=self.budget.unit, done=done)
        with catch_signals() as stop, training_arithmetic(), memory_errors():
            self.context.run_on_rank_zero(self._open_log)
            self._saved_at = self.progress.clock()
            self._started_at = self.progress.clock() - self.state.elapsed_seconds
            completed = False
            try:
                last_metrics, evaluations = self.context.run_on_rank_zero(self._last_evaluation)
                if self.evaluate_first and not self.state.step and not last_metrics:
                    self.progress.note("evaluating before the first step")
                    last_metrics = self._evaluate(stop)
                with bar as shown:
                    metrics = self._run_steps(stop, shown, last_metrics, evaluations)
                completed = True
            except StopRequested:
                if not self._num_skipped:  # else a resumed run repeats and recounts the skipped steps
                    self._save_if_new()
                raise self._interrupted(stop) from None
            finally:
                self._callbacks.on_end(completed=completed)
            if self.context.any(stop):  # while the last step was saved: the caller may have more to do
                raise self._interrupted(stop)
            return metrics

    @property
    def _model(self) -> nn.Module:
        return self.objective.model

    def _restore(self, checkpoint: Path) -> None:
        load_optimizer(checkpoint, self._model, self._optimizer)
        self._window = LogWindow.from_state(self.state.log_window, self.context)

    def _interrupted(self, stop: StopRequest) -> Interrupted:
        message = f"stopped by {stop.signal_name or 'another rank'} after step {self.state.step}"
        return Interrupted(message, remedy="The state is saved: continue with --resume")

    def _run_steps(
        self, stop: StopRequest, bar: Bar, metrics: dict[str, float], evaluations: int
    ) -> dict[str, float]:
        """Run the steps that are left; return the last metrics, which are `metrics` after so many evaluations."""
        used, save_due, must_stop = self._synchronize(stop)
        if self._is_patience_used_up():  # in a run that is resumed
            return metrics
        while True:
            if must_stop:
                raise StopRequested
            due = self._evaluations_due(used)
            is_over = used >= self.budget.total
            # Weights that cause skipped steps may be corrupt: they must not displace the checkpoints before them.
            if is_over or not self._num_skipped:
                if due > evaluations:
                    bar.show(evaluating="…", **self._shown)
                    metrics = self._evaluate(stop)
                    bar.show(**self._shown)
                    evaluations = due
                    if not is_over and self._is_patience_used_up():
                        what = f"stopped early at step {self.state.step:,}: the best is step {self.state.best_step:,}"
                        self.progress.note(f"{what}, {self.evaluation.patience} evaluations ago")
                        return metrics
                elif save_due:
                    self._save_if_new()
            if is_over:
                return metrics
            step = self.state.step
            self._step(used / self.budget.total, stop)
            now_used, save_due, must_stop = self._synchronize(stop)
            # steps cut short by a time use up the budget without running
            bar.advance(now_used - used if self.budget.unit == "seconds" else self.state.step - step)
            used = now_used
            if self.state.step % self.evaluation.log_every_steps == 0 or used >= self.budget.total:
                self._write_log(bar)

    def _open_log(self) -> None:
        artifacts.remove_temporary_files(self.run / "checkpoints")
        move_later_checkpoints_aside(self.run, self.state.step)
        write_pointers(self.run, self.state)
        self._callbacks = Callbacks([*default_callbacks(), *self.callbacks])
        self._callbacks.on_start(self.run, self.settings, self.state.step)
        for key, (old, new) in self.changed_settings.items():
            self._callbacks.on_event(
                self.state.step, "changed", {"setting": key, "before": old, "after": new}
            )
            self.progress.note(f"{key} is {new!r} from step {self.state.step:,} on, {old!r} before")

    def _elapsed_seconds(self) -> float:
        return self.progress.clock() - self._started_at

    def _synchronize(self, stop: StopRequest) -> tuple[float, bool, bool]:
        """Return the used budget and whether to save, by rank zero's clock; and whether to stop."""
        clock = (self._elapsed_seconds(), self._save_due()) if self.context.is_rank_zero else (0.0, False)
        elapsed, save_due, must_stop = self.context.all_reduce(*clock, bool(stop))
        return self.budget.used(self.state.step, elapsed), bool(save_due), bool(must_stop)

    def _last_evaluation(self) -> tuple[dict[str, float], int]:
        """Return the last evaluation in a resumed run's log, and the number of evaluations so far.

        The log decides, not the clock: a run that was stopped during an evaluation has yet to make it.
        """
        rows = [row for row in read_metrics(self.run) if row["kind"] == VALIDATION]
        if not rows:
            return {}, 0
        step, seconds = rows[-1].pop("step"), rows[-1].pop("seconds")
        del rows[-1]["kind"]
        return rows[-1], self._evaluations_due(self.budget.used(step, seconds))

    def _evaluations_due(self, used: float) -> int:
        times = self.evaluation.times
        return times if used >= self.budget.total else math.floor(used * times / self.budget.total)

    def _is_patience_used_up(self) -> bool:
        """Return whether so many evaluations were made since the best one; the log counts them."""
        patience = self.evaluation.patience
        if patience is None or self.state.best_step is None:
            return False
        best_step = self.state.best_step

        def count() -> int:
            return sum(
                row["kind"] == VALIDATION and row["step"] > best_step for row in read_metrics(self.run)
            )

        return self.context.run_on_rank_zero(count) >= patience

    def _step(self, progress: float, stop: StopRequest) -> None:
        """Take one optimizer step, or raise with the weights unchanged if a stop was requested."""
        started = self.progress.clock()
        optimizer = self.config.optimizer
        learning_rate = learning_rate_at(progress, round_warmup(optimizer, self.budget))
        step = self.batches.step_data(progress, self.state.position, self._micro_batch_tokens)
        while (result := self._forward_backward(step, stop)) is None:
            step = self._smaller_micro_batches(progress, step)
        rank_loss, metrics = result
        (loss,) = self.context.all_reduce(rank_loss)
        norm = clip_gradients(self._model.parameters(), optimizer.max_grad_norm)
        if math.isfinite(loss) and math.isfinite(norm.item()):
            set_learning_rate(self._optimizer, learning_rate)
            self._optimizer.step()
            self._num_skipped = 0
            self._window.add(
                metrics, learning_rate, norm.item(), step.num_tokens, self.progress.clock() - started
            )
        else:
            self._skip(step.name, loss, norm.item())
        self.state = replace(
            self.state,
            step=self.state.step + 1,
            elapsed_seconds=self._elapsed_seconds(),
            tokens=self.state.tokens + step.num_tokens,
            position=step.next_position,
        )

    @property
    def _micro_batch_tokens(self) -> int:
        """The setting, or the size left of it after memory ran out, if smaller."""
        setting = self.config.micro_batch_tokens
        return min(self.state.micro_batch_tokens or setting, setting)

    def _forward_backward(
        self, step: StepData[Any], stop: StopRequest
    ) -> tuple[float, MetricAccumulator] | None:
        """Accumulate the gradients of the step; return its loss and metrics, or None if memory does not suffice.

        Several ranks cannot take a step again: DDP has sent some of its gradients.
        """
        torch.manual_seed(int(mix(self.config.seed, self.state.step, self.context.rank)) % _NUM_SEEDS)
        self._optimizer.zero_grad(set_to_none=True)
        self._model.train()
        try:
            # several ranks stop together, between steps
            stop_in_step = stop if self.context.world_size == 1 else None
            return accumulate_gradients(
                self.objective, step, self._compute_dtype, replicas=self._replicas, stop=stop_in_step
            )
        except (MemoryError, RuntimeError) as error:
            if self._replicas is not None or not is_out_of_memory(error):
                raise
        return None

    def _smaller_micro_batches(self, progress: float, step: StepData[Any]) -> StepData[Any]:
        """Cut the step into more micro-batches; the run keeps their size.

        Args:
            progress: share of the run before the step.
            step: the step, as it was cut.
        """
        self._optimizer.zero_grad(set_to_none=True)
        empty_cache(self.context.device)
        tokens = self._micro_batch_tokens
        number = self.state.step + 1
        while tokens > 1:
            tokens //= 2
            smaller = self.batches.step_data(progress, self.state.position, tokens)
            if len(smaller.batches) > len(step.batches):
                self.state = replace(self.state, micro_batch_tokens=tokens)
                self._callbacks.on_event(
                    number, "halved", {"micro_batch_tokens": tokens, "reason": "out of memory"}
                )
                self.progress.note(
                    f"warning: out of memory at step {number}: micro_batch_tokens is {tokens:,} from here"
                )
                return smaller
        what = f"out of memory at step {number} with one sequence at a time"
        remedy = "Use shorter sequences or a smaller model"
        raise RunError(what, where=self.run, remedy=remedy)

    def _skip(self, name: str, loss: float, norm: float) -> None:
        """Leave the weights unchanged; give up after too many skipped steps in a row."""
        self._num_skipped += 1
        step = self.state.step + 1
        what = f"loss {loss}, gradient norm {norm} at step {step} ({name})"
        self._callbacks.on_event(step, "skipped", {"reason": what})
        self.progress.note(f"warning: {what}: the step was skipped")
        if self._num_skipped > _MAX_SKIPPED_STEPS:
            rates = ["optimizer.learning_rate"]
            if self.config.optimizer.muon is not None:  # its rate is a setting of its own
                rates.append("optimizer.muon.learning_rate")
            remedy = (
                f"Continue with a lower rate: --resume {' '.join(f'--set {rate}=RATE' for rate in rates)}"
            )
            if self._saved_step and self._saved_step == step - self._num_skipped:
                remedy += (
                    f"; step {self._saved_step} was saved right before and may be corrupt: if so, delete it"
                )
            raise RunError(f"{what}, {self._num_skipped} times in a row", where=self.run, remedy=remedy)

    def _write_log(self, bar: Bar) -> None:
        values = self._window.means(self.objective.loss_names, self.context)
        if not values:
            return
        state = self.state
        where = {"phase": state.position.phase, "epoch": state.position.epoch, "tokens": state.tokens}
        self._callbacks.on_step(state.step, {**values, **where, "seconds": round(state.elapsed_seconds, 3)})
        counted = {} if self.budget.unit == "steps" else {"step": f"{state.step:,}"}
        self._shown = {
            **counted,
            "loss": f"{values['loss']:.3f}",
            "tokens/s": f"{values['tokens_per_second']:,.0f}",
            "lr": f"{values['learning_rate']:.1e}",
            "norm": f"{values['gradient_norm']:.2f}",
        }
        bar.show(**self._shown)
        self._window = LogWindow()

    def _evaluate(self, stop: StopRequest) -> dict[str, float]:
        self._model.eval()
        sums = MetricAccumulator()
        in_dtype = autocast(self.context.device, self._compute_dtype)
        with torch.inference_mode(), in_dtype:
            for batch_metrics in self.objective.evaluate():
                if self.context.any(stop):
                    raise StopRequested
                sums.add(batch_metrics)
            fills = self.objective.fill_samples()
        metrics = sums.means(self.objective.loss_names)
        self._callbacks.on_evaluation(self.state.step, {**metrics, "seconds": self.state.elapsed_seconds})
        if fills:
            self._callbacks.on_event(self.state.step, FILLS, {"fills": fills})
        shown = {
            name: "undefined" if math.isnan(value) else f"{value:.4g}"
            for name, value in self.objective.shown_metrics(metrics).items()
        }
        start = f"step {self.state.step:,} held-out: "
        self.progress.note(start + join_values(shown, _MAX_LINE_WIDTH - len(start)))
        # NaN compares as neither larger nor smaller, and would stay the best
        scores = self.objective.selection_score(metrics)
        score = tuple(-sys.float_info.max if math.isnan(value) else value for value in scores)
        if score > self.state.best_score:
            self.state = replace(self.state, best_score=score, best_step=self.state.step)
        self._save()  # again if a stop during the evaluation had saved this step: the best may have changed
        return metrics

    def _save_due(self) -> bool:
        config = self.config.checkpoints
        every = (config.every_steps, config.keep_every_steps)
        if any(steps is not None and self.state.step % steps == 0 for steps in every):
            return True
        return self.progress.clock() - self._saved_at >= 60 * config.every_minutes

    def _save_if_new(self) -> None:
        if self._saved_step != self.state.step:
            self._save()

    def _save(self) -> None:
        window = self._window.to_state(self.context)
        self.state = replace(self.state, elapsed_seconds=self._elapsed_seconds(), log_window=window)
        self.context.run_on_rank_zero(self._write_checkpoint)
        self._saved_step = self.state.step
        self._saved_at = self.progress.clock()

    def _write_checkpoint(self) -> None:
        save_checkpoint(
            self.run,
            self.state,
            optimizer_state_tensors(self._model, self._optimizer),
            lambda directory: self.save_model(directory, self._model, self.state),
        )
        prune_checkpoints(self.run, self.config.checkpoints)
