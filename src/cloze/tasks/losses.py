"""Cross entropy with metrics to log, and probabilities of logits."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cloze.training.metric_sums import MetricSums


def cross_entropy(
    logits: Tensor, targets: Tensor, *, weight: Tensor | None = None, metric: str = "accuracy"
) -> tuple[Tensor, MetricSums]:
    """Return the summed cross entropy of logits [B, C], and loss and accuracy to log."""
    loss = nn.functional.cross_entropy(logits, targets, weight=weight, reduction="sum")
    correct = (logits.detach().argmax(-1) == targets).sum()
    return loss, {"loss": (loss.detach(), len(targets)), metric: (correct, len(targets))}


def softmax(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return probabilities over the last axis, in float64."""
    probabilities: npt.NDArray[np.float64] = torch.tensor(np.asarray(logits, np.float64)).softmax(-1).numpy()
    return probabilities


def sigmoid(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the probability of each logit, in float64."""
    probabilities: npt.NDArray[np.float64] = torch.tensor(np.asarray(logits, np.float64)).sigmoid().numpy()
    return probabilities
