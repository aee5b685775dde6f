"""Losses and accuracies as sums and counts, which add up over batches, steps and ranks; losses over classes.

Source: Hinton et al. 2015, 2, for the divergence from a teacher.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from cloze.training.distributed import DistributedContext

MetricSums = Mapping[str, tuple[Tensor, float]]
"""The name of each metric, its sum over a batch, and the number of values summed."""
EvaluatedSums = Mapping[str, tuple[Tensor | float, float]]
"""The same, where some sums are numbers already."""
Sums: TypeAlias = dict[str, tuple[float, float]]
"""The same as numbers."""
IMPOSSIBLE = -1e9
"""Logit of padding, which is not infinite: the divergence of two impossible classes is 0, not NaN."""


def read_sums(batches: Sequence[EvaluatedSums]) -> list[Sums]:
    """Return the metrics of batches as numbers, which one copy brings from the device.

    Each `.item()` instead would wait until the device has computed all that is queued.
    """
    scalars = [total for sums in batches for total, _ in sums.values() if isinstance(total, Tensor)]
    numbers = iter(torch.stack(scalars).tolist() if scalars else ())
    return [
        {
            name: (next(numbers) if isinstance(total, Tensor) else total, count)
            for name, (total, count) in sums.items()
        }
        for sums in batches
    ]


def add_sums(batches: Iterable[Mapping[str, Sequence[float]]]) -> Sums:
    """Return the sum and the count of each metric over batches, added in their order."""
    sums: Sums = {}
    for batch in batches:
        for name, (total, count) in batch.items():
            total_before, count_before = sums.get(name, (0.0, 0.0))
            sums[name] = (total_before + total, count_before + count)
    return sums


def means_of(sums: Sums, loss_names: tuple[str, ...]) -> dict[str, float]:
    """Return the mean of each metric, preceded by `loss`, the sum of those named."""
    means = {name: total / max(count, 1.0) for name, (total, count) in sums.items()}
    return {"loss": sum(means[name] for name in loss_names), **means}


class MeasuredStep(NamedTuple):
    """What one step of this rank has measured."""

    sums: Sums
    learning_rate: float
    gradient_norm: float
    tokens: int
    """Of all ranks."""
    seconds: float


def means_of_steps(
    steps: Sequence[MeasuredStep], loss_names: tuple[str, ...], context: DistributedContext
) -> dict[str, float]:
    """Return a line of the log: the means over steps and all ranks."""
    means = means_of(add_sums(context.all_gather(add_sums(step.sums for step in steps))), loss_names)
    means["learning_rate"] = steps[-1].learning_rate
    means["gradient_norm"] = sum(step.gradient_norm for step in steps) / len(steps)
    means["tokens_per_second"] = sum(step.tokens for step in steps) / sum(step.seconds for step in steps)
    return means


def cross_entropy(
    logits: Tensor, targets: Tensor, *, weight: Tensor | None = None, metric: str = "accuracy"
) -> tuple[Tensor, MetricSums]:
    """Return the summed cross entropy of logits [B, C], and loss and accuracy to log."""
    loss = nn.functional.cross_entropy(logits, targets, weight=weight, reduction="sum")
    correct = (logits.detach().argmax(-1) == targets).sum()
    return loss, {"loss": (loss.detach(), len(targets)), metric: (correct, len(targets))}


def weight_tensor(weights: Any, like: Tensor) -> Tensor | None:
    """Return the weights of classes as a tensor like another; None without weights."""
    return torch.tensor(weights).to(like, non_blocking=True) if weights else None


def pad_groups(rows: Tensor, counts: Sequence[int], padding: float) -> Tensor:
    """Pad consecutive groups of rows to the same length: a tensor [groups, rows, …]. `counts` are their rows."""
    groups = torch.split(rows, list(counts))
    return nn.utils.rnn.pad_sequence(list(groups), batch_first=True, padding_value=padding)


def softmax_divergence(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """Return the Kullback-Leibler divergence of the student's softmax from the teacher's, summed over the rows.

    The temperature divides both logits, which are finite and have the same shape. The result is multiplied by its
    square, so that gradients have the same size at each temperature.
    """
    log_probabilities = (logits / temperature).log_softmax(-1)
    teacher_probabilities = (teacher_logits / temperature).softmax(-1)
    divergence = nn.functional.kl_div(log_probabilities, teacher_probabilities, reduction="sum")
    return temperature**2 * divergence


def sigmoid_divergence(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """Return the divergence of each sigmoid from the teacher's, times the squared temperature, in the same shape."""
    cross_entropy = nn.functional.binary_cross_entropy_with_logits
    teacher_probabilities = (teacher_logits / temperature).sigmoid()
    entropy = cross_entropy(teacher_logits / temperature, teacher_probabilities, reduction="none")
    loss = cross_entropy(logits / temperature, teacher_probabilities, reduction="none")
    return temperature**2 * (loss - entropy)
