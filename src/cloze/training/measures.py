"""Losses and accuracies as sums and counts, which add up over batches, steps and ranks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from cloze.training.distribution import World

Measures = Mapping[str, tuple[Tensor, float]]
"""By name, a sum and the number of things summed: over many batches these add up, means do not."""


class Sums:
    """Measures added up over batches."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}

    def add(self, measures: Measures) -> None:
        """Add a batch's."""
        for name, (total, count) in measures.items():
            self._add(name, total.item(), count)

    def merge(self, other: "Sums") -> None:
        """Add those of other batches."""
        for name, (total, count) in other._sums.items():
            self._add(name, total, count)

    def _add(self, name: str, total: float, count: float) -> None:
        before, counted = self._sums.get(name, (0.0, 0.0))
        self._sums[name] = (before + total, counted + count)

    def means(self, losses: tuple[str, ...]) -> dict[str, float]:
        """Return every mean, and first their `loss`: the sum of those named."""
        means = {name: total / max(count, 1.0) for name, (total, count) in self._sums.items()}
        return {"loss": sum(means[name] for name in losses), **means}


@dataclass(slots=True)
class Window:
    """What this rank did since the last line of the log."""

    sums: Sums = field(default_factory=Sums)
    learning_rate: float = 0.0
    norms: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0

    def add(self, sums: Sums, learning_rate: float, norm: float, tokens: int, seconds: float) -> None:
        """Add a step: its measures, its rate, the norm of its gradients, its tokens and its time."""
        self.sums.merge(sums)
        self.learning_rate = learning_rate
        self.norms.append(norm)
        self.tokens += tokens
        self.seconds += seconds

    def means(self, losses: tuple[str, ...], world: World) -> dict[str, float]:
        """Return the means over the steps and all ranks; nothing where no step was taken."""
        if not self.norms:
            return {}
        total = Sums()
        for sums in world.gather(self.sums):
            total.merge(sums)
        means = total.means(losses)
        means["learning_rate"] = self.learning_rate
        means["gradient_norm"] = sum(self.norms) / len(self.norms)
        means["tokens_per_second"] = self.tokens / self.seconds
        return means
