"""The interface of a kind of answer: how gold answers are written, what the model outputs, what is right.

Shapes: B sequences, C outputs of the head.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from cloze.choices import LongTexts, MissingLabels
from cloze.data.reading.columns import Column
from cloze.data.reading.memory import Data
from cloze.data.reading.source import Source
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.metrics import classification, regression
from cloze.metrics.breakdown import Breakdown, class_breakdown
from cloze.suggestions import list_names
from cloze.tasks.arrays import split_rows
from cloze.tasks.calibration import Calibration
from cloze.tasks.features import Target, TextFeature, TextFeatures, encode_text, input_values, pack
from cloze.tasks.labels import plain_label
from cloze.tasks.prediction_files import (
    finite_number,
    identity_of,
    match_rows,
    open_predictions,
    read_prediction_rows,
)
from cloze.tasks.task_batch import (
    Array,
    Baseline,
    Encoder,
    GoldAnswer,
    Module,
    OptionalGenerator,
    Outputs,
    Scores,
    SummedLoss,
    TaskBatch,
    Tensor,
)
from cloze.tasks.texts import LabeledText, named_column
from cloze.tokenization.tokenizer import Tokenizer

ExampleT = TypeVar("ExampleT")
AnswerT = TypeVar("AnswerT")

METRICS = {**classification.METRICS, **regression.METRICS}
"""Functions of all gold and all predicted answers by name."""


@dataclass(frozen=True, kw_only=True)
class AnswerKind(ABC, Generic[ExampleT, AnswerT]):
    """A frozen dataclass whose fields are settings; a reader has the examples.

    | question | method |
    |---|---|
    | How is a gold answer written? | `columns`, `read`; `fit` finds labels and scales in the training data |
    | What is the model's input? | `features`, and `batch`, which packs them |
    | Which head, which loss? | `head`, `loss`; `distance` to the outputs of a teacher |
    | What is answered? | `outputs` splits the logits by feature, `decode` turns them into an answer |
    | What is right? | `gold`; `pairs` has it beside the answer; `score`; `tuned` fits thresholds on dev data |

    By default an answer is a number, and `example.gold` is what is right.
    """

    metrics: ClassVar[tuple[str, ...]]
    """Scores that may choose the best epoch and run; the first does by default."""
    keys: ClassVar[tuple[str, ...]] = ()
    """Keys of a prediction that `from_json` reads from a table, the required one first."""
    ranked_field: ClassVar[str | None] = None
    """Field of an answer with the probabilities of classes, or with candidates, the best first."""
    head_name: ClassVar[str | None]
    """The class of `cloze.models.heads`; None if there is no head with weights: then every checkpoint answers."""
    problem_type: ClassVar[str | None] = None
    """`problem_type` of config.json."""
    weight_settings: ClassVar[tuple[str, ...]] = ()
    """Settings that the weights depend on; they cannot change after training."""
    averaged_settings: ClassVar[tuple[str, ...]] = ()
    """Tuned settings, which are averaged where the logits of several models are."""
    uses_in_batch_negatives: ClassVar[bool] = False
    """Whether the loss compares the examples of a step, which then are one batch."""

    def columns(self) -> tuple[Column, ...]:
        """Return the columns of gold answers: by default the one of the setting `label_column`, if there is one."""
        name = getattr(self, "label_column", None)
        return () if name is None else (named_column("label_column", name, kind="label"),)

    def read(self, row: Row) -> Any:
        """Return the gold answer of a labeled row; raise `MissingLabelError` if there is none."""
        return None

    def keeps_numbers(self, column: str, names: Sequence[str]) -> bool:
        """Return whether a column whose classes Parquet or Arrow name is read as numbers.

        Classes are, if labels are known and none has the name of a class.
        """
        labels = getattr(self, "labels", None)
        is_known = labels is None or (bool(labels) and not {*labels} & {*map(plain_label, names), *names})
        return is_known and any(column in asked.names for asked in self.columns())

    def fit(self, examples: Sequence[ExampleT]) -> Self:
        """Return the kind with the labels and other settings found in the training data."""
        return self

    @property
    def has_head(self) -> bool:
        """Whether there is a head with weights."""
        return self.head_name is not None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes of config.json; empty if there are none."""
        return getattr(self, "labels", ())

    def notes(
        self, train: Sequence[ExampleT], dev: Sequence[ExampleT], tokenizer: Tokenizer
    ) -> Iterator[str]:
        """Yield remarks on the examples that are printed before training."""
        yield from ()

    def describe_truncation(self, examples: str, max_seq_length: int) -> str:
        """Return what was truncated of examples, such as "3 of 20 texts"."""
        return f"{examples} are longer than {max_seq_length} tokens"

    def with_checkpoint_settings(self, directory: Path) -> Self:
        """Return the kind with unset settings taken from the initial checkpoint."""
        return self

    def for_external_checkpoint(self, directory: Path) -> Self:
        """Return the kind for a checkpoint of another program or task; raise `InputError` if it does not fit."""
        return self

    def write_checkpoint_files(self, directory: Path, model: Module, *, max_seq_length: int) -> None:
        """Write files of other programs beside a model."""

    @abstractmethod
    def features(self, example: ExampleT, tokenizer: Tokenizer, *, max_seq_length: int) -> list[Any]:
        """Tokenize an example into one feature, or one per window."""

    @abstractmethod
    def batch(self, features: Sequence[Any]) -> TaskBatch:
        """Pack features in the given order."""

    def head(self, bert: Encoder, *, generator: OptionalGenerator = None) -> Module:
        """Return the encoder with the head, a module from batch to logits."""
        from cloze.models import heads

        assert self.head_name is not None
        head: type[heads.ModelWithOutputLayer] = getattr(heads, self.head_name)
        num_labels = len(self.class_names) if head.has_labels else None
        return head(bert, num_labels=num_labels, generator=generator)

    @abstractmethod
    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the loss of the head's logits, summed over the targets in float32, and metrics to log."""

    def distance(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        """Return the loss between the logits and `batch.teacher`, summed over the targets, in float32."""
        raise NotImplementedError(type(self).__name__)

    @classmethod
    def learns_from_teachers(cls) -> bool:
        """Return whether there is a distance to the outputs of a teacher."""
        return cls.distance is not AnswerKind.distance

    def check_teacher(self, teacher: Self) -> None:
        """Raise `InputError` if this kind, whose labels are known, cannot learn the outputs of a teacher's."""
        names, known = self.class_names, teacher.class_names
        if set(names) != set(known):
            what = f"the teacher's classes are {list_names(known)}, those of the data are {list_names(names)}"
            raise InputError(what)

    def teacher_rows(self, output: Array, teacher: Self) -> Array:
        """Return what a feature learns from a teacher's output for it: rows of `TaskBatch.teacher`."""
        order, factor, shift = self.conversion_from(teacher)
        return factor * np.atleast_2d(output)[:, order] + shift if len(order) else output

    def conversion_from(self, other: Self) -> tuple[npt.NDArray[np.int64], float, float]:
        """Return the index of each class in another kind, and what its outputs are multiplied and increased by."""
        names = other.class_names
        return np.array([names.index(name) for name in self.class_names], np.int64), 1.0, 0.0

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        """Return the logits of each feature of the batch: by default as many rows as `batch.counts` says."""
        return split_rows(logits, batch.counts)

    @abstractmethod
    def decode(self, example: ExampleT, features: Sequence[Any], outputs: Outputs) -> AnswerT:
        """Return the answer for an example from the outputs of all its features."""

    def gold(self, example: Any) -> Any:
        """Return what is right for an example; raise `InputError` if nothing says it, or it is no class."""
        if example.gold is None:
            raise InputError("no label: nothing says what is right", where=example.where)
        return example.gold

    def check_scorable(self, examples: Sequence[ExampleT]) -> None:
        """Raise `InputError` if a gold answer that `score` needs is missing or unknown."""
        for example in examples:
            self.gold(example)

    def pairs(self, example: ExampleT, answer: AnswerT) -> Iterator[GoldAnswer]:
        """Yield the gold answer of an example, or of each part of it, beside the predicted one.

        Kinds whose answers are right or wrong define it: not numbers, rankings and vectors.
        """
        yield GoldAnswer(self.gold(example), answer, None)

    @classmethod
    def has_wrong_answers(cls) -> bool:
        """Return whether answers are right or wrong."""
        return cls.pairs is not AnswerKind.pairs

    def compare(
        self, examples: Sequence[ExampleT], answers: Sequence[AnswerT]
    ) -> tuple[list[Any], list[Any]]:
        """Return the gold and the predicted answers of all `pairs`."""
        pairs = list(chain.from_iterable(map(self.pairs, examples, answers)))
        return [pair.gold for pair in pairs], [pair.answer for pair in pairs]

    def score(
        self, examples: Sequence[ExampleT], answers: Sequence[AnswerT], metrics: Sequence[str]
    ) -> Scores:
        """Return these metrics of answers to at least one example; beside `accuracy` also `majority_accuracy`."""
        gold, predicted = self.compare(examples, answers)
        majority = ("majority_accuracy",) if "accuracy" in metrics else ()
        return {name: METRICS[name](gold, predicted) for name in (*metrics, *majority)}

    def breakdown(self, examples: Sequence[ExampleT], answers: Sequence[AnswerT]) -> Breakdown | None:
        """Return the scores by class, tag or kind of example; None if there is nothing to tell apart."""
        if not (self.has_wrong_answers() and hasattr(self, "labels")):
            return None
        return class_breakdown(*self.compare(examples, answers), self.class_names)

    def tuned(self, examples: Sequence[ExampleT], answers: Sequence[AnswerT]) -> Self:
        """Return the kind with settings, such as a threshold, tuned on answers to dev data."""
        return self

    def calibrated(self, examples: Sequence[ExampleT], answers: Sequence[AnswerT]) -> tuple[Self, float]:
        """Return the kind of the calibrated model, and by what its output layer is divided: 1 if it is not changed."""
        return self, 1.0

    def calibration(
        self, examples: Sequence[ExampleT], answers: Sequence[AnswerT], *, is_dev: bool
    ) -> Calibration | None:
        """Return the temperature and calibration error of the probabilities; None if they are not calibrated.

        The error of dev data, on which the temperature was fitted, is cross-fitted.
        """
        return None

    def averaged(self, others: Sequence[Self]) -> Self:
        """Return the kind for the averaged logits of several models, whose other settings are equal."""
        names = [setting.name for setting in fields(self) if setting.name not in self.averaged_settings]
        for other in others:
            unequal = [name for name in names if getattr(self, name) != getattr(other, name)]
            if type(self) is not type(other) or unequal:
                what = ", ".join(f"{name} is {getattr(other, name)!r}" for name in unequal) or "another kind"
                remedy = "Only models with the same settings of the task can answer together"
                raise InputError(what, remedy=remedy)
        kinds = (self, *others)
        means = {name: fmean(getattr(kind, name) for kind in kinds) for name in self.averaged_settings}
        return replace(self, **means)

    def baselines(self, train: Sequence[Any]) -> Mapping[str, Baseline]:
        """Return predictors without an encoder by name, whose scores a model should beat."""
        return {}

    def collapse(
        self, examples: Sequence[ExampleT], answers: Sequence[AnswerT], metrics: Sequence[str]
    ) -> str | None:
        """Describe how answers show that nothing was learned, as in "one class only"; else return None."""
        return None

    def to_json(self, example: ExampleT, answer: AnswerT) -> dict[str, Any]:
        """Return the JSON object that `cloze predict` prints for an answer."""
        return {self.keys[0]: answer}

    def from_json(self, values: Mapping[str, Any]) -> AnswerT:
        """Return the parts of an answer that `score` needs from the output of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: the object is no such output.
        """
        return cast(AnswerT, finite_number(values[self.keys[0]]))

    def read_answers(self, source: Data, examples: Sequence[ExampleT]) -> list[AnswerT]:
        """Read the answers for examples that `cloze predict` printed or wrote, as JSON lines or a table.

        They are matched by id or by the number of the row, or by their order where either file has none.
        """
        return self.answers_of(open_predictions(source, self.keys), examples)

    def answers_of(self, source: Source, examples: Sequence[ExampleT]) -> list[AnswerT]:
        """Read the answers of a source that is open, as `read_answers` does."""
        answers, identities = [], []
        for values, where in read_prediction_rows(source, self.keys):
            identities.append(identity_of(values))
            try:
                answers.append(self.from_json(values))
            except (KeyError, TypeError, ValueError) as error:
                problem = f"no field {error}" if isinstance(error, KeyError) else str(error)
                remedy = "Give rows as cloze predict writes them"
                raise InputError(f"no prediction: {problem}", where=where, remedy=remedy) from error
        gold = [identity_of(input_values(example)) for example in examples]
        return [answers[i] for i in match_rows(identities, gold, source.data)]


@dataclass(frozen=True, kw_only=True)
class TextAnswer(AnswerKind[LabeledText, AnswerT]):
    """An answer to a text or a pair, with a dense layer on the pooled [CLS]."""

    head_name = "BertForSequenceClassification"
    target_dtype: ClassVar[npt.DTypeLike] = np.float32

    label_column: str = "label"
    """Column of the gold answers; of several names between | the first that data have."""
    missing_labels: MissingLabels = "refuse"
    """Refuse rows without a label, or drop and count them, with those whose label is a placeholder such as n/a or -."""
    long_texts: LongTexts = "truncate"
    """Truncate a long text, as Google's code does for GLUE, or read it in windows and average their logits."""

    def features(
        self, example: LabeledText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[TextFeature]:
        target = None if example.gold is None else self.target(example.gold)
        sequences = encode_text(
            tokenizer, example.text, example.pair, max_seq_length=max_seq_length, long_texts=self.long_texts
        )
        return [TextFeature((sequence,), target) for sequence in sequences]

    @abstractmethod
    def target(self, gold: Any) -> Target:
        """Return the training target of a gold answer."""

    def targets(self, targets: Sequence[Any]) -> npt.NDArray[Any]:
        """Return the targets of a batch; an unknown one is 0."""
        return np.array([target or 0 for target in targets], self.target_dtype)

    def batch(self, features: TextFeatures) -> TaskBatch:
        return pack(features, self.targets([feature.target for feature in features]))

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        return list(logits)

    def raw_scores(self, outputs: Outputs) -> list[float]:
        """Return the logits that `decode` turns into an answer: the mean over the windows, one for each class."""
        return [float(mean) for mean in np.asarray(outputs, np.float64).mean(axis=0)]
