"""The time that evaluations take of a run on the clock."""

import math
from dataclasses import replace

import torch

from cloze.errors import InputError
from cloze.progress import Progress
from cloze.training.budget import Budget
from cloze.training.config import EvaluationConfig
from cloze.training.distributed import DistributedContext
from cloze.training.memory import memory_errors
from cloze.training.objective import Objective
from cloze.training.precision import training_arithmetic

_MAX_SHARE = 0.2
"""Evaluations take at most this share of a run on the clock, unless the last one alone takes more."""
_MEASURED_SHARE = 0.05
"""The share of a budget that measuring an evaluation may take; one batch always runs."""


def estimate_evaluation(
    objective: Objective,
    budget_seconds: float,
    context: DistributedContext,
    progress: Progress,
) -> float:
    """Return the seconds that an evaluation takes, measured on its first batches by rank zero.

    Raises:
        InputError: it leaves no time of the budget for training.
    """

    def measure() -> float:
        num_batches, clock = objective.num_evaluation_batches, progress.clock
        times = [clock()]
        objective.model.eval()
        with torch.no_grad(), training_arithmetic(), memory_errors():
            for _, metrics in zip(range(num_batches), objective.evaluate(), strict=False):
                float(next(iter(metrics.values()))[0])  # waits for the device
                times.append(clock())
                if times[-1] - times[0] > _MEASURED_SHARE * budget_seconds:
                    break
        if len(times) > 2:  # the first batch touches memory for the first time
            del times[0]
        return num_batches * (times[-1] - times[0]) / max(len(times) - 1, 1)

    seconds = context.run_on_rank_zero(measure)
    if seconds >= budget_seconds:
        what = (
            f"an evaluation takes about {seconds:.1f} s, and leaves none of {budget_seconds:g} s for training"
        )
        needed = math.ceil(2 * seconds)
        remedy = f"Say `budget={needed}s` (budget_seconds={needed}) or longer, or evaluate on less"
        raise context.shared_error(InputError(what, where="budget", remedy=remedy))
    return seconds


def fit_evaluations(
    evaluation: EvaluationConfig,
    budget: Budget,
    seconds: float | None,
    *,
    evaluate_first: bool,
    progress: Progress,
) -> tuple[EvaluationConfig, Budget]:
    """Return as many evaluations as fit into a run, and the budget that is left before the last one.

    Args:
        evaluation: the settings.
        budget: the length of the run.
        seconds: of each evaluation; None in a run that is not on the clock.
        evaluate_first: whether there is one before the first step, too.
        progress: receives progress messages.
    """
    if seconds is None or budget.seconds is None or not 0 < seconds < budget.seconds:
        return evaluation, budget
    times = int(_MAX_SHARE * budget.seconds / seconds) - evaluate_first
    if times < evaluation.times:
        times = max(times, 1)
        what = f"{times} instead of {evaluation.times}"
        share = seconds / budget.seconds
        progress.note(
            f"evaluations: {what}, since each takes about {seconds:.1f} s, {share:.0%} of the budget"
        )
        evaluation = replace(evaluation, times=times)
    return evaluation, replace(budget, seconds=budget.seconds - seconds)
