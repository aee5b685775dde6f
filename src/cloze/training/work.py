"""What the training loop asks of those who know what is learned."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from torch import Tensor, nn

from cloze.training.checkpoints import Position
from cloze.training.measures import Measures

Batch = TypeVar("Batch")


@dataclass(frozen=True, slots=True)
class StepData(Generic[Batch]):
    """The instances of one optimizer step, or a rank's share of them, cut into micro-batches that fit in memory."""

    batches: Sequence[Batch]
    num_tokens: int
    """Of all ranks."""
    next_position: Position
    name: str
    """How a message calls these instances."""
    has_share: bool = field(default=True, kw_only=True)
    """Whether there were instances for this rank; else `batches` are those of another, which count for nothing here."""


class Work(Protocol[Batch]):
    """What is trained."""

    def step_data(self, progress: float, position: Position, micro_batch_tokens: int) -> StepData[Batch]:
        """Return this rank's share of the step that begins when a share `progress` of the run is over.

        Args:
            micro_batch_tokens: a micro-batch has at most so many, or is one sequence; how the step is cut is all
                that this decides.
        """

    @property
    def losses(self) -> tuple[str, ...]:
        """The measures that add up to the loss."""

    def loss(self, model: nn.Module, batch: Batch, step: StepData[Batch]) -> tuple[Tensor, Measures]:
        """Return this micro-batch's share of the loss of the step, that of all ranks, and what to log."""

    def evaluate(self, model: nn.Module) -> Iterator[Measures]:
        """Measure the model on held-out instances, the same ones each time and on each rank, a batch at a time."""

    def merit(self, measured: Mapping[str, float]) -> tuple[float, ...]:
        """Say how good an evaluation is: the best checkpoint has the most of the first, then of the next."""
