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
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from cloze import artifacts
from cloze.callbacks import Callback, Callbacks, TensorBoardWriter
from cloze.file_names import CARD_FILE
from cloze.progress import SILENT, Progress, join_values
from cloze.tables import format_count
from cloze.training.checkpoints import (
    SETTINGS_FILE,
    CheckpointConfig,
    TrainingState,
    load_optimizer,
    newest_checkpoint,
    read_state,
    repair_checkpoints,
    save_checkpoint,
)
from cloze.training.config import EvaluationConfig, RunSettings
from cloze.training.distributed import DistributedContext
from cloze.training.interrupts import Interrupted, StopRequest, StopRequested, catch_signals
from cloze.training.metric_sums import EvaluatedSums, add_sums, means_of, means_of_steps, read_sums
from cloze.training.metrics_log import METRICS, MetricsLog, read_metrics
from cloze.training.model_card import CardInfo, model_card
from cloze.training.objective import BatchSource, Objective
from cloze.training.optimizer import Budget, round_warmup
from cloze.training.precision import inference_arithmetic, memory_errors, training_arithmetic
from cloze.training.run_directory import create_run_directory, replace_settings, run_lock, write_environment
from cloze.training.step import OptimizerSteps

_MAX_LINE_WIDTH = 100

BuildBatches = Callable[[], BatchSource]
"""Builds the source of training batches once the run has its directory, which may keep a part of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """How a run is started, and who follows it; its results do not depend on it."""

    resume: bool = False
    """Continue the run in the directory, from its newest intact checkpoint."""
    overwrite: bool = False
    callbacks: Sequence[Callback] = ()
    """They receive what the run measures, besides its log."""
    progress: Progress = SILENT


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
    launch: Launch = Launch()
    evaluate_first: bool = False
    """Also evaluate before the first step, so that a loss or gain against the initial model is seen."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files that the run keeps copies of, by their names in it."""

    def train(
        self, load: Callable[[Path | None], Objective], build_batches: BuildBatches
    ) -> dict[str, float]:
        """Start the run or resume it; return the last evaluation.

        Args:
            load: loads the model of a checkpoint, or builds the initial one without, with its loss.

        Raises:
            Interrupted: SIGINT or SIGTERM arrived; the newest checkpoint holds the last step that was not skipped.
        """
        checkpoint, changes, resume = None, dict[str, tuple[Any, Any]](), self.launch.resume
        if not resume:
            objective = load(None)  # a model that cannot be read is found before anything is written
        with run_lock(self.path, self.context):
            if resume:
                checkpoint, changes = self.context.run_on_rank_zero(self._find_checkpoint)
                objective = load(checkpoint)
            with catch_signals(self.launch.progress) as stop:
                if not resume:
                    create = partial(create_run_directory, self.path, self.settings, files=self.files)
                    self.context.run_on_rank_zero(partial(create, overwrite=self.launch.overwrite))
                return self._train(objective, build_batches, stop, checkpoint, changes)

    def _find_checkpoint(self) -> tuple[Path | None, dict[str, tuple[Any, Any]]]:
        """Return the newest intact checkpoint, and the settings that change, which `run.toml` then has."""
        artifacts.remove_temporary_files(self.path / "checkpoints")
        checkpoint = newest_checkpoint(self.path, self.launch.progress)
        if (self.path / METRICS).exists():
            read_metrics(self.path)
        return checkpoint, replace_settings(self.path, type(self.config), self.settings, checkpoint)

    def _train(
        self,
        objective: Objective,
        build_batches: BuildBatches,
        stop: StopRequest,
        checkpoint: Path | None,
        changes: Mapping[str, tuple[Any, Any]],
    ) -> dict[str, float]:
        path, context, progress = self.path, self.context, self.launch.progress
        state = TrainingState() if checkpoint is None else read_state(checkpoint)
        batches = build_batches()
        callbacks = Callback()  # does nothing
        if context.is_rank_zero:
            tensorboard = [TensorBoardWriter()] if find_spec("tensorboardX") is not None else []
            callbacks = Callbacks([MetricsLog(), *tensorboard, *self.launch.callbacks])
        steps = OptimizerSteps(
            path=path,
            state=state,
            objective=objective,
            batches=batches,
            config=replace(self.config, optimizer=round_warmup(self.config.optimizer, self.budget)),
            context=context,
            callbacks=callbacks,
            progress=progress,
        )
        if checkpoint is not None:
            load_optimizer(checkpoint, objective.model, steps.optimizer)

        def start() -> None:
            write_environment(path, context, steps.compute_dtype, progress)
            repair_checkpoints(path, state, progress)
            callbacks.on_start(path, tomllib.loads(self.settings), state.step)
            for key, (old, new) in changes.items():
                callbacks.on_event(state.step, "changed", {"setting": key, "before": old, "after": new})
                progress.note(f"{key} is {new!r} from step {state.step:,} on, {old!r} before")

        def save_model(directory: Path) -> None:
            objective.save_model(directory)
            (directory / SETTINGS_FILE).parent.mkdir()
            (directory / SETTINGS_FILE).write_text(self.settings, encoding="utf-8")
            card = model_card(self.card, objective.model, path, steps.state)
            (directory / CARD_FILE).write_text(card, encoding="utf-8")

        def write_checkpoint() -> None:
            save_checkpoint(
                path, steps.state, self.config.checkpoints, objective.model, steps.optimizer, save_model
            )

        def interrupted() -> Interrupted:
            message = f"stopped by {stop.signal_name or 'another rank'} after step {steps.state.step}"
            return Interrupted(message, remedy="The state is saved: continue with `resume`")

        with (
            training_arithmetic(deterministic=self.config.deterministic),
            memory_errors(),
            _finishing(callbacks, steps),
            closing(steps),
        ):
            context.run_on_rank_zero(start)
            loop = _Loop(steps, self.budget, self.evaluation, self.config.checkpoints, stop, write_checkpoint)
            try:
                if self.evaluate_first and not state.step and not state.metrics:
                    progress.note("evaluating before the first step")
                    loop.evaluate(due=0)
                loop.run()
            except StopRequested:
                # otherwise a resumed run repeats and recounts the skipped steps
                if not steps.num_skipped and steps.saved_step != steps.state.step:
                    loop.save()
                raise interrupted() from None
        if context.any(stop):  # while the last step was saved: the caller may have more to do
            raise interrupted()
        return dict(steps.state.metrics)


