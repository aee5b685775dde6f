"""A task's predictions for examples."""

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cloze.arguments import check_integer
from cloze.data.batch import Indices, batch_by_length
from cloze.errors import InputError
from cloze.file_io import disk_errors
from cloze.models.batch import to_device
from cloze.models.encoder import Encoder
from cloze.models.engine import Engine, run_by_length
from cloze.progress import SILENT, Progress
from cloze.tasks.task import AnyTask
from cloze.tasks.task_batch import Array, TaskBatch


def predict(
    task: AnyTask,
    engine: Engine,
    examples: Sequence[Any],
    features: Sequence[Sequence[Any]],
    *,
    max_tokens: int | None = None,
    progress: Progress = SILENT,
) -> list[Any]:
    """Return a prediction for each example, in their order.

    Args:
        task: the task of the model.
        engine: a fine-tuned model.
        examples: any number of them.
        features: the features of each example.
        max_tokens: maximum number of tokens of a batch; None is where the device is fastest.
        progress: receives progress messages.
    """
    flat = [feature for group in features for feature in group]
    outputs = compute_outputs(task, engine, flat, max_tokens=max_tokens, progress=progress)
    return decode(task, examples, features, outputs)


def compute_outputs(
    task: AnyTask,
    engine: Engine,
    features: Sequence[Any],
    *,
    max_tokens: int | None = None,
    progress: Progress = SILENT,
) -> dict[int, Array]:
    """Return the output of a model for each feature by its index, in float32."""

    def make_batch(indices: Indices) -> TaskBatch:
        return task.batch([features[i] for i in indices])

    outputs: dict[int, Array] = {}
    lengths = [feature.num_tokens for feature in features]
    with progress.bar("predicting", total=len(features), unit="sequences") as bar:
        for indices, batch, named in run_by_length(engine, lengths, make_batch, max_tokens=max_tokens):
            logits, *more = named.values()  # a question's start and end are side by side
            logits = np.stack([logits, *more], axis=-1) if more else logits
            outputs.update(zip(indices.tolist(), task.outputs(logits, batch), strict=True))
            bar.advance(len(indices))
    return outputs


@torch.inference_mode()
def precompute_states(
    task: AnyTask,
    encoder: Encoder,
    features: Sequence[Sequence[Any]],
    *,
    max_tokens: int,
    progress: Progress = SILENT,
) -> list[list[Any]]:
    """Return features with the outputs of a frozen encoder, which do not change from epoch to epoch.

    They are kept in a memory-mapped temporary file.
    """
    flat = [feature for group in features for feature in group]
    places: dict[int, tuple[int, tuple[int, ...]]] = {}
    end = 0
    # The name goes with this block, the space with the last feature. It is filled by write calls: to write into
    # the map of a file on a full disk kills the process.
    with (
        disk_errors(Path(tempfile.gettempdir())),
        tempfile.TemporaryFile(prefix="cloze-") as file,
        progress.bar("encoding", total=len(flat), unit="sequences") as bar,
    ):
        assert task.frozen_states is not None
        device = next(encoder.parameters()).device
        for indices in batch_by_length([feature.num_tokens for feature in flat], max_tokens):
            batch = task.batch([flat[i] for i in indices])
            states = task.frozen_states(encoder, to_device(batch, device)).float().cpu().numpy()
            file.write(states.tobytes())
            for index, of_feature in zip(indices.tolist(), task.outputs(states, batch), strict=True):
                places[index] = end, of_feature.shape
                end += of_feature.size
            bar.advance(len(indices))
        file.flush()
        all_states = np.memmap(file, np.float32, "r", shape=(end,))

    def with_states(index: int) -> Any:
        start, shape = places[index]
        states = all_states[start : start + math.prod(shape)].reshape(shape)
        return replace(flat[index], states=states)

    numbers = iter(range(len(flat)))
    return [[with_states(next(numbers)) for _ in group] for group in features]


def top_k_limiter(task: AnyTask, top_k: int | None, *, where: str = "top_k") -> Callable[[Any], Any]:
    """Return a function that keeps the `top_k` most probable classes or candidates of a prediction, the best first.

    Raises:
        InputError: `top_k` is not positive, or the predictions of the task have no classes.
    """
    if top_k is None:
        return lambda prediction: prediction
    count, field = check_integer(top_k, where), task.ranked_field
    if field is None:
        raise InputError(f"predictions of {task.name} have no classes", where=where, remedy="Leave it out")

    def limit(prediction: Any) -> Any:
        ranked = getattr(prediction, field)
        kept = dict(Counter(ranked).most_common(count)) if isinstance(ranked, dict) else ranked[:count]
        return replace(prediction, **{field: kept})

    return limit


def decode(
    task: AnyTask, examples: Sequence[Any], features: Sequence[Sequence[Any]], outputs: dict[int, Array]
) -> list[Any]:
    """Return a prediction for each example from the outputs of all features in order."""
    numbers = iter(range(len(outputs)))
    return [
        task.decode(example, group, [outputs[next(numbers)] for _ in group])
        for example, group in zip(examples, features, strict=True)
    ]
