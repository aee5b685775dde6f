"""A run directory: start or resume it, lock it, and record its settings, environment, checkpoints and model card."""

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from cloze import artifacts, file_io
from cloze.callbacks import Callback
from cloze.data.memory import MemoryRows
from cloze.errors import InputError, RunError
from cloze.progress import Progress
from cloze.training.budget import Budget
from cloze.training.checkpoints import (
    SETTINGS_FILE,
    TrainingState,
    newest_checkpoint,
    read_state,
)
from cloze.training.config import EvaluationConfig, RunSettings
from cloze.training.distributed import DistributedContext
from cloze.training.environment import write_environment
from cloze.training.loop import Trainer
from cloze.training.memory import memory_errors
from cloze.training.metrics_log import METRICS, read_metrics
from cloze.training.model_card import CardInfo, model_card
from cloze.training.objective import BatchSource, Objective
from cloze.training.precision import autocast, resolve_dtype, training_arithmetic
from cloze.training.resume import check_settings
from cloze.training.run_lock import check_not_locked, run_lock

_MAX_EVALUATION_SHARE = 0.2
"""Evaluations take at most this share of a run on the clock, unless the last one alone takes more."""
_MEASURED_SHARE = 0.05
"""The share of a budget that measuring an evaluation may take; one batch always runs."""

