"""The interface of a fine-tuning task. A family implements it; a benchmark says which columns its data have."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from cloze.data.reading.memory import Source
from cloze.data.reading.tables import TableConfig
from cloze.errors import InputError
from cloze.file_names import CONFIG_FILE
from cloze.metrics.breakdown import Breakdown
from cloze.metrics.classification import METRICS
from cloze.models.config_file import load_labels
from cloze.suggestions import list_names
from cloze.tasks.arrays import split_rows
from cloze.tasks.calibration import Calibration
from cloze.tasks.prediction_files import identity_of, input_values, match_rows, read_prediction_rows
from cloze.tasks.task_batch import (
    Array,
    Baseline,
    Encoder,
    FeatureT,
    GoldAnswer,
    Module,
    OptionalGenerator,
    Outputs,
    Scores,
    SummedLoss,
    TaskBatch,
    Tensor,
)
from cloze.tokenization.tokenizer import Tokenizer

ExampleT = TypeVar("ExampleT")
PredictionT = TypeVar("PredictionT")
Split: TypeAlias = Literal["train", "dev"]


@dataclass(frozen=True, kw_only=True)
class Task(ABC, Generic[ExampleT, FeatureT, PredictionT]):
    """A frozen dataclass whose fields are the task's settings; `register_task` names it.

    Methods that read data or other programs' models raise `InputError`.

    | question | method |
    |---|---|
    | Which examples are in a file? | `examples`; `fit_labels` for settings read from the training data |
    | What is the model's input? | `features`, and `batch`, which packs them |
    | Which head? | `head` |
    | Which loss? | `loss` |
    | What is predicted? | `outputs` splits the logits by feature, `decode` turns them into a prediction |
    | How does it learn a teacher's outputs? | `soft_loss`; `teacher_rows` gives them its order of classes |
    | What is right? | `gold`; `pairs` has it beside the prediction, from which most scores follow |
    | Which metrics? | `score`, and `with_tuned_settings` for settings tuned on dev data |
    """

    name: ClassVar[str]
    data_format: ClassVar[str]
    """The files it reads, in a few words."""
    source: ClassVar[str]
    """References for the data and the metrics."""
    metrics: ClassVar[tuple[str, ...]]
    """Metrics that may select the best epoch and the best run; the first does by default."""
    problem_type: ClassVar[str | None] = None
    """`problem_type` of config.json."""
    defaults: ClassVar[tuple[str, ...]] = ()
    """Run settings that differ from GLUE's, as in "max_seq_length=384"."""
    train_files: ClassVar[tuple[str, ...]] = ("train.tsv",)
    """Names of the training file in a directory of data."""
    dev_files: ClassVar[tuple[str, ...]] = ("dev.tsv",)
    """Names of the dev file in a directory of data."""
    model_settings: ClassVar[tuple[str, ...]] = ()
    """Settings that the weights depend on; they cannot be changed for prediction."""
    trained_as: ClassVar[str | None] = None
    """Task whose models answer this one, if it has no training data."""
    answer_keys: ClassVar[tuple[str, ...]] = ()
    """Keys of a prediction that `from_json` reads from a table, the required one first."""
    ranked_field: ClassVar[str | None] = None
    """Field of a prediction with the probabilities of classes, or with candidates, the best first."""
    head_name: ClassVar[str | None] = None
    """The class of the module that `head` returns: one of `cloze.models.heads`, unless the task builds another."""
    has_head: ClassVar[bool] = True
    """Whether its models have a head with weights; without one, every checkpoint answers the task."""
    head_settings: ClassVar[tuple[str, ...]] = ()
    """Settings that a head without weights follows; they may change for prediction."""
    averaged_settings: ClassVar[tuple[str, ...]] = ()
    """Tuned settings that are averaged as the logits of several models are."""
    uses_in_batch_negatives: ClassVar[bool] = False
    """Whether the loss compares the examples of a step, which then are one batch."""

    @abstractmethod
    def table(self, *, labeled: bool) -> TableConfig:
        """Return how tables and rows in memory are read: their columns in the order of tuples, and more."""

    @abstractmethod
    def examples(self, source: Source, *, labeled: bool = True) -> Iterator[ExampleT]:
        """Read the examples of a file; unless `labeled`, labels are ignored and may be missing.

        Raises:
            InputError: a row is invalid.
        """

    def examples_with_cells(self, source: Source) -> Iterator[tuple[ExampleT, Mapping[str, Any]]]:
        """Read unlabeled examples, each with the cells of other columns by name; only tables have such cells."""
        return ((example, {}) for example in self.examples(source, labeled=False))

    def gold_examples(self, source: Source) -> Iterator[ExampleT]:
        """Read labeled examples to score predictions of a file; their texts may be missing."""
        return self.examples(source)

    def fit_labels(self, examples: Sequence[ExampleT]) -> Self:
        """Return the task with the labels and other settings found in the training data."""
        return self

    def classes_of(self, example: ExampleT) -> frozenset[str]:
        """Return the classes or labels of an example; empty if the task has none."""
        return frozenset()

    def notes(self, examples: Sequence[ExampleT], tokenizer: Tokenizer) -> list[str]:
        """Return remarks on the training examples and the tokenizer that are printed before training."""
        return []

    def dev_notes(self, examples: Sequence[ExampleT]) -> list[str]:
        """Return remarks on the dev examples that are printed before training."""
        return []

    def describe_truncation(self, examples: str, max_seq_length: int) -> str:
        """Return what was truncated.

        Args:
            examples: the truncated ones, as in "3 of 20 texts".
            max_seq_length: the most tokens of a feature.
        """
        return f"{examples} are longer than {max_seq_length} tokens"

    def split_group(self, example: ExampleT) -> Hashable:
        """Return the source text of an example; held-out dev data share none with the training data.

        None: the example is a group of its own.
        """
        return None

    def with_checkpoint_settings(self, directory: Path) -> Self:
        """Return the task with the settings that are unset and that the checkpoint to start from has."""
        return self

    def write_checkpoint_files(self, directory: Path, model: Module, *, max_seq_length: int) -> None:
        """Write files of other programs beside a model of the task."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes of config.json: by default the setting `labels`; empty if there are none."""
        return getattr(self, "labels", ())

    def with_class_names(self, names: tuple[str, ...]) -> Self:
        """Return the task with the classes of another program's config.json, in their order."""
        return self

    def for_external_checkpoint(self, directory: Path) -> Self:
        """Return the task for a checkpoint of another program or another task.

        Raises:
            InputError: the checkpoint does not fit the task.
        """
        names = load_labels(directory)
        if repeated := [name for name, count in Counter(names).items() if count > 1]:
            what, remedy = f"id2label has {repeated[0]!r} twice", "Give each class a name of its own"
            raise InputError(what, where=directory / CONFIG_FILE, remedy=remedy)
        return self.with_class_names(names)

    @abstractmethod
    def features(self, example: ExampleT, tokenizer: Tokenizer, *, max_seq_length: int) -> list[FeatureT]:
        """Tokenize an example into one feature, or one per window."""

    @abstractmethod
    def batch(self, features: Sequence[FeatureT]) -> TaskBatch:
        """Pack features in the given order."""

    def head(self, bert: Encoder, *, generator: OptionalGenerator = None) -> Module:
        """Return the encoder with this task's head, a module from batch to logits."""
        from cloze.models import heads

        assert self.head_name is not None
        head: type[heads.ModelWithOutputLayer] = getattr(heads, self.head_name)
        num_labels = len(self.class_names) if head.has_labels else None
        return head(bert, num_labels=num_labels, generator=generator)

    @abstractmethod
    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the summed loss and metrics of the head's logits for the batch, in float32."""

    def soft_loss(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        """Return the loss between the logits and `batch.teacher`, summed over the targets, in float32.

        The class that defines it is the family within which a model can be a teacher.
        """
        raise NotImplementedError(f"{self.name} has no teachers")

    def check_teacher(self, teacher: Self) -> None:
        """Check that this task, whose labels are known, can learn the outputs of a teacher's.

        Raises:
            InputError: they have other classes.
        """
        names, known = self.class_names, teacher.class_names
        if set(names) != set(known):
            what = f"the teacher's classes are {list_names(known)}, those of the data are {list_names(names)}"
            raise InputError(what)

    def teacher_rows(self, output: Array, teacher: Self) -> Array:
        """Return what a feature learns from a teacher's output for it: rows of `TaskBatch.teacher`.

        Args:
            output: as `outputs` returns it.
            teacher: the teacher's task, with the same classes, which may have another order.
        """
        order, factor, shift = self.conversion_from(teacher)
        return factor * np.atleast_2d(output)[:, order] + shift if len(order) else output

    def conversion_from(self, other: Self) -> tuple[npt.NDArray[np.int64], float, float]:
        """Return how the outputs of a task with the same classes become those of this one.

        Returns:
            The index of each class in the other task, and what its outputs are multiplied by, and increased by.
        """
        names = other.class_names
        return np.array([names.index(name) for name in self.class_names], np.int64), 1.0, 0.0

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        """Return the logits of each feature of the batch: by default as many rows as `batch.counts` says."""
        return split_rows(logits, batch.counts)

    @abstractmethod
    def decode(self, example: ExampleT, features: Sequence[FeatureT], outputs: Outputs) -> PredictionT:
        """Return the prediction for an example from the outputs of all its features."""

    def gold(self, example: ExampleT) -> Any:
        """Return what is right for an example, as `pairs` has it."""
        return None

    def check_scorable(self, examples: Sequence[ExampleT]) -> None:
        """Raise `InputError` if a label that `score` needs is missing or unknown."""
        for example in examples:
            self.gold(example)

    def pairs(self, example: ExampleT, prediction: PredictionT) -> Iterator[GoldAnswer]:
        """Yield what is right for a labeled example, or for each part of it, beside what is predicted.

        Only tasks whose answers are right or wrong define it: not those of numbers, rankings and vectors.
        """
        raise NotImplementedError(f"answers of {self.name} are not right or wrong")

    def compare(
        self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]
    ) -> tuple[list[Any], list[Any]]:
        """Return the gold and the predicted answers of all `pairs`."""
        answers = zip(examples, predictions, strict=True)
        pairs = [pair for example, prediction in answers for pair in self.pairs(example, prediction)]
        return [pair.gold for pair in pairs], [pair.answer for pair in pairs]

    def score(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> Scores:
        """Return the metrics of predictions for at least one example, beside an accuracy that of the majority."""
        gold, answers = self.compare(examples, predictions)
        majority = ("majority_accuracy",) if "accuracy" in self.metrics else ()
        return {name: METRICS[name](gold, answers) for name in (*self.metrics, *majority)}

    def breakdown(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> Breakdown | None:
        """Return the scores by class, tag or kind of example; None if there is nothing to tell apart."""
        return None

    def with_tuned_settings(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> Self:
        """Return the task with settings, such as a threshold, tuned on predictions for dev data."""
        return self

    def calibrated(
        self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]
    ) -> tuple[Self, float]:
        """Return the task of the calibrated model, and by what its output layer is divided: 1 if it is not changed."""
        return self, 1.0

    def calibration(
        self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT], *, is_dev: bool
    ) -> Calibration | None:
        """Return the temperature of the probabilities and their calibration error; None if they are not calibrated.

        Args:
            is_dev: whether the temperature was fitted on them, so that the error is cross-fitted.
        """
        return None

    def for_ensemble(self, others: Sequence[Self]) -> Self:
        """Return the task for the averaged logits of several models, each fine-tuned for one of these tasks.

        Raises:
            InputError: settings other than `averaged_settings` differ, so that the logits cannot be averaged.
        """
        for other in others:
            names = [setting.name for setting in fields(self) if setting.name not in self.averaged_settings]
            if unequal := [name for name in names if getattr(self, name) != getattr(other, name)]:
                what = ", ".join(f"{name} is {getattr(other, name)!r}" for name in unequal)
                remedy = "Only models with the same settings of the task can answer together"
                raise InputError(what, where=self.name, remedy=remedy)
        tasks = (self, *others)
        return replace(
            self, **{name: fmean(getattr(task, name) for task in tasks) for name in self.averaged_settings}
        )

    def baselines(self) -> Mapping[str, Baseline]:
        """Return predictors without an encoder by name, whose scores a model should beat."""
        return {}

    def collapse(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> str | None:
        """Describe how predictions show that nothing was learned, as in "one class only"; else return None."""
        return None

    @property
    def reads_pairs(self) -> bool | None:
        """Whether each example is a pair of texts, or a single one; None for examples of another form."""
        return None

    @abstractmethod
    def to_json(self, example: ExampleT, prediction: PredictionT) -> dict[str, Any]:
        """Return the JSON object that `cloze predict` prints for a prediction."""

    @abstractmethod
    def from_json(self, values: Mapping[str, Any]) -> PredictionT:
        """Return the parts of a prediction that `score` needs from the output of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: the object is no such output.
        """

    def read_predictions(self, source: Source, examples: Sequence[ExampleT]) -> list[PredictionT]:
        """Read the predictions for examples that `cloze predict` printed or wrote, as JSON lines or a table.

        They are matched by id and texts, or by their order where either file has neither.
        """
        predictions, identities = [], []
        for values, where in read_prediction_rows(source, self.answer_keys):
            identities.append(identity_of(values))
            try:
                predictions.append(self.from_json(values))
            except (KeyError, TypeError, ValueError) as error:
                problem = f"no field {error}" if isinstance(error, KeyError) else str(error)
                remedy = "Give rows as cloze predict writes them"
                raise InputError(
                    f"no prediction for {self.name}: {problem}", where=where, remedy=remedy
                ) from error
        gold = [identity_of(input_values(example)) for example in examples]
        return [predictions[i] for i in match_rows(identities, gold, predictions, source)]


AnyTask: TypeAlias = Task[Any, Any, Any]


def family_of(task: AnyTask) -> type[Any]:
    """Return the class that says how a task learns outputs: models of one family have outputs of one meaning."""
    return next(parent for parent in type(task).__mro__ if "soft_loss" in vars(parent))
