"""Cross entropy with metrics to log."""

from torch import Tensor, nn

from cloze.training.metric_sums import MetricSums


def cross_entropy(
    logits: Tensor, targets: Tensor, *, weight: Tensor | None = None, metric: str = "accuracy"
) -> tuple[Tensor, MetricSums]:
    """Return the summed cross entropy of logits [B, C], and loss and accuracy to log."""
    loss = nn.functional.cross_entropy(logits, targets, weight=weight, reduction="sum")
    correct = (logits.detach().argmax(-1) == targets).sum()
    return loss, {"loss": (loss.detach(), len(targets)), metric: (correct, len(targets))}
