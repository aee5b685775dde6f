"""Losses over classes: cross entropy with metrics to log, and the divergence from a teacher.

Source: Hinton et al. 2015, 2, for the divergence.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cloze.training.metric_sums import MetricSums

IMPOSSIBLE = -1e9
"""Logit of padding, which is not infinite: the divergence of two impossible classes is 0, not NaN."""


def cross_entropy(
    logits: Tensor, targets: Tensor, *, weight: Tensor | None = None, metric: str = "accuracy"
) -> tuple[Tensor, MetricSums]:
    """Return the summed cross entropy of logits [B, C], and loss and accuracy to log."""
    loss = nn.functional.cross_entropy(logits, targets, weight=weight, reduction="sum")
    correct = (logits.detach().argmax(-1) == targets).sum()
    return loss, {"loss": (loss.detach(), len(targets)), metric: (correct, len(targets))}


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
