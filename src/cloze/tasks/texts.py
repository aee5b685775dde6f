"""Tasks on a text or a pair of texts: examples from tables, features and batches.

Shapes: B sequences.
"""

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cloze.choices import LongTexts, MissingLabels
from cloze.data.annotations import unwrap_labels
from cloze.data.bad_rows import BadRows, MissingLabelError
from cloze.data.class_names import KeepsNumbers, keep_no_numbers
from cloze.data.json_rows import as_text
from cloze.data.table_files import Column, NoColumnError, is_table
from cloze.data.tables import Row, parse_rows
from cloze.data.text_lines import read_texts_of_lines
from cloze.errors import DataWarning, InputError
from cloze.memory_file import source_of
from cloze.models.encoder import Encoder
from cloze.models.heads import BertForSequenceClassification
from cloze.remote_files import PathOrUrl
from cloze.tasks.features import Target, TextFeature, encode_text, pack
from cloze.tasks.labels import DASHES, PLACEHOLDERS, find_class, find_labels_for_none, warn_of_minus_one
from cloze.tasks.task import Task
from cloze.tasks.task_batch import Array, Outputs, TaskBatch
from cloze.tokenization.tokenizer import Tokenizer

PredictionT = TypeVar("PredictionT")
_NO_TEXTS = PLACEHOLDERS - {"NA", "None"} | {""}
_ID = "id"


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


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of the texts and the label."""

    text: Column
    pair: Column | None = None
    label: Column = "label"
    flags: tuple[str, ...] = ()
    """Columns of 0 and 1, one for each label, instead of `label`."""


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

    def input_values(self, example: LabeledText) -> dict[str, Any]:
        """Return the id or the row, and the texts."""
        values = {"id": example.id, "row": example.row if example.id is None else None}
        values |= {"text": example.text, "pair": example.pair}
        return {name: value for name, value in values.items() if value is not None}

    def batch(self, features: Sequence[TextFeature]) -> TaskBatch:
        """Pack sequences in the given order."""
        return pack(features, self.targets([feature.target for feature in features]))

    def head(self, bert: Encoder, *, generator: torch.Generator | None = None) -> nn.Module:
        """Return the encoder with a dense layer on the pooled [CLS], one logit per class name."""
        return BertForSequenceClassification(bert, num_labels=len(self.class_names), generator=generator)

    def outputs(self, logits: Tensor, batch: TaskBatch) -> list[Array]:
        """Return the row of logits of each sequence."""
        return list(logits.cpu().numpy())

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

    @property
    @abstractmethod
    def table_columns(self) -> Columns:
        """The columns of the texts and the label."""

    def keeps_numbers(self, column: str, names: Sequence[str]) -> bool:
        """Return whether a column has labels that are numbers, as choices are, or has no name of the task's labels."""
        label, flags = self.table_columns.label, self.table_columns.flags
        labels: Sequence[str] | None = getattr(self, "labels", None)
        if column not in flags and column not in ([label] if isinstance(label, str) else label):
            return False
        if column in flags or labels is None:
            return True
        return bool(labels) and all(find_class(name, labels) is None for name in names)

    def read_label(self, row: Row, column: Column) -> str:
        """Return the label of a row, as the task names it."""
        assert isinstance(self, Task)
        labels: Sequence[str] | None = getattr(self, "labels", None)  # None for numbers
        value = unwrap_labels(row.cells[column])
        if isinstance(value, list) and len(value) > 1:
            what = f"{row.names.get(column, column)!r} is a list of {len(value)}"
            raise InputError(what, where=row.where, remedy="The task multi-label learns lists of labels")
        if isinstance(value, list):  # as annotation tools write one label
            value = value[0] if value else None
        is_null = value is None or (isinstance(value, float) and math.isnan(value))
        label = "" if is_null else (as_text(value) or row.text(column)).strip()
        placeholders = PLACEHOLDERS if labels is not None else PLACEHOLDERS | DASHES
        if not label or (label in placeholders and label not in (labels or ())):
            name = row.names.get(column, column)
            what = (
                f"the cell {name!r} is empty"
                if not label
                else f"{name!r} is {label!r}, a placeholder and not a label"
            )
            remedy = "--missing-labels drop leaves out such rows"
            if label and labels == ():
                remedy += f'; if it is a class, name all: --set {self.name}.labels=["…", "{label}"]'
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
        named = f"""name all: --set '{self.name}.labels=["…", "{for_none[0]}"]'"""
        remedy = f"--missing-labels drop leaves out such rows; if it is a class, {named}"
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
class CustomTexts(LabeledRows):
    """Mixin for tasks on custom tables: the columns are settings."""

    text_column: str = "text"
    pair_column: str | None = None
    """Column of the second text, for tasks on pairs."""
    label_column: str = "label"

    def examples(self, path: PathOrUrl, *, labeled: bool = True) -> Iterator[LabeledText]:
        """Read the rows of a table; without labels and pairs also the lines of plain text."""
        assert isinstance(self, Task)
        examples = self._read(path, labeled=labeled)
        return self.with_plain_labels(examples) if labeled else examples

    def gold_examples(self, path: PathOrUrl) -> Iterator[LabeledText]:
        """Read the labels of a table; columns of texts that it does not have are empty texts."""
        assert isinstance(self, Task)
        examples: Iterator[LabeledText] = self.with_plain_labels(
            self._read(path, labeled=True, needs_texts=False)
        )
        return examples

    @property
    def reads_pairs(self) -> bool:
        """Whether there is a column of second texts."""
        return self.pair_column is not None

    @property
    def table_columns(self) -> Columns:
        """The columns of the texts and the label."""
        return Columns(self.text_column, self.pair_column, self.label_column)

    def _read(self, path: PathOrUrl, *, labeled: bool, needs_texts: bool = True) -> Iterator[LabeledText]:
        examples = read_texts(
            path,
            self.table_columns,
            labeled=labeled,
            needs_texts=needs_texts,
            read_label=self.read_label,
            leave_out=self.errors_left_out,
            keeps_numbers=self.keeps_numbers,
        )
        return self.checked(examples, needs_texts=needs_texts)

    def checked(self, examples: Iterator[LabeledText], *, needs_texts: bool = True) -> Iterator[LabeledText]:
        """Yield the examples of a table, and warn of labeled ones without a text if they need one.

        The error for a missing column says which flag names another.
        """
        assert isinstance(self, Task)
        no_texts: list[str] = []
        try:
            for example in examples:
                texts = [example.text] if example.pair is None else [example.text, example.pair]
                if (
                    needs_texts
                    and example.label is not None
                    and any(text.strip() in _NO_TEXTS for text in texts)
                ):
                    no_texts.append(example.where)
                yield example
        except NoColumnError as error:
            flags = {
                self.pair_column: f"--set {self.name}.pair_column=NAME",
                self.label_column: "--label-column NAME",
                self.text_column: "--text-column NAME",
            }
            if isinstance(error.column, str) and error.column in flags:
                error.remedy = f"{error.remedy}; say which it is with {flags[error.column]}"
            raise
        if no_texts:
            what = "a text is empty or a placeholder such as nan, and read as it is"
            warning = f"{no_texts[0]}: {what} (the first of {len(no_texts):,})"
            warnings.warn(DataWarning(warning), stacklevel=2)


