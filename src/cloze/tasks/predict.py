"""A task's predictions for examples, by a model that was fine-tuned for it."""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import nn

from cloze.progress import SILENT, Progress
from cloze.tasks.batches import by_length
from cloze.tasks.task import Array, BatchT, FeatureT, Task

Example = TypeVar("Example")
Prediction = TypeVar("Prediction")


@torch.inference_mode()
def predict(
    task: Task[Example, FeatureT, BatchT, Prediction],
    model: nn.Module,
    examples: Sequence[Example],
    features: Sequence[Sequence[FeatureT]],
    *,
    max_tokens: int,
    progress: Progress = SILENT,
) -> list[Prediction]:
    """Return a prediction for each example, in their order, computed in float32.

    Args:
        task: what the model was fine-tuned for.
        model: on its device.
        examples: any number.
        features: those of each example.
        max_tokens: tokens that pass through the model at once.
        progress: where to tell how far it is.
    """
    model.eval()
    device = next(model.parameters()).device
    flat = [feature for own in features for feature in own]
    outputs: dict[int, Array] = {}
    with progress.bar("predicting", total=len(flat), unit="sequences") as bar:
        for indices in by_length([feature.num_tokens for feature in flat], max_tokens):
            batch = task.batch([flat[i] for i in indices]).to(device)
            outputs.update(zip(indices.tolist(), task.outputs(model, batch), strict=True))
            bar.advance(len(indices))
    numbers = iter(range(len(flat)))
    return [
        task.decode(example, [outputs[next(numbers)] for _ in own])
        for example, own in zip(examples, features, strict=True)
    ]
