"""What the families of tasks on one text, or two, have in common: examples, features, batches, columns.

Shapes: B sequences.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from torch import Tensor

from cloze.errors import InputError
from cloze.model.packed import Packed
from cloze.stores import Place
from cloze.tasks.sequences import LongTexts, sequences_of
from cloze.tasks.tables import Column, Row, check_is_text, is_table, read_lines, read_rows
from cloze.tasks.task import Array, TargetBatch, Task
from cloze.text.tokenizer import Tokenizer

PredictionT = TypeVar("PredictionT")
Target: TypeAlias = int | float | list[int]


@dataclass(frozen=True, slots=True)
class LabelledText:
    """An example: a text or a pair, and its label where it is known, as the file has it."""

    text: str
    pair: str | None = None
    label: str | None = None
    where: str = "text"
    """File and line."""


@dataclass(frozen=True, slots=True)
class TextFeature:
    """The pieces of a text or a pair, or of a window of it, and what the model should say to them."""

    input_ids: list[int]
    token_type_ids: list[int]
    target: Target | None
    is_truncated: bool

    @property
    def num_tokens(self) -> int:
        """Tokens, [CLS] and [SEP] included."""
        return len(self.input_ids)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table hold the texts and the label."""

    text: Column
    pair: Column | None = None
    label: Column = "label"


@dataclass(frozen=True, kw_only=True)
class TextTask(Task[LabelledText, TextFeature, TargetBatch, PredictionT], Generic[PredictionT]):
    """A task on one text, or two."""

    long_texts: LongTexts = "truncate"
    """Cut a long text, as Google's code does for GLUE, or read it in windows and take the mean of their outputs."""

    def origin(self, example: LabelledText) -> Hashable:
        """Return the text, or both: what stands there twice is learned, or scored."""
        return example.text, example.pair

    @abstractmethod
    def target(self, example: LabelledText) -> Target:
        """Return what the model should say to an example that has a label.

        Raises:
            InputError: its label is none of the task's.
        """

    @abstractmethod
    def targets(self, targets: Sequence[Target | None]) -> Tensor:
        """Put the targets of a batch into a tensor, anything where one is not known."""

    def features(
        self, example: LabelledText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[TextFeature]:
        """Tokenize a text or a pair.

        Raises:
            InputError: its label is none of the task's.
        """
        target = None if example.label is None else self.target(example)
        sequences = sequences_of(
            tokenizer,
            example.text,
            example.pair,
            max_seq_length=max_seq_length,
            long_texts=self.long_texts,
        )
        return [
            TextFeature(sequence.input_ids, sequence.token_type_ids, target, sequence.is_truncated)
            for sequence in sequences
        ]

    def batch(self, features: Sequence[TextFeature]) -> TargetBatch:
        """Pack sequences in the order given."""
        packed = Packed.from_sequences(
            [feature.input_ids for feature in features], [feature.token_type_ids for feature in features]
        )
        return TargetBatch(packed, self.targets([feature.target for feature in features]))

    def outputs(self, logits: Tensor, batch: TargetBatch) -> list[Array]:
        """Return the row of logits [B, ...] that is each sequence's."""
        return list(logits.cpu().numpy())


@dataclass(frozen=True, kw_only=True)
class OwnTexts:
    """What tasks on your own data have in common: the columns are settings."""

    text_column: str = "text"
    pair_column: str | None = None
    """The second text, for tasks on pairs."""
    label_column: str = "label"

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[LabelledText]:
        """Read the rows of a table; without labels and with one text a row also a plain text, a text a line."""
        columns = Columns(self.text_column, self.pair_column, self.label_column)
        return read_texts(path, columns, labelled=labelled)


def read_texts(
    path: Place,
    columns: Columns,
    *,
    labelled: bool,
    header: Sequence[str] | None = None,
    skip_broken: bool = False,
    read_label: Callable[[Row, Column], str] = Row.required,
) -> Iterator[LabelledText]:
    """Read the rows of a table; without labels and with one text a row also a plain text, a text a line.

    Args:
        path: the file.
        columns: which hold what.
        labelled: whether labels are there and read.
        header: the names of the columns of a TSV whose first line is a row.
        skip_broken: leave out the rows of a TSV that have more or fewer cells than there are columns, if those are few.
        read_label: how a label becomes text; white space around that says nothing.

    Raises:
        InputError: a line is wrong.
    """
    if not (labelled or columns.pair or is_table(path)):
        check_is_text(path)
        yield from (LabelledText(line, where=where) for line, where in read_lines(path))
        return
    wanted = [columns.text]
    if columns.pair is not None:
        wanted.append(columns.pair)
    if labelled:
        wanted.append(columns.label)
    for row in read_rows(path, wanted, header=header, skip_broken=skip_broken):
        yield LabelledText(
            row.text(columns.text),
            None if columns.pair is None else row.text(columns.pair),
            read_label(row, columns.label).strip() if labelled else None,
            row.where,
        )


def score_of(example: LabelledText) -> float:
    """Return the label of an example as a number.

    Raises:
        InputError: it is none.
    """
    try:
        score = float(example.label or "")
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"score {example.label!r} is not a number", where=example.where)
    return score


def finite(value: Any) -> float:
    """Return a number of JSON as it is.

    Raises:
        TypeError, ValueError: it is none, or infinite, or NaN, or too large.
    """
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a number")
    return number
