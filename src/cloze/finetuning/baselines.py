"""Baselines of each task family: predictions without an encoder, scored like those of a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from cloze.errors import InputError
from cloze.finetuning.data import sample
from cloze.progress import SILENT, Progress
from cloze.results import Result
from cloze.tasks.task import AnyTask


@dataclass(frozen=True, slots=True, repr=False)
class BaselineScores(Result):
    """The scores of a baseline trained on some examples."""

    baseline: str
    train_examples: int
    scores: dict[str, float]
    seconds: float


def score_baselines(
    task: AnyTask,
    train: Sequence[Any],
    dev: Sequence[Any],
    sizes: Sequence[int | None],
    *,
    progress: Progress = SILENT,
) -> list[BaselineScores]:
    """Score every baseline of a task on dev data, trained on samples of each size; None is all training data.

    The samples are those that a fine-tuning run with `train_examples` uses. Sizes over the number of examples are left
    out with a note.
    """
    if not any(size is None or size <= len(train) for size in sizes):
        raise InputError(f"there are {len(train):,} examples to learn from", where=task.name)
    if not (baselines := task.answer.baselines(train)):
        raise InputError("has no baseline", where=task.name)
    results = []
    for size in sizes:
        if size is not None and size > len(train):
            progress.note(f"{size:,} examples are left out: there are {len(train):,}")
            continue
        examples = train if size is None else sample(train, size)
        for name, baseline in baselines.items():
            start = perf_counter()
            scores = task.score(dev, baseline(examples, dev))
            results.append(BaselineScores(name, len(examples), scores, perf_counter() - start))
    return results
