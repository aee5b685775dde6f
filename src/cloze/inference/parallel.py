"""Examples answered by several workers, each of which reads the models itself.

A part is what one process answers at once, and it is answered by the same function; so the answers are the same.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from cloze.inference.ensemble import load_ensemble
from cloze.inference.predictor import Predictor, stream_parts
from cloze.progress import SILENT, Progress
from cloze.tasks.task import AnyTask
from cloze.training.workers import Workplace


def stream_answers(
    predictor: Predictor,
    models: Sequence[Path],
    examples: Iterable[Any],
    workplace: Workplace,
    *,
    total: int | None = None,
    progress: Progress = SILENT,
) -> Iterator[tuple[Any, Any]]:
    """Yield every example with its prediction, in their order; memory does not grow with their number.

    Args:
        predictor: what `load_ensemble` made of the models, and perhaps another way to read examples.
        models: the same, for workers to load.
        examples: any number.
        workplace: where it is done.
        total: about how many examples, where that is known.
        progress: where to tell how far it is.

    Raises:
        InputError: an example is wrong; those before it may have been answered.
        RunError: a worker died.
    """
    if workplace.is_here:
        return predictor.stream(examples, total=total, progress=progress)
    loading = _Loading(uuid.uuid4().hex, tuple(models), predictor.task.name, workplace)
    return stream_parts(
        partial(_predict, loading, predictor.task),
        examples,
        max_seq_length=predictor.max_seq_length,
        workers=workplace.workers,
        total=total,
        progress=progress,
    )


@dataclass(frozen=True, slots=True)
class _Loading:
    """How a worker comes to its models."""

    call: str
    """Tells models apart that were in the same place."""
    models: tuple[Path, ...]
    task: str
    workplace: Workplace


def _predict(loading: _Loading, task: AnyTask, part: Sequence[Any]) -> tuple[list[Any], int]:
    return replace(_predictor(loading), task=task).predict(part)


@lru_cache(maxsize=1)  # a worker sees many parts
def _predictor(loading: _Loading) -> Predictor:
    torch.set_num_threads(loading.workplace.threads)
    return load_ensemble(loading.models, loading.task, device=loading.workplace.device)
