"""What a task is: six questions. A family answers all but the first, so a new task is a small file."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cloze.model.bert import BertModel
from cloze.text.tokenizer import Tokenizer
from cloze.training.loop import Measures


class Feature(Protocol):
    """What goes through the model in one piece: a sequence, or several that are scored together."""

    @property
    def num_tokens(self) -> int:
        """Tokens in all."""

    @property
    def is_truncated(self) -> bool:
        """Whether some of the text did not fit."""


class TaskBatch(Protocol):
    """Features, packed, with what the model should say to them."""

    @property
    def num_targets(self) -> int:
        """Things that the loss is the mean of."""

    def to(self, device: torch.device) -> Self:
        """Copy the tensors to a device."""


ExampleT = TypeVar("ExampleT")
FeatureT = TypeVar("FeatureT", bound=Feature)
BatchT = TypeVar("BatchT", bound=TaskBatch)
PredictionT = TypeVar("PredictionT")
Array: TypeAlias = npt.NDArray[np.float32]


class Task(ABC, Generic[ExampleT, FeatureT, BatchT, PredictionT]):
    """A task is a frozen dataclass whose fields are its settings; `register_task` gives it its name.

    | question | answered by |
    |---|---|
    | which examples does a file hold? | `examples`, and `fitted`, what a whole data set tells of the task |
    | what does the model see of one? | `features`, and `batch`, which packs them |
    | which head stands on the encoder? | `head` |
    | what is learned? | `loss` |
    | what does the model's output mean? | `outputs`, in numbers for a feature; `decode`, for the example |
    | how good is that? | `score` |
    """

    name: ClassVar[str]

    @abstractmethod
    def examples(self, path: Path) -> list[ExampleT]:
        """Read a file.

        Raises:
            InputError: a line is wrong; the first such is named.
        """

    def fitted(self, examples: Sequence[ExampleT]) -> Self:
        """Return the task with what its training data tell of it, such as the labels there are."""
        return self

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that config.json names; none where there are no classes."""
        return ()

    @abstractmethod
    def features(self, example: ExampleT, tokenizer: Tokenizer, *, max_seq_length: int) -> list[FeatureT]:
        """Tokenize an example: one feature, or as many as it has windows.

        Raises:
            InputError: its label is none of the task's.
        """

    @abstractmethod
    def batch(self, features: Sequence[FeatureT]) -> BatchT:
        """Pack features in the order given."""

    @abstractmethod
    def head(self, bert: BertModel, *, generator: torch.Generator | None = None) -> nn.Module:
        """Return a model: the encoder with this task's head on it."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: BatchT) -> tuple[Tensor, Measures]:
        """Return the loss summed over the batch's targets, and the same and more to be logged.

        The measures hold `loss`.
        """

    @abstractmethod
    def outputs(self, model: nn.Module, batch: BatchT) -> list[Array]:
        """Return the model's output for each feature of the batch, in its order."""

    @abstractmethod
    def decode(self, example: ExampleT, outputs: Sequence[Array]) -> PredictionT:
        """Say what the outputs for all the features of an example mean."""

    @abstractmethod
    def score(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> dict[str, float]:
        """Compare predictions with what the examples say, at least one of them."""


AnyTask: TypeAlias = Task[Any, Any, Any, Any]
