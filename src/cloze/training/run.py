"""A run of pre-training or fine-tuning in its directory: its start, its steps, its evaluations and its checkpoints.

Several ranks share the instances of a step. They agree on all that decides the next action: rank zero's clock, a
request to stop on any rank, sums of losses. Rank zero alone writes.
"""

import math
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cloze import artifacts
from cloze.callbacks import Callback, Callbacks
from cloze.progress import Bar, Progress, join_values
from cloze.tables import format_count
from cloze.training.checkpoints import (
    SETTINGS_FILE,
    TrainingState,
    link_steps,
    load_optimizer,
    move_later_checkpoints_aside,
    newest_checkpoint,
    note_damaged_links,
    optimizer_state_tensors,
    prune_checkpoints,
    read_state,
    save_checkpoint,
)
from cloze.training.config import EvaluationConfig, RunSettings
from cloze.training.distributed import DistributedContext
from cloze.training.interrupts import Interrupted, StopRequest, StopRequested, catch_signals
from cloze.training.metric_sums import EvaluatedSums, add_sums, means_of, means_of_steps, read_sums
from cloze.training.metrics_log import METRICS, default_callbacks, read_metrics
from cloze.training.model_card import CardInfo, model_card
from cloze.training.objective import BatchSource, Objective
from cloze.training.optimizer import Budget, round_warmup
from cloze.training.precision import memory_errors, training_arithmetic
from cloze.training.run_directory import create_run_directory, replace_settings, run_lock, write_environment
from cloze.training.step import OptimizerSteps

_MAX_LINE_WIDTH = 100

BuildBatches = Callable[[], BatchSource]
"""Builds the source of training batches once the run has its directory, which may keep a part of them."""


