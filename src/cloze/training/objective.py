"""The interface between the training loop and an objective: batches by position, and a loss."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from torch import nn

from cloze.data.batch import DataPosition
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

    def selection_score(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        """Return the sort key for choosing the best checkpoint; larger is better."""
        return (-metrics["loss"],)

    def shown_metrics(self, metrics: Mapping[str, float]) -> Mapping[str, float]:
        """Return the metrics of an evaluation that people read while they wait, the most useful first."""
        return metrics

    @abstractmethod
    def save_model(self, directory: Path) -> None:
        """Write config, weights and tokenizer of the model into a checkpoint."""
