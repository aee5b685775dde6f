"""The interface between the training loop and an objective: batches by position, and a loss."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor, nn

from cloze.data.batch import DataPosition
from cloze.training.distributed import DistributedContext
from cloze.training.metric_sums import EvaluatedSums, MetricSums

Batch = TypeVar("Batch")


@dataclass(frozen=True, slots=True)
class StepData(Generic[Batch]):
    """A rank's share of the instances of one optimizer step, cut into micro-batches that fit in memory."""

    batches: Sequence[Batch]
    num_tokens: int
    """Tokens of this rank, or of all ranks once they are summed; so are the targets."""
    num_targets: Mapping[str, float]
    """The name of each loss, and the number of targets that its mean is over."""
    next_position: DataPosition
    name: str
    """Name of these instances in messages."""
    has_share: bool = field(default=True, kw_only=True)
    """Whether there were instances for this rank; otherwise `batches` belong to another rank and are not counted."""

    def sum_over_ranks(self, context: DistributedContext) -> "StepData[Batch]":
        """Return the step with the numbers of tokens and targets of all ranks."""
        num_tokens, *counts = context.all_reduce(self.num_tokens, *self.num_targets.values())
        num_targets = dict(zip(self.num_targets, counts, strict=True))
        return replace(self, num_tokens=int(num_tokens), num_targets=num_targets)

    def mean_loss(self, sums: MetricSums, loss_names: Sequence[str]) -> Tensor:
        """Return a micro-batch's share of the step's loss: the sum of the means of the losses."""
        first, *others = (sums[name][0] / max(self.num_targets[name], 1) for name in loss_names)
        return sum(others, start=first)


class BatchSource(Protocol):
    """Training instances as a pure function of the position in the data; one thread at a time reads them."""

    def step_data(self, progress: float, position: DataPosition, micro_batch_tokens: int) -> StepData[Any]:
        """Return this rank's share of one optimizer step.

        Args:
            progress: share of the run, in [0, 1], that is over when the step begins, or in a run on the clock, when
                the step before it begins.
            position: the first instance to take, unless another phase begins.
            micro_batch_tokens: maximum number of tokens of a micro-batch of more than one sequence. It decides how
                the step is cut, not which instances it has.
        """


class Objective(nn.Module, ABC):
    """A model, on its device, and what it is trained for."""

    loss_names: tuple[str, ...] = ("loss",)
    """Names of the metrics that add up to the loss."""
    num_evaluation_batches: int
    """Batches of an evaluation, of which `evaluate` yields this rank's share."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        # DDP must look for unused parameters: a head may leave out the pooler, a run without pairs the next-sentence
        # head. Only then, too, does it keep its first buckets, so that a resumed run sums in the same order. If it
        # finds none, it warns, around Python's filters.
        self.unused = nn.Parameter(next(model.parameters()).new_zeros(1))

    @abstractmethod
    def forward(self, batch: Any) -> MetricSums:
        """Return the losses of a micro-batch as sums with gradients, and other metrics to log."""

    @abstractmethod
    def evaluate(self) -> Iterator[EvaluatedSums]:
        """Yield the metrics of this rank's share of the held-out batches, the same each time.

        Ranks share them as `DistributedContext.share` does; the metrics are empty where a rank has no batch.
        """

    @abstractmethod
    def selection_score(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        """Return the sort key for choosing the best checkpoint; larger is better."""

    def shown_metrics(self, metrics: Mapping[str, float]) -> Mapping[str, float]:
        """Return the metrics of an evaluation that people read while they wait, the most useful first."""
        return metrics

    @abstractmethod
    def save_model(self, directory: Path) -> None:
        """Write config, weights and tokenizer of the model into a checkpoint."""