@contextmanager
def _finishing(callbacks: Callback, steps: OptimizerSteps) -> Iterator[None]:
    """Finish the callbacks at the end; the first error is raised, on all ranks."""
    try:
        yield
    except BaseException:  # maybe of this rank alone, so that the others are not waited for
        try:
            callbacks.on_end(completed=False)
        except Exception as error:
            steps.progress.note(f"warning: a callback failed at the end of the run: {error!r}")
        raise
    steps.context.run_on_rank_zero(lambda: callbacks.on_end(completed=True))


@dataclass(slots=True)
class _Loop:
    """Steps, evaluations and checkpoints, until the budget or the patience is used up."""

    steps: OptimizerSteps
    budget: Budget
    evaluation: EvaluationConfig
    checkpoints: CheckpointConfig
    stop: StopRequest
    write_checkpoint: Callable[[], None]
    _saved_at: float = field(init=False)
    _started_at: float = field(init=False)
    _shown: dict[str, str] = field(init=False, default_factory=dict)
    """Values of the last log below the bar."""

    def __post_init__(self) -> None:
        clock = self.steps.progress.clock
        self._saved_at, self._started_at = clock(), clock() - self.steps.state.elapsed_seconds

    def run(self) -> None:
        """Run the remaining steps.

        Raises:
            StopRequested: a stop was requested, of this rank or another one.
        """
        steps, total, is_timed = self.steps, self.budget.total, self.budget.unit == "seconds"
        spent = self.budget.used(steps.state.step, steps.state.elapsed_seconds)
        done = spent if is_timed else steps.state.step
        with steps.progress.bar("training", total=total, unit=self.budget.unit, done=done) as bar:
            used, next_used, save_due, must_stop = self._synchronize()
            while not self._is_patience_used_up:
                if must_stop:
                    raise StopRequested
                is_over = used >= total
                times = self.evaluation.times
                due = times if is_over else math.floor(used * times / total)
                # Weights that cause skipped steps may be corrupt: they must not displace the checkpoints before them.
                if is_over or not steps.num_skipped:
                    if due > steps.state.evaluations:
                        bar.show(evaluating="…", **self._shown)
                        self.evaluate(due)
                        bar.show(**self._shown)
                        if self._is_patience_used_up and not is_over:
                            best = f"the best is step {steps.state.best_step:,}"
                            since = format_count(steps.state.evaluations_since_best, "evaluation")
                            what = f"stopped early at step {steps.state.step:,}: {best}, {since} ago"
                            steps.progress.note(what)
                            return
                    elif (save_due or is_over) and steps.saved_step != steps.state.step:
                        self.save()
                if is_over:
                    return
                step = steps.state.step
                steps.take(used / total, next_used / total, self.stop)
                steps.state = replace(steps.state, elapsed_seconds=self._elapsed_seconds())
                now_used, next_used, save_due, must_stop = self._synchronize()
                # steps cut short by a time use up the budget without running
                bar.advance(now_used - used if is_timed else steps.state.step - step)
                used = now_used
                is_logged = steps.state.step % self.evaluation.log_every_steps == 0 or used >= total
                if is_logged and steps.measured:
                    self._write_log()
                    bar.show(**self._shown)

    def _elapsed_seconds(self) -> float:
        return self.steps.progress.clock() - self._started_at

    def _synchronize(self) -> tuple[float, float, bool, bool]:
        """Return the budget used now and one step later, and whether to save, by rank zero's clock; whether to stop."""
        step, elapsed, save_due = self.steps.state.step, 0.0, False
        if self.steps.context.is_rank_zero:
            elapsed = self._elapsed_seconds()
            every = (self.checkpoints.every_steps, self.checkpoints.keep_every_steps)
            save_due = any(steps is not None and step % steps == 0 for steps in every)
            minutes = self.checkpoints.every_minutes
            save_due = save_due or self.steps.progress.clock() - self._saved_at >= 60 * minutes
        elapsed, save, must_stop = self.steps.context.all_reduce(elapsed, save_due, bool(self.stop))
        used, next_used = self.budget.used(step, elapsed), self.budget.used(step + 1, elapsed)
        return used, next_used, bool(save), bool(must_stop)

    @property
    def _is_patience_used_up(self) -> bool:
        patience, state = self.evaluation.patience, self.steps.state
        return (
            patience is not None and state.best_step is not None and state.evaluations_since_best >= patience
        )

    def _write_log(self) -> None:
        steps, state = self.steps, self.steps.state
        values = means_of_steps(steps.measured, steps.objective.loss_names, steps.context)
        steps.measured.clear()
        where = {"phase": state.position.phase, "epoch": state.position.epoch, "tokens": state.tokens}
        row = {**values, **where, "seconds": round(state.elapsed_seconds, 3)}
        steps.context.run_on_rank_zero(lambda: steps.callbacks.on_step(state.step, row))
        self._shown = {
            **({} if self.budget.unit == "steps" else {"step": f"{state.step:,}"}),
            "loss": f"{values['loss']:.3f}",
            "tokens/s": f"{values['tokens_per_second']:,.0f}",
            "lr": f"{values['learning_rate']:.1e}",
            "norm": f"{values['gradient_norm']:.2f}",
        }

    def evaluate(self, due: int) -> None:
        """Evaluate, and save; then the schedule has had `due` evaluations."""
        steps, objective, context = self.steps, self.steps.objective, self.steps.context
        objective.model.eval()
        batches: list[EvaluatedSums] = []
        started = steps.progress.clock()
        try:
            with inference_arithmetic(objective.model):
                for batch_metrics in objective.evaluate():
                    if context.any(self.stop):
                        raise StopRequested
                    batches.append(batch_metrics)
        finally:
            self._started_at += steps.progress.clock() - started  # a time budget is for training alone
        rounds = zip(*context.all_gather(read_sums(batches)), strict=True)
        # in the order of the batches, so that any number of ranks adds alike
        metrics = means_of(add_sums(chain.from_iterable(rounds)), objective.loss_names)
        state = steps.state
        logged = {**metrics, "seconds": state.elapsed_seconds}
        context.run_on_rank_zero(partial(steps.callbacks.on_evaluation, state.step, logged))
        shown = {
            name: "undefined" if math.isnan(value) else f"{value:.4g}"
            for name, value in objective.shown_metrics(metrics).items()
        }
        start = f"step {state.step:,} held-out: "
        steps.progress.note(start + join_values(shown, _MAX_LINE_WIDTH - len(start)))
        # NaN compares as neither larger nor smaller, and would stay the best
        scores = objective.selection_score(metrics)
        score = tuple(-sys.float_info.max if math.isnan(value) else value for value in scores)
        since_best = state.evaluations_since_best + 1
        state = replace(state, metrics=metrics, evaluations=due, evaluations_since_best=since_best)
        if score > state.best_score:
            state = replace(state, best_score=score, best_step=state.step, evaluations_since_best=0)
        steps.state = state
        self.save()  # again if a stop during the evaluation had saved this step: the best may have changed

    def save(self) -> None:
        """Write a checkpoint."""
        steps = self.steps
        steps.state = replace(steps.state, elapsed_seconds=self._elapsed_seconds())
        steps.context.run_on_rank_zero(self.write_checkpoint)
        steps.saved_step = steps.state.step
        self._saved_at = steps.progress.clock()
