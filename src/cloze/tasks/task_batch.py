"""The parts that a task passes on: features, packed batches with targets, outputs and gold answers."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.data.batch import Array as BatchArray
from cloze.data.batch import PackedBatch

if TYPE_CHECKING:  # a graph answers without torch
    import torch

    import cloze.models.encoder
    from cloze.training.metric_sums import MetricSums

Tensor: TypeAlias = "torch.Tensor"
Module: TypeAlias = "torch.nn.Module"
OptionalGenerator: TypeAlias = "torch.Generator | None"
Encoder: TypeAlias = "cloze.models.encoder.Encoder"
SummedLoss: TypeAlias = "tuple[Tensor, MetricSums]"
"""The loss summed over the targets, and metrics to log, `loss` among them."""
Array: TypeAlias = npt.NDArray[np.float32]
Outputs: TypeAlias = Sequence[Array]
"""The outputs of the features of an example."""
Scores: TypeAlias = dict[str, float]
Baseline: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], list[Any]]
"""From training and dev examples to predictions for the dev examples."""


@dataclass(frozen=True, slots=True)
class TaskBatch(PackedBatch):
    """A packed batch of features with their targets."""

    targets: BatchArray
    counts: tuple[int, ...] = ()
    """Choices of each example, tokens of each window, or predicted words of each sequence."""
    positions: BatchArray | None = None
    """First tokens of the predicted words, [W], indices into the T tokens."""
    teacher: BatchArray = None
    """The rows of `AnswerKind.teacher_rows` for all features, one after the other; None without a teacher."""
    is_labeled: bool = True
    """Whether the targets are known; otherwise only the teacher says what to learn."""

    @property
    def num_targets(self) -> int:
        """Terms of the mean loss."""
        return len(self.targets)


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """A gold answer beside the predicted one; the answer is right if they are equal."""

    gold: Hashable
    """A class, a frozenset of labels, the index of a choice, a tag, or a text."""
    answer: Hashable
    confidence: float | None
    """Probability of the answer; None or NaN if a file of predictions does not say."""
    gold_text: str | None = None
    """The gold answer as a table has it; None: as it is."""
    text: str | None = None
    """The predicted answer as a table has it."""
    details: Mapping[str, str] = field(default_factory=dict)
    """More columns, such as the word with the tag."""
