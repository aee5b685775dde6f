"""Losses and accuracies as sums and counts, which add up over batches, steps and ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cloze.training.distributed import DistributedContext

MetricSums = Mapping[str, tuple[Tensor, float]]
"""The name of each metric, its sum over a batch, and the number of values summed."""
EvaluatedSums = Mapping[str, tuple[Tensor | float, float]]
"""The same, where some sums are numbers already."""


def read_sums(batches: Sequence[EvaluatedSums]) -> list[dict[str, tuple[float, float]]]:
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


class MetricAccumulator:
    """Metrics summed over batches."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}

    def add(self, *batches: Mapping[str, Sequence[float]]) -> None:
        """Add the sum and the count of each metric of batches."""
        for sums in batches:
            for name, (total, count) in sums.items():
                total_before, count_before = self._sums.get(name, (0.0, 0.0))
                self._sums[name] = (total_before + total, count_before + count)

    def sums(self) -> dict[str, tuple[float, float]]:
        """Return the sum and the count of each metric."""
        return dict(self._sums)

    def means(self, loss_names: tuple[str, ...]) -> dict[str, float]:
        """Return the mean of each metric, preceded by `loss`, the sum of those named."""
        means = {name: total / max(count, 1.0) for name, (total, count) in self._sums.items()}
        return {"loss": sum(means[name] for name in loss_names), **means}


@dataclass(slots=True)
class LogWindow:
    """The steps of this rank since the last line of the log."""

    metrics: MetricAccumulator = field(default_factory=MetricAccumulator)
    learning_rate: float = 0.0
    norms: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0

    def add(
        self, metrics: MetricAccumulator, learning_rate: float, norm: float, tokens: int, seconds: float
    ) -> None:
        """Add a step: its metrics, learning rate, gradient norm, tokens and seconds."""
        self.metrics.add(metrics.sums())
        self.learning_rate = learning_rate
        self.norms.append(norm)
        self.tokens += tokens
        self.seconds += seconds

    def to_state(self, context: DistributedContext) -> dict[str, Any]:
        """Return the window as JSON values, with the metrics of every rank; all ranks call it."""
        return {
            "metrics": context.all_gather(self.metrics.sums()),
            "learning_rate": self.learning_rate,
            "norms": list(self.norms),
            "tokens": self.tokens,
            "seconds": self.seconds,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | None, context: DistributedContext) -> "LogWindow":
        """Return the window of this rank; rank zero takes the metrics of ranks that no longer exist.

        Args:
            state: from `to_state`; None is an empty window.
        """
        if state is None:
            return cls()
        window = cls(
            learning_rate=state["learning_rate"],
            norms=list(state["norms"]),
            tokens=state["tokens"],
            seconds=state["seconds"],
        )
        for rank, sums in enumerate(state["metrics"]):
            if context.rank == (rank if rank < context.world_size else 0):
                window.metrics.add(sums)
        return window

    def means(self, loss_names: tuple[str, ...], context: DistributedContext) -> dict[str, float]:
        """Return the means over the steps and all ranks; an empty dictionary without steps."""
        if not self.norms:
            return {}
        total = MetricAccumulator()
        total.add(*context.all_gather(self.metrics.sums()))
        means = total.means(loss_names)
        means["learning_rate"] = self.learning_rate
        means["gradient_norm"] = sum(self.norms) / len(self.norms)
        means["tokens_per_second"] = self.tokens / self.seconds
        return means
