"""Tasks on a text or a pair of texts: examples from tables, features and batches.

Shapes: B sequences.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from cloze.choices import LongTexts, MissingLabels
from cloze.data.reading.annotations import unwrap_labels
from cloze.data.reading.bad_rows import BadRows, MissingLabelError, source_of
from cloze.data.reading.columns import Column
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.memory import Source
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.models.encoder import Encoder
from cloze.models.heads import BertForSequenceClassification
from cloze.tasks.features import Target, TextFeature, encode_text, pack
from cloze.tasks.labels import DASHES, PLACEHOLDERS, find_class, find_labels_for_none, warn_of_minus_one
from cloze.tasks.task import ID, Task
from cloze.tasks.task_batch import Array, Outputs, TaskBatch
from cloze.tokenization.tokenizer import Tokenizer

PredictionT = TypeVar("PredictionT")


@dataclass(frozen=True, slots=True)
class LabeledText:
    """An example: a text or a pair, and its label as in the file where it is known."""

    text: str
    pair: str | None = None
    label: str | None = None
    where: str = "text"
    """File and line."""
    row: int | None = field(default=None, kw_only=True, compare=False)
    """Row of the table, or line of the text, from 1."""
    id: str | None = field(default=None, kw_only=True, compare=False)
    """From the column `id`, if the table has one."""


def text_columns(
    text: str | tuple[str, ...],
    pair: str | tuple[str, ...] | None = None,
    label: str | tuple[str, ...] = "label",
) -> tuple[Column, ...]:
    """Return the columns of texts or pairs and their labels; of several names the first that data have is used."""
    names = {"text": text, "pair": pair, "label": label}
    columns = [
        Column(key, "label" if key == "label" else "text", (name,) if isinstance(name, str) else name)
        for key, name in names.items()
        if name is not None
    ]
    return (*columns, ID)


@dataclass(frozen=True, kw_only=True)
class TextTask(Task[LabeledText, TextFeature, PredictionT], Generic[PredictionT]):
    """A task on a text or a pair, with a dense layer on the pooled [CLS]."""

    target_dtype: ClassVar[npt.DTypeLike] = np.float32

    long_texts: LongTexts = "truncate"
    """Truncate a long text, as Google's code does for GLUE, or read it in windows and average their logits."""

    def split_group(self, example: LabeledText) -> Hashable:
        """Return the text or the pair, so that duplicates are all in the training or all in the dev data."""
        return example.text, example.pair

    @abstractmethod
    def target(self, example: LabeledText) -> Target:
        """Return the training target of a labeled example."""

    def targets(self, targets: Sequence[Target | None]) -> npt.NDArray[Any]:
        """Return the targets of a batch as an array; an unknown one is 0."""
        return np.array([0 if target is None else target for target in targets], self.target_dtype)

    def features(
        self, example: LabeledText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[TextFeature]:
        """Tokenize a text or a pair."""
        target = None if example.label is None else self.target(example)
        sequences = encode_text(
            tokenizer, example.text, example.pair, max_seq_length=max_seq_length, long_texts=self.long_texts
        )
        return [TextFeature((sequence,), target) for sequence in sequences]

    def batch(self, features: Sequence[TextFeature]) -> TaskBatch:
        """Pack sequences in the given order."""
        return pack(features, self.targets([feature.target for feature in features]))

    def head(self, bert: Encoder, *, generator: torch.Generator | None = None) -> nn.Module:
        """Return the encoder with a dense layer on the pooled [CLS], one logit per class name."""
        return BertForSequenceClassification(bert, num_labels=len(self.class_names), generator=generator)

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        """Return the row of logits of each sequence."""
        return list(logits)

    def raw_scores(self, outputs: Outputs) -> list[float]:
        """Return the logits that `decode` turns into a prediction: the mean over the windows, one for each class."""
        return [float(mean) for mean in np.asarray(outputs, np.float64).mean(axis=0)]


@dataclass(frozen=True, kw_only=True)
class LabeledRows:
    """Mixin for tasks on tables with labels: settings for rows that cannot be used."""

    missing_labels: MissingLabels = "refuse"
    """Refuse rows whose label is empty or a placeholder such as nan or -, or drop and count them."""
    skip_bad_rows: bool = False
    """Leave out and count rows that cannot be read, instead of refusing the file."""

    @property
    def errors_left_out(self) -> tuple[type[InputError], ...]:
        """The kinds of errors whose rows are left out."""
        if self.skip_bad_rows:
            return (InputError,)
        return (MissingLabelError,) if self.missing_labels == "drop" else ()

    def keeps_numbers(self, column: str, names: Sequence[str]) -> bool:
        """Return whether a column has labels that are numbers, as choices are, or has no name of the task's labels."""
        assert isinstance(self, Task)
        labels: Sequence[str] | None = getattr(self, "labels", None)
        kinds = {name: asked.kind for asked in self.named_columns() for name in asked.names}
        if kinds.get(column) != "label" or labels is None:
            return kinds.get(column) in ("label", "flag")
        return bool(labels) and all(find_class(name, labels) is None for name in names)

    def read_label(self, row: Row) -> str:
        """Return the label of a row, as the task names it."""
        assert isinstance(self, Task)
        labels: Sequence[str] | None = getattr(self, "labels", None)  # None for numbers
        name, value = row.name("label"), unwrap_labels(row.cells["label"])
        if isinstance(value, list) and len(value) > 1:
            what = f"{name!r} is a list of {len(value)}"
            raise InputError(what, where=row.where, remedy="The task multi-label learns lists of labels")
        if isinstance(value, list):  # as annotation tools write one label
            value = value[0] if value else None
        is_null = value is None or (isinstance(value, float) and math.isnan(value))
        label = "" if is_null else (as_text(value) or row.text("label")).strip()
        placeholders = PLACEHOLDERS if labels is not None else PLACEHOLDERS | DASHES
        if not label or (label in placeholders and label not in (labels or ())):
            what = f"{name!r} is {label!r}, a placeholder and not a label"
            remedy = "`missing_labels=drop` leaves out such rows"
            if label and labels == ():
                remedy += f'; if it is a class, name all: `{self.name}.labels=["…", "{label}"]`'
            what = what if label else f"the cell {name!r} is empty"
            raise MissingLabelError(what, where=row.where, remedy=remedy)
        return self.check_label(label, row.where)

    def labeled_examples(
        self, examples: Iterator[LabeledText], labels_of: Callable[[LabeledText], Iterable[str]]
    ) -> Iterator[LabeledText]:
        """Return the examples of a file without those whose labels stand for none beside the others of the file.

        Args:
            examples: of all rows; those of a task with labels of its own are checked row by row.
            labels_of: returns the labels of an example.

        Raises:
            InputError: there are such labels and `missing_labels` refuses them, or no example is left.
        """
        assert isinstance(self, Task)
        if self.class_names:
            return examples
        read = list(examples)
        labels = {label for example in read for label in labels_of(example)}
        where = source_of(read[0].where)
        for_none = find_labels_for_none(labels)
        if not for_none:
            warn_of_minus_one(labels, where, self.name)
            return iter(read)
        named = f"""name all: `{self.name}.labels=["…", "{for_none[0]}"]`"""
        remedy = f"`missing_labels=drop` leaves out such rows; if it is a class, {named}"
        missing, kept = BadRows(), []
        for example in read:
            if label := next((label for label in labels_of(example) if label in for_none), None):
                what = f"the label is {label!r}, which stands for none"
                missing.add(MissingLabelError(what, where=example.where, remedy=remedy))
            else:
                kept.append(example)
        if not (kept and self.errors_left_out):
            raise missing.as_error(rows=len(read))
        missing.warn(where, len(read))
        return iter(kept)


@dataclass(frozen=True, kw_only=True)
class LabeledTexts(LabeledRows):
    """Mixin for tasks on tables of texts or pairs with labels."""

    def example(self, row: Row) -> LabeledText:
        """Return the text or the pair of a row, and its label; gold data may lack the texts."""
        text, pair = (row.text(key) if key in row.cells else None for key in ("text", "pair"))
        label = self.read_label(row).strip() if row.labeled else None
        identifier = as_text(row.cells.get("id"))
        return LabeledText(text or "", pair, label, row.where, row=row.number, id=identifier)

    @property
    def reads_pairs(self) -> bool:
        """Whether there is a column of second texts."""
        assert isinstance(self, Task)
        return any(column.key == "pair" for column in self.named_columns())


@dataclass(frozen=True, kw_only=True)
class CustomTexts(LabeledTexts):
    """Mixin for tasks on custom tables: the columns are settings."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column("text", setting="text_column"),
        Column("pair", setting="pair_column"),
        Column("label", "label", setting="label_column"),
        ID,
    )

    text_column: str = "text"
    pair_column: str | None = None
    """Column of the second text, for tasks on pairs."""
    label_column: str = "label"

    def gold_examples(self, source: Source) -> Iterator[LabeledText]:
        """Read the labels of a table; columns of texts that it does not have are empty texts."""
        assert isinstance(self, Task)
        columns = (replace(column, is_required=column.is_label) for column in self.named_columns())
        examples: Iterator[LabeledText] = self.read_rows(source, tuple(columns), labeled=True)
        return examples


def finite_number(value: Any) -> float:
    """Return a number of JSON as a float.

    Raises:
        TypeError, ValueError: it is not a number, or infinite, NaN or too large.
    """
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a number")
    return number
