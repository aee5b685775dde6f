"""What a task is, in questions that a family answers, so that a new task is a small file."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.model.bert import BertModel
from cloze.model.checkpoint import CONFIG_FILE, load_labels, read_json
from cloze.model.packed import Packed
from cloze.progress import Progress
from cloze.stores import Place
from cloze.tasks.tables import read_objects
from cloze.text.tokenizer import Tokenizer
from cloze.training.measures import Measures


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
    def packed(self) -> Packed:
        """What the model reads."""

    @property
    def num_targets(self) -> int:
        """Things that the loss is the mean of."""

    def to(self, device: torch.device) -> Self:
        """Copy the tensors to a device."""


@dataclass(frozen=True, slots=True)
class TargetBatch:
    """Sequences end to end, and what the model should say to each, to both texts of each pair, or where in each."""

    packed: Packed
    targets: Tensor

    @property
    def num_targets(self) -> int:
        """B."""
        return len(self.targets)

    def to(self, device: torch.device) -> "TargetBatch":
        """Copy the tensors to a device."""
        return TargetBatch(self.packed.to(device), self.targets.to(device, non_blocking=True))


_TASK_OF_PROBLEM_TYPE = {
    "single_label_classification": "classification",
    "multi_label_classification": "multi-label",
    "regression": "regression",
}

ExampleT = TypeVar("ExampleT")
FeatureT = TypeVar("FeatureT", bound=Feature)
BatchT = TypeVar("BatchT", bound=TaskBatch)
PredictionT = TypeVar("PredictionT")
Array: TypeAlias = npt.NDArray[np.float32]
Split: TypeAlias = Literal["train", "dev"]


@dataclass(frozen=True, kw_only=True)
class Task(ABC, Generic[ExampleT, FeatureT, BatchT, PredictionT]):
    """A task is a frozen dataclass whose fields are its settings; `register_task` gives it its name.

    | question | answered by |
    |---|---|
    | which examples does a file hold? | `examples`; `fitted`, what a whole data set tells of the task |
    | what does the model see of one? | `features`, and `batch`, which packs them |
    | which head stands on the encoder? | `head` |
    | what is learned? | `loss` |
    | what does the model's output mean? | `outputs`, in numbers for a feature; `decode`, for the example |
    | how good is that? | `score`; `tuned`, what the scores of dev data tell of the task |
    """

    name: ClassVar[str]
    data_format: ClassVar[str]
    """The files it reads, in a few words."""
    source: ClassVar[str]
    """Where task and metric come from."""
    main_metric: ClassVar[str]
    """The score that says which epoch, and which run, is best: the higher the better."""
    metrics: ClassVar[tuple[str, ...]]
    """The scores that may say so, the main one among them."""
    problem_type: ClassVar[str | None] = None
    """How transformers calls what the logits are, where it has a word for it."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Optional packages that `score` imports."""
    defaults: ClassVar[tuple[str, ...]] = ()
    """Settings of a run in which this task differs from GLUE's, as in "max_seq_length=384"."""
    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = MappingProxyType(
        {"train": ("train.tsv",), "dev": ("dev.tsv",)}
    )
    """What to look for in a directory of data."""

    trained_as: ClassVar[str | None] = None
    """The task whose models answer this one, where it has no training data of its own."""
    answered_by_any_encoder: ClassVar[bool] = False
    """Whether its head has no weights, so that every checkpoint answers it."""
    compares_examples: ClassVar[bool] = False
    """Whether the loss of an example depends on the others of its step, which then go through the model together."""
    is_solved: ClassVar[bool] = False
    """Whether `solve` finds what is learned at once, in the place of steps."""
    encoder_learns: ClassVar[bool] = True
    """Whether the encoder is fine-tuned; else it is frozen, and the head learns of what it says."""
    errors: ClassVar[tuple[str, ...]] = ()
    """Scores of which the lower is the better."""
    learned_settings: ClassVar[tuple[str, ...]] = ()
    """Those that the weights of a model depend on: when it answers they are what they were."""

    @abstractmethod
    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[ExampleT]:
        """Read a file, an example at a time.

        Args:
            path: the file.
            labelled: whether it must say what is right; otherwise that is not looked at.

        Raises:
            InputError: a line is wrong; the first such is named.
        """

    def fitted(self, examples: Sequence[ExampleT]) -> Self:
        """Return the task with what its training data tell of it, such as the labels there are."""
        return self

    def notes(self, tokenizer: Tokenizer) -> list[str]:
        """Say what is worth knowing of the data, and of a model with this tokenizer, before a run begins."""
        return []

    def origin(self, example: ExampleT) -> Hashable:
        """Return the text that an example was taken from; None where it has its own.

        Where dev data are held out of the data to learn from, no text is on both sides.
        """
        return None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that config.json names; none where there are no classes."""
        return ()

    def with_classes(self, names: tuple[str, ...]) -> Self:
        """Return the task for a model whose classes are in this order, as another program's config.json has it.

        Raises:
            InputError: they are not the task's.
        """
        return self

    def begun_from(self, directory: Path) -> Self:
        """Return the task with what the checkpoint that a run starts from tells of it, where nothing is set."""
        return self

    def of_checkpoint(self, directory: Path) -> Self:
        """Return the task as the checkpoint of another program, or of another task, answers it.

        Raises:
            InputError: it does not.
        """
        labels = load_labels(directory)
        theirs = str(read_json(directory / CONFIG_FILE).get("problem_type"))
        other = _TASK_OF_PROBLEM_TYPE.get(theirs)
        # a single logit is one number to all of them
        if len(labels) > 1 and other is not None and self.problem_type not in (None, theirs):
            what = f"config.json says problem_type {theirs!r}: see the task {other}"
            raise InputError(f"no model for {self.name}: {what}")
        return self.with_classes(labels)

    def write_beside(self, directory: Path, model: nn.Module, *, max_seq_length: int) -> None:
        """Write into a checkpoint what other programs read of this task, besides config, weights and tokenizer."""

    @abstractmethod
    def features(self, example: ExampleT, tokenizer: Tokenizer, *, max_seq_length: int) -> list[FeatureT]:
        """Tokenize an example: one feature, or as many as it has windows.

        Raises:
            InputError: its label is none of the task's.
        """

    def prepared(
        self,
        features: list[list[FeatureT]],
        encoder: Callable[[], BertModel],
        *,
        max_tokens: int,
        progress: Progress,
    ) -> list[list[FeatureT]]:
        """Return features for a run, with what need not be computed of them again in each epoch.

        Args:
            features: of each example of the data to learn from, or of the dev data.
            encoder: gives the one that the run begins with.
            max_tokens: tokens that pass through it at once.
            progress: where to tell how far it is.
        """
        return features

    @abstractmethod
    def batch(self, features: Sequence[FeatureT]) -> BatchT:
        """Pack features in the order given."""

    @abstractmethod
    def head(self, bert: BertModel, *, generator: torch.Generator | None = None) -> nn.Module:
        """Return a model: the encoder with this task's head on it, which turns a `Packed` into logits."""

    @abstractmethod
    def loss(self, logits: Tensor, batch: BatchT) -> tuple[Tensor, Measures]:
        """Return the loss summed over the batch's targets, and the same and more to be logged.

        The measures hold `loss`. The logits are what the head says of `batch.packed`, in float32.
        """

    def solve(self, model: nn.Module, features: Sequence[FeatureT]) -> None:
        """Give the head of a model the weights that are best for features; only where the task `is_solved`.

        Args:
            model: the task's own, on its device.
            features: those of the data to learn from, as `prepared`.

        Raises:
            InputError: nothing can be learned of them.
        """
        raise NotImplementedError(f"{self.name} is learned by steps")

    @abstractmethod
    def outputs(self, logits: Tensor, batch: BatchT) -> list[Array]:
        """Return what of the logits belongs to each feature of the batch, in its order."""

    @abstractmethod
    def decode(
        self, example: ExampleT, features: Sequence[FeatureT], outputs: Sequence[Array]
    ) -> PredictionT:
        """Say what the outputs for all the features of an example mean."""

    @abstractmethod
    def score(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> dict[str, float]:
        """Compare predictions with what the examples say, at least one of them; `main_metric` is among it."""

    def tuned(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> Self:
        """Return the task with what predictions for dev data tell of it, such as a threshold."""
        return self

    def averaged(self, others: Sequence[Self]) -> Self:
        """Return the task of several models whose logits are averaged, each fine-tuned for one of these.

        Raises:
            InputError: what they say cannot be averaged, since it means different things.
        """
        for other in others:
            unequal = [
                field.name
                for field in fields(self)
                if getattr(self, field.name) != getattr(other, field.name)
            ]
            if unequal:
                what = ", ".join(f"{name} is {getattr(other, name)!r}" for name in unequal)
                remedy = "Only models with the same settings of the task can answer together"
                raise InputError(what, where=self.name, remedy=remedy)
        return self

    def collapse(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> str | None:
        """Say how predictions show that nothing was learned, as in "one class only"; None where they do not."""
        return None

    @abstractmethod
    def to_json(self, example: ExampleT, prediction: PredictionT) -> dict[str, Any]:
        """Return a prediction as `cloze predict` prints it: a line of JSON."""

    @abstractmethod
    def from_json(self, values: Mapping[str, Any]) -> PredictionT:
        """Read what `to_json` wrote, as far as `score` wants it.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """

    def check_scored(self, examples: Sequence[ExampleT]) -> None:
        """Refuse examples of which no score can be had, or none that says anything, before the work begins.

        Raises:
            InputError: they are such.
        """

    def predictions(self, path: Place, examples: Sequence[ExampleT]) -> list[PredictionT]:
        """Read predictions for examples, as `cloze predict` prints them.

        Raises:
            InputError: a line is wrong, or there are more or fewer than examples.
        """
        found = []
        for values, where in read_objects(path):
            try:
                found.append(self.from_json(values))
            except (KeyError, TypeError, ValueError) as error:
                what = f"no prediction for {self.name}: {type(error).__name__} {error}"
                raise InputError(what, where=where) from error
        if len(found) != len(examples):
            what = f"{len(found):,} predictions for {len(examples):,} examples"
            raise InputError(what, where=path, remedy="Give a line for each example, in their order")
        return found


AnyTask: TypeAlias = Task[Any, Any, Any, Any]


def check_labels(labels: Sequence[str]) -> None:
    """Refuse labels that are not each another.

    Raises:
        ValueError: one stands there twice.
    """
    if twice := [label for label, count in Counter(labels).items() if count > 1]:
        raise ValueError(f"labels holds {twice[0]!r} twice")