@dataclass(kw_only=True, slots=True)
class TrainingRun:
    """One run, from its first step or a checkpoint to its end."""

    path: Path
    """Its directory."""
    settings: str
    """The content of `run.toml`."""
    config: RunSettings
    evaluation: EvaluationConfig
    budget: Budget
    card: CardInfo
    context: DistributedContext
    progress: Progress
    evaluate_first: bool = False
    """Also evaluate before the first step, so that a loss or gain against the initial model is seen."""
    callbacks: Sequence[Callback] = ()
    """They receive what the run measures, besides its log."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files that the run keeps copies of, by their names in it."""
    _objective: Objective = field(init=False)
    _steps: OptimizerSteps = field(init=False)
    _callbacks: Callback = field(init=False, default_factory=Callback)
    """Of rank zero; the others have one that does nothing."""
    _saved_at: float = field(init=False)
    _started_at: float = field(init=False)
    _shown: dict[str, str] = field(init=False, default_factory=dict)
    """Values of the last log below the bar."""

    def train(
        self,
        load: Callable[[Path | None], Objective],
        build_batches: BuildBatches,
        *,
        resume: bool,
        overwrite: bool = False,
    ) -> dict[str, float]:
        """Start the run or resume it; return the last evaluation.

        Args:
            load: loads the model of a checkpoint, or builds the initial one without, with its loss.
            resume: train from the newest intact checkpoint.

        Raises:
            Interrupted: SIGINT or SIGTERM arrived; the newest checkpoint holds the last step that was not skipped.
        """
        if not resume:
            self._objective = load(None)  # a model that cannot be read is found before anything is written
            with catch_signals(self.progress) as stop, run_lock(self.path, self.context):
                self.context.run_on_rank_zero(
                    lambda: create_run_directory(
                        self.path, self.settings, files=self.files, overwrite=overwrite
                    )
                )
                return self._train(build_batches, stop, None, {})
        with run_lock(self.path, self.context):
            checkpoint, changes = self.context.run_on_rank_zero(self._find_checkpoint)
            self._objective = load(checkpoint)
            with catch_signals(self.progress) as stop:
                return self._train(build_batches, stop, checkpoint, changes)

    def _find_checkpoint(self) -> tuple[Path | None, dict[str, tuple[Any, Any]]]:
        """Return the newest intact checkpoint, and the settings that change, which `run.toml` then has."""
        artifacts.remove_temporary_files(self.path / "checkpoints")
        checkpoint = newest_checkpoint(self.path, self.progress)
        if (self.path / METRICS).exists():
            read_metrics(self.path)
        return checkpoint, replace_settings(self.path, type(self.config), self.settings, checkpoint)

    def _train(
        self,
        build_batches: BuildBatches,
        stop: StopRequest,
        checkpoint: Path | None,
        changes: Mapping[str, tuple[Any, Any]],
    ) -> dict[str, float]:
        state = TrainingState() if checkpoint is None else read_state(checkpoint)
        batches = build_batches()
        if self.context.is_rank_zero:
            self._callbacks = Callbacks([*default_callbacks(), *self.callbacks])
        optimizer = round_warmup(self.config.optimizer, self.budget)
        self._steps = OptimizerSteps(
            path=self.path,
            state=state,
            objective=self._objective,
            batches=batches,
            config=replace(self.config, optimizer=optimizer),
            context=self.context,
            callbacks=self._callbacks,
            progress=self.progress,
        )
        if checkpoint is not None:
            load_optimizer(checkpoint, self._model, self._steps.optimizer)
        dtype = self._steps.compute_dtype
        self.context.run_on_rank_zero(
            lambda: write_environment(self.path, self.context, dtype, self.progress)
        )
        used = self.budget.used(state.step, state.elapsed_seconds)
        done = used if self.budget.unit == "seconds" else state.step
        bar = self.progress.bar("training", total=self.budget.total, unit=self.budget.unit, done=done)
        with training_arithmetic(), memory_errors(), self._finish_callbacks(), closing(self._steps):
            self.context.run_on_rank_zero(lambda: self._open_log(changes))
            self._saved_at = self.progress.clock()
            self._started_at = self.progress.clock() - state.elapsed_seconds
            try:
                if self.evaluate_first and not state.step and not state.metrics:
                    self.progress.note("evaluating before the first step")
                    self._evaluate(stop, due=0)
                with bar as shown:
                    self._run_steps(stop, shown)
            except StopRequested:
                if not self._steps.num_skipped:  # else a resumed run repeats and recounts the skipped steps
                    self._save_if_new()
                raise self._interrupted(stop) from None
        if self.context.any(stop):  # while the last step was saved: the caller may have more to do
            raise self._interrupted(stop)
        return dict(self._state.metrics)

    @contextmanager
    def _finish_callbacks(self) -> Iterator[None]:
        """Finish the callbacks; the first error is raised, on all ranks."""
        try:
            yield
        except BaseException:  # maybe of this rank alone, so that the others are not waited for
            try:
                self._callbacks.on_end(completed=False)
            except Exception as error:
                self.progress.note(f"warning: a callback failed at the end of the run: {error!r}")
            raise
        self.context.run_on_rank_zero(lambda: self._callbacks.on_end(completed=True))

    @property
    def _model(self) -> nn.Module:
        return self._objective.model

    @property
    def _state(self) -> TrainingState:
        return self._steps.state

    def _interrupted(self, stop: StopRequest) -> Interrupted:
        message = f"stopped by {stop.signal_name or 'another rank'} after step {self._state.step}"
        return Interrupted(message, remedy="The state is saved: continue with `resume`")

    def _run_steps(self, stop: StopRequest, bar: Bar) -> None:
        used, next_used, save_due, must_stop = self._synchronize(stop)
        while not self._is_patience_used_up:
            if must_stop:
                raise StopRequested
            due = self._evaluations_due(used)
            is_over = used >= self.budget.total
            # Weights that cause skipped steps may be corrupt: they must not displace the checkpoints before them.
            if is_over or not self._steps.num_skipped:
                if due > self._state.evaluations:
                    bar.show(evaluating="…", **self._shown)
                    self._evaluate(stop, due)
                    bar.show(**self._shown)
                    if self._is_patience_used_up and not is_over:
                        what = f"stopped early at step {self._state.step:,}: the best is step {self._state.best_step:,}"
                        since = format_count(self._state.evaluations_since_best, "evaluation")
                        self.progress.note(f"{what}, {since} ago")
                        return
                elif save_due or is_over:
                    self._save_if_new()
            if is_over:
                return
            step = self._state.step
            self._steps.take(used / self.budget.total, next_used / self.budget.total, stop)
            self._steps.state = replace(self._state, elapsed_seconds=self._elapsed_seconds())
            now_used, next_used, save_due, must_stop = self._synchronize(stop)
            # steps cut short by a time use up the budget without running
            bar.advance(now_used - used if self.budget.unit == "seconds" else self._state.step - step)
            used = now_used
            if self._state.step % self.evaluation.log_every_steps == 0 or used >= self.budget.total:
                self._write_log(bar)

    def _open_log(self, changes: Mapping[str, tuple[Any, Any]]) -> None:
        note_damaged_links(self.path, self.progress)
        move_later_checkpoints_aside(self.path, self._state.step)
        link_steps(self.path, self._state.step, self._state.best_step)
        self._callbacks.on_start(self.path, tomllib.loads(self.settings), self._state.step)
        for key, (old, new) in changes.items():
            self._callbacks.on_event(
                self._state.step, "changed", {"setting": key, "before": old, "after": new}
            )
            self.progress.note(f"{key} is {new!r} from step {self._state.step:,} on, {old!r} before")

    def _elapsed_seconds(self) -> float:
        return self.progress.clock() - self._started_at

    def _synchronize(self, stop: StopRequest) -> tuple[float, float, bool, bool]:
        """Return the budget used now and one step later, and whether to save, by rank zero's clock; whether to stop."""
        clock = (self._elapsed_seconds(), self._save_due()) if self.context.is_rank_zero else (0.0, False)
        elapsed, save_due, must_stop = self.context.all_reduce(*clock, bool(stop))
        used, next_used = (
            self.budget.used(step, elapsed) for step in (self._state.step, self._state.step + 1)
        )
        return used, next_used, bool(save_due), bool(must_stop)

    def _evaluations_due(self, used: float) -> int:
        times = self.evaluation.times
        return times if used >= self.budget.total else math.floor(used * times / self.budget.total)

    @property
    def _is_patience_used_up(self) -> bool:
        patience, since_best = self.evaluation.patience, self._state.evaluations_since_best
        return patience is not None and self._state.best_step is not None and since_best >= patience

    def _write_log(self, bar: Bar) -> None:
        if not self._steps.measured:
            return
        values = means_of_steps(self._steps.measured, self._objective.loss_names, self.context)
        self._steps.measured.clear()
        state = self._state
        where = {"phase": state.position.phase, "epoch": state.position.epoch, "tokens": state.tokens}
        row = {**values, **where, "seconds": round(state.elapsed_seconds, 3)}
        self.context.run_on_rank_zero(lambda: self._callbacks.on_step(state.step, row))
        counted = {} if self.budget.unit == "steps" else {"step": f"{state.step:,}"}
        self._shown = {
            **counted,
            "loss": f"{values['loss']:.3f}",
            "tokens/s": f"{values['tokens_per_second']:,.0f}",
            "lr": f"{values['learning_rate']:.1e}",
            "norm": f"{values['gradient_norm']:.2f}",
        }
        bar.show(**self._shown)

    def _evaluate(self, stop: StopRequest, due: int) -> None:
        """Evaluate, and save; then the schedule has had `due` evaluations."""
        self._model.eval()
        batches: list[EvaluatedSums] = []
        started = self.progress.clock()
        try:
            with torch.inference_mode():  # in float32, as the saved model answers
                for batch_metrics in self._objective.evaluate():
                    if self.context.any(stop):
                        raise StopRequested
                    batches.append(batch_metrics)
        finally:
            self._started_at += self.progress.clock() - started  # a time budget is for training alone
        rounds = zip(*self.context.all_gather(read_sums(batches)), strict=True)
        # in the order of the batches, so that any number of ranks adds alike
        sums = add_sums(chain.from_iterable(rounds))
        metrics = means_of(sums, self._objective.loss_names)
        logged = {**metrics, "seconds": self._state.elapsed_seconds}
        self.context.run_on_rank_zero(lambda: self._callbacks.on_evaluation(self._state.step, logged))
        shown = {
            name: "undefined" if math.isnan(value) else f"{value:.4g}"
            for name, value in self._objective.shown_metrics(metrics).items()
        }
        start = f"step {self._state.step:,} held-out: "
        self.progress.note(start + join_values(shown, _MAX_LINE_WIDTH - len(start)))
        # NaN compares as neither larger nor smaller, and would stay the best
        scores = self._objective.selection_score(metrics)
        score = tuple(-sys.float_info.max if math.isnan(value) else value for value in scores)
        since_best = self._state.evaluations_since_best + 1
        state = replace(self._state, metrics=metrics, evaluations=due, evaluations_since_best=since_best)
        if score > state.best_score:
            state = replace(state, best_score=score, best_step=state.step, evaluations_since_best=0)
        self._steps.state = state
        self._save()  # again if a stop during the evaluation had saved this step: the best may have changed

    def _save_due(self) -> bool:
        config = self.config.checkpoints
        every = (config.every_steps, config.keep_every_steps)
        if any(steps is not None and self._state.step % steps == 0 for steps in every):
            return True
        return self.progress.clock() - self._saved_at >= 60 * config.every_minutes

    def _save_if_new(self) -> None:
        if self._steps.saved_step != self._state.step:
            self._save()

    def _save(self) -> None:
        self._steps.state = replace(self._state, elapsed_seconds=self._elapsed_seconds())
        self.context.run_on_rank_zero(self._write_checkpoint)
        self._steps.saved_step = self._state.step
        self._saved_at = self.progress.clock()

    def _write_checkpoint(self) -> None:
        tensors = optimizer_state_tensors(self._model, self._steps.optimizer)
        save_checkpoint(self.path, self._state, tensors, self._save_model)
        prune_checkpoints(self.path, self.config.checkpoints)

    def _save_model(self, directory: Path) -> None:
        self._objective.save_model(directory)
        (directory / SETTINGS_FILE).parent.mkdir()
        (directory / SETTINGS_FILE).write_text(self.settings, encoding="utf-8")
        card = model_card(self.card, self._model, self.path, self._state)
        (directory / artifacts.CARD_FILE).write_text(card, encoding="utf-8")