BuildObjective = Callable[[nn.Module], tuple[Objective, Callable[[], BatchSource]]]
"""Builds the objective of a model on its device, and a function that builds its batches and may write to the run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRun:
    """A run of pre-training or fine-tuning in its directory."""

    path: Path
    settings: str
    """The content of `run.toml`."""
    config: RunSettings
    evaluation: EvaluationConfig
    budget: Budget
    card: CardInfo
    context: DistributedContext
    progress: Progress
    evaluate_first: bool = False
    """Also evaluate before the first step."""
    callbacks: tuple[Callback, ...] = ()
    in_memory: Mapping[str, MemoryRows] = field(default_factory=dict)
    """Data in memory by the path of the file in which the run keeps them, so that it can be resumed."""

    def start(self, model: nn.Module, build: BuildObjective) -> dict[str, float]:
        """Create the directory, in the place of an older run, and train; return the last evaluation.

        Args:
            model: the initial model.
            build: builds objective and batches.

        Raises:
            InputError: another process uses the run, a setting is not Unicode text, or no evaluation fits into the
                budget; then nothing was written.
        """
        state = self._initial_state(model, build)
        self.context.run_on_rank_zero(lambda: create_run_directory(self.path, self.settings, self.in_memory))
        with run_lock(self.path, self.context):
            return self._train(model, build, state)

    def resume(self, load: Callable[[Path | None], nn.Module], build: BuildObjective) -> dict[str, float]:
        """Train from the newest intact checkpoint; return the last evaluation.

        Args:
            load: loads the model of a checkpoint, or builds the initial model without one.
            build: builds objective and batches.

        Raises:
            InputError: no checkpoint is intact, a file of the run is damaged, a setting has changed, or another process
                uses the run.
        """
        with run_lock(self.path, self.context):
            checkpoint, changes = self.context.run_on_rank_zero(self._check_files)
            model = load(checkpoint)
            if checkpoint is None:
                return self._train(model, build, self._initial_state(model, build))
            return self._train(model, build, read_state(checkpoint), checkpoint, changes)

    def _check_files(self) -> tuple[Path | None, dict[str, tuple[Any, Any]]]:
        """Return the newest intact checkpoint and the settings that changed since."""
        checkpoint = newest_checkpoint(self.path, self.progress)
        changes = check_settings(self.path, checkpoint)
        if (self.path / METRICS).exists():
            read_metrics(self.path)
        return checkpoint, changes

    def _initial_state(self, model: nn.Module, build: BuildObjective) -> TrainingState:
        seconds, budget = None, self.budget.seconds
        if budget is not None:
            objective, _ = build(model.to(self.context.device))
            limit = _MEASURED_SHARE * budget
            seconds = self.context.run_on_rank_zero(lambda: self._evaluation_seconds(objective, limit))
            if seconds >= budget:
                what = (
                    f"an evaluation takes about {seconds:.1f} s, and leaves none of {budget:g} s for training"
                )
                needed = math.ceil(2 * seconds)
                remedy = f"Say --budget {needed}s (budget_seconds={needed}) or longer, or evaluate on less"
                raise self.context.shared_error(InputError(what, where="budget_seconds", remedy=remedy))
        return TrainingState(evaluation_seconds=seconds)

    def _evaluation_seconds(self, objective: Objective, limit: float) -> float:
        """Estimate the seconds of an evaluation from its first batches; measure for about `limit` seconds."""
        dtype, clock = resolve_dtype(self.config.precision, self.context.device), self.progress.clock
        num_batches = objective.num_evaluation_batches
        times = [clock()]
        objective.model.eval()
        with torch.no_grad(), training_arithmetic(), memory_errors(), autocast(self.context.device, dtype):
            for _, metrics in zip(range(num_batches), objective.evaluate(), strict=False):
                float(next(iter(metrics.values()))[0])  # waits for the device
                times.append(clock())
                if times[-1] - times[0] > limit:
                    break
        if len(times) > 2:  # the first batch touches memory for the first time
            del times[0]
        return num_batches * (times[-1] - times[0]) / max(len(times) - 1, 1)

    def _fit_evaluations(self, seconds: float | None) -> tuple[EvaluationConfig, Budget]:
        """Return as many evaluations as fit, and the budget before the last one, if each takes a time."""
        evaluation, budget = self.evaluation, self.budget
        if seconds is None or budget.seconds is None or not 0 < seconds < budget.seconds:
            return evaluation, budget
        times = int(_MAX_EVALUATION_SHARE * budget.seconds / seconds) - self.evaluate_first
        if times < evaluation.times:
            times = max(times, 1)
            what = f"{times} instead of {evaluation.times}"
            share = seconds / budget.seconds
            self.progress.note(
                f"evaluations: {what}, since each takes about {seconds:.1f} s, {share:.0%} of the budget"
            )
            evaluation = replace(evaluation, times=times)
        return evaluation, replace(budget, seconds=budget.seconds - seconds)

    def _train(
        self,
        model: nn.Module,
        build: BuildObjective,
        state: TrainingState,
        checkpoint: Path | None = None,
        changes: Mapping[str, tuple[Any, Any]] = MappingProxyType({}),
    ) -> dict[str, float]:
        objective, build_batches = build(model.to(self.context.device))
        batches = build_batches()
        evaluation, budget = self._fit_evaluations(state.evaluation_seconds)
        settings = self.context.run_on_rank_zero((self.path / artifacts.RUN_CONFIG).read_bytes)

        def save_model(directory: Path, model: nn.Module, state: TrainingState) -> None:
            objective.save_model(directory, model)
            (directory / SETTINGS_FILE).parent.mkdir()
            (directory / SETTINGS_FILE).write_bytes(settings)
            (directory / artifacts.CARD_FILE).write_text(
                model_card(self.card, model, self.path, state), encoding="utf-8"
            )

        compute_dtype = resolve_dtype(self.config.precision, self.context.device)
        self.context.run_on_rank_zero(
            lambda: write_environment(self.path, self.context, compute_dtype, self.progress)
        )
        trainer = Trainer(
            objective=objective,
            batches=batches,
            config=self.config,
            evaluation=evaluation,
            evaluate_first=self.evaluate_first,
            budget=budget,
            run=self.path,
            save_model=save_model,
            context=self.context,
            progress=self.progress,
            settings=tomllib.loads(self.settings),
            callbacks=self.callbacks,
            changed_settings=changes,
            state=state,
        )
        return trainer.train(resume_from=checkpoint)


def create_run_directory(run: Path, settings: str, in_memory: Mapping[str, MemoryRows]) -> None:
    """Create a run's directory, with its settings alone, and those data in memory whose files it has.

    Raises:
        InputError: another process uses the existing run, or a setting is not Unicode text.
        RunError: the disk is full or cannot be written; no file is left.
    """
    check_not_locked(run)
    artifacts.clear_directory(run)
    files = {
        Path(file).relative_to(run).as_posix(): rows.content
        for file, rows in in_memory.items()
        if Path(file).is_relative_to(run)
    }
    try:
        for name, text in {artifacts.RUN_CONFIG: settings, **files}.items():
            file_io.write_text(run / name, text)
    except RunError:
        artifacts.clear_directory(run)
        raise