def read_texts(
    path: PathOrUrl,
    columns: Columns,
    *,
    labeled: bool,
    needs_texts: bool = True,
    header: Sequence[str] | None = None,
    skip_broken: bool = False,
    read_label: Callable[[Row, Column], str] = Row.required,
    leave_out: tuple[type[InputError], ...] | None = None,
    keeps_numbers: KeepsNumbers = keep_no_numbers,
) -> Iterator[LabeledText]:
    """Read the rows of a table; without labels and pairs also the lines of plain text.

    `header`, `skip_broken`, `leave_out` and `keeps_numbers` are those of `parse_rows`. `read_label` returns the text of
    a label. Without `needs_texts` the table may lack columns of texts that have one name, which are empty then.
    """
    if not (labeled or columns.pair or is_table(path)):
        lines = enumerate(read_texts_of_lines(path, columns.text), 1)
        yield from (LabeledText(line, where=where, row=row) for row, (line, where) in lines)
        return
    texts = [columns.text] if columns.pair is None else [columns.text, columns.pair]
    wanted = texts if needs_texts else [column for column in texts if not isinstance(column, str)]
    wanted = [*wanted, *(columns.flags or [columns.label])] if labeled else wanted
    optional = [column for column in (*texts, _ID) if isinstance(column, str) and column not in wanted]

    def text(row: Row, column: Column) -> str:
        return row.text(column) if needs_texts else as_text(row.cells.get(column)) or ""

    def parse(row: Row) -> LabeledText:
        return LabeledText(
            text(row, columns.text),
            None if columns.pair is None else text(row, columns.pair),
            read_label(row, columns.label).strip() if labeled else None,
            row.where,
            row=row.number,
            id=as_text(row.cells.get(_ID)),
        )

    yield from parse_rows(
        path,
        wanted,
        parse,
        is_optional=optional.__contains__,
        header=header,
        skip_broken=skip_broken,
        leave_out=leave_out,
        keeps_numbers=keeps_numbers,
        labeled=labeled,
    )


def parse_score(example: LabeledText) -> float:
    """Return the label of an example as a number.

    Raises:
        InputError: it is not a finite number.
    """
    try:
        score = float(example.label or "")
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        remedy = "Write finite numbers without units, as in 4.5"
        raise InputError(f"score {example.label!r} is not a number", where=example.where, remedy=remedy)
    return score


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
