"""A task's predictions for examples, by a model that was fine-tuned for it."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from cloze.progress import SILENT, Progress
from cloze.tasks.batches import Indices, by_length
from cloze.tasks.task import Array, BatchT, FeatureT, Task

Example = TypeVar("Example")
Prediction = TypeVar("Prediction")


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
    flat = [feature for own in features for feature in own]
    outputs = outputs_of(task, model, flat, max_tokens=max_tokens, progress=progress)
    return decode(task, examples, features, outputs)


@torch.inference_mode()
def outputs_of(
    task: Task[Example, FeatureT, BatchT, Prediction],
    model: nn.Module,
    features: Sequence[FeatureT],
    *,
    max_tokens: int,
    progress: Progress = SILENT,
) -> dict[int, Array]:
    """Return what a model says of each feature, by the feature's number, computed in float32."""
    model.eval()
    outputs: dict[int, Array] = {}
    with progress.bar("predicting", total=len(features), unit="sequences") as bar:
        for indices, batch, logits in logits_of(task, model, features, max_tokens=max_tokens):
            outputs.update(zip(indices.tolist(), task.outputs(logits, batch), strict=True))
            bar.advance(len(indices))
    return outputs


def logits_of(
    task: Task[Example, FeatureT, BatchT, Prediction],
    model: nn.Module,
    features: Sequence[FeatureT],
    *,
    max_tokens: int,
) -> Iterator[tuple[Indices, BatchT, Tensor]]:
    """Pass features through a model, like lengths together: yield which they are, their batch, the logits."""
    device = next(model.parameters()).device
    for indices in by_length([feature.num_tokens for feature in features], max_tokens):
        batch = task.batch([features[i] for i in indices]).to(device)
        yield indices, batch, model(batch.packed).float()


def decode(
    task: Task[Example, FeatureT, BatchT, Prediction],
    examples: Sequence[Example],
    features: Sequence[Sequence[FeatureT]],
    outputs: dict[int, Array],
) -> list[Prediction]:
    """Return a prediction for each example from the outputs of all features, numbered through."""
    numbers = iter(range(len(outputs)))
    return [
        task.decode(example, own, [outputs[next(numbers)] for _ in own])
        for example, own in zip(examples, features, strict=True)
    ]
