"""Readers of rows: which columns data have, and what example a row is; for texts, pairs, and texts with choices."""

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from cloze.choices import AnnotationFormat, Clean
from cloze.data.reading.bad_rows import MissingLabelError
from cloze.data.reading.columns import Column, Kind
from cloze.data.reading.formats import open_source
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.memory import Data
from cloze.data.reading.source import ReadOptions
from cloze.data.reading.tables import Row, parse_rows
from cloze.errors import DataWarning, InputError

_NEGATIVE = re.compile(r"negative_[0-9]+")
ExampleT = TypeVar("ExampleT")

ID = Column("id", "other", is_required=False)


def named_column(setting: str, names: str, *, kind: Kind = "text", key: str | None = None) -> Column:
    """Return the column of a setting: a name, or several between | of which the first that data have is read."""
    key = key or setting.removesuffix("_column")
    return Column(key, kind, tuple(names.split("|")), setting=setting, flag=f"`{setting}=NAME`")


class GoldAnswers(Protocol):
    """What a reader asks of a kind of answer: how its gold answers are written."""

    def columns(self) -> tuple[Column, ...]:
        """Return the columns of gold answers."""

    def read(self, row: Row) -> Any:
        """Return the gold answer of a labeled row."""

    def keeps_numbers(self, column: str, names: Sequence[str]) -> bool:
        """Return whether a column whose classes Parquet or Arrow name is read as numbers."""


@dataclass(frozen=True, kw_only=True)
class RowReader(ABC, Generic[ExampleT]):
    """A frozen dataclass whose fields are settings that say how data are written; an example is a row of a table."""

    header: ClassVar[tuple[str, ...]] = ()
    """The names of the columns of a TSV whose first line may be a row."""
    skips_broken_rows: ClassVar[bool] = False
    """Whether a few labeled rows with more or fewer cells than columns are left out."""
    file_settings: ClassVar[tuple[str, ...]] = ("encoding", "clean", "column_names")
    """Settings that a checkpoint does not keep for other files."""

    encoding: str | None = None
    """Encoding of text files, as in latin-1, cp1252 or utf-16 (default: utf-8)."""
    column_names: tuple[str, ...] = ()
    """Names of the columns of a TSV or CSV whose first line is a row, in its order."""
    skip_bad_rows: bool = False
    """Leave out and count rows that cannot be read, instead of refusing the file."""
    format: AnnotationFormat | None = None
    """Annotation tool that exported the data: argilla, doccano, label-studio or prodigy; detected in JSON alone."""
    clean: Clean | None = None
    """pdf joins words divided at line ends and removes ligatures and soft hyphens in texts, as PDFs leave them."""

    @property
    def reads_pairs(self) -> bool | None:
        """Whether each example is a pair of texts, or a single one; None for examples of another form."""
        return None

    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that the model reads, in the order of tuples."""

    @abstractmethod
    def example(self, row: Row, gold: Any) -> ExampleT:
        """Return the example of a row with its gold answer, None if it is not read."""

    def options(self, answer: GoldAnswers, *, labeled: bool) -> ReadOptions:
        """Return how data are read: their columns in the order of tuples, and more."""
        columns = (*self.columns(), *answer.columns())
        columns = tuple(column for column in columns if labeled or not column.is_label)
        num_texts = sum(column.kind in ("text", "texts") for column in columns)
        drops_unlabeled = getattr(answer, "missing_labels", None) == "drop"
        return ReadOptions(
            reader="texts" if num_texts == 1 and not labeled else "rows",
            columns=columns,
            header=self.header,
            format=self.format,
            keeps_numbers=answer.keeps_numbers,
            labeled=labeled,
            skip_broken=self.skips_broken_rows and labeled,
            encoding=self.encoding,
            clean=self.clean,
            column_names=self.column_names,
            leave_out=(InputError,) if self.skip_bad_rows else (MissingLabelError,) * drops_unlabeled,
        )

    def group(self, example: ExampleT) -> Hashable:
        """Return the source text of an example; held-out dev data share none with the training data.

        None: the example is a group of its own.
        """
        return None

    def key(self, example: ExampleT) -> Hashable:
        """Return everything that the model reads of an example, equal for copies; None if copies are unknown."""
        return self.group(example)

    def read(
        self, source: Data, answer: GoldAnswers, *, labeled: bool = True, keeps_others: bool = False
    ) -> Iterator[tuple[ExampleT, Mapping[str, Any]]]:
        """Yield the examples of a source, each with the cells of other columns by name if they are kept.

        Args:
            labeled: otherwise gold answers are ignored and may be missing.
        """
        options = replace(self.options(answer, labeled=labeled), keeps_others=keeps_others)
        texts = [column.key for column in options.columns if column.kind == "text" and column.is_required]
        empty = []

        def parse(row: Row) -> tuple[ExampleT, Mapping[str, Any]]:
            example = self.example(row, answer.read(row) if row.labeled else None)
            if row.labeled and not all(row.text(key).strip() for key in texts):
                empty.append(row.where)
            return example, row.others if keeps_others else {}

        yield from parse_rows(open_source(source, options), parse)
        if empty:
            what = f"the text of a labeled row is empty (the first of {len(empty):,})"
            warnings.warn(DataWarning(f"{empty[0]}: {what}"), stacklevel=2)


@dataclass(frozen=True, slots=True)
class LabeledText:
    """An example: a text or a pair, and its gold answer where it is known."""

    text: str
    pair: str | None = None
    gold: Any = None
    """A label, a frozenset of labels, or a number."""
    where: str = "text"
    """File and line."""
    negatives: tuple[str, ...] = ()
    """Texts that do not belong to the first one."""
    row: int | None = field(default=None, kw_only=True, compare=False)
    """Row of the table, or line of the text, from 1."""
    id: str | None = field(default=None, kw_only=True, compare=False)
    """From the column `id`, if the table has one."""


Texts: TypeAlias = Sequence[LabeledText]


@dataclass(frozen=True, kw_only=True)
class TextReader(RowReader[LabeledText]):
    """A text or a pair a row."""

    text_column: str = "text"
    """Column of the text; of several names between | the first that data have."""
    pair_column: str | None = None
    """Column of the second text, for tasks on pairs."""

    @property
    def reads_pairs(self) -> bool:
        return self.pair_column is not None

    def columns(self) -> tuple[Column, ...]:
        pair = () if self.pair_column is None else (named_column("pair_column", self.pair_column),)
        return (named_column("text_column", self.text_column), *pair, ID)

    def example(self, row: Row, gold: Any) -> LabeledText:
        pair = row.text("pair") if "pair" in row.cells else None
        return LabeledText(
            row.text("text"), pair, gold, row.where, row=row.number, id=as_text(row.cells.get("id"))
        )

    def group(self, example: LabeledText) -> Hashable:
        return self.key(example)[:2]

    def key(self, example: LabeledText) -> tuple[Hashable, ...]:
        # files of two systems differ in the line ends within a cell
        texts = (text and text.replace("\r\n", "\n") for text in (example.text, example.pair))
        return *texts, example.negatives


@dataclass(frozen=True, kw_only=True)
class PassageReader(TextReader):
    """A query and a passage a row; the candidates of a query are all rows with its text."""

    text_column: str = "query"
    pair_column: str | None = "passage"

    def group(self, example: LabeledText) -> Hashable:
        return self.key(example)[0]


@dataclass(frozen=True, kw_only=True)
class TripletReader(TextReader):
    """A pair of texts that belong together a row, and in labeled data hard negatives of the first one."""

    text_column: str = "text|anchor|sentence1"
    pair_column: str | None = "pair|positive|sentence2"
    negative_column: str | None = None
    """Column of hard negatives; None takes the columns negative, negative_1, negative_2, … of data that have them.

    A cell is a text or a list of texts; an empty one is no text."""

    def columns(self) -> tuple[Column, ...]:
        columns = (*super().columns(), Column("label", "label", ("label", "score"), is_required=False))
        if self.negative_column is not None:
            return (*columns, named_column("negative_column", self.negative_column, kind="label"))
        return (*columns, Column("negative", "texts", is_required=False))

    def options(self, answer: GoldAnswers, *, labeled: bool) -> ReadOptions:
        is_further = labeled and self.negative_column is None
        return replace(
            super().options(answer, labeled=labeled),
            is_also_read=lambda name: is_further and _NEGATIVE.fullmatch(name) is not None,
        )

    def read(
        self, source: Data, answer: GoldAnswers, **how: bool
    ) -> Iterator[tuple[LabeledText, Mapping[str, Any]]]:
        labels = set()
        for example, others in super().read(source, answer, **how):
            labels.add(example.gold)
            yield replace(example, gold=None), others
        if len(labels) > 1:
            what = "the column 'label' or 'score' is not used: in every row the two texts are taken to belong together"
            remedy = "The tasks ranking and scored-pairs learn from it"
            warnings.warn(DataWarning(f"{source}: {what}. {remedy}"), stacklevel=2)

    def example(self, row: Row, gold: Any) -> LabeledText:
        text, pair = map(row.required if row.labeled else row.text, ("text", "pair"))
        negatives: tuple[str, ...] = ()
        for key, cell in row.cells.items():
            if key not in ("text", "pair", "label", "id") and cell is not None:
                texts = row.texts(key) if isinstance(cell, list) else [row.text(key)]
                negatives += tuple(text for text in texts if text.strip())
        if pair in negatives:
            what = f"{pair!r} is both the second text and among the negatives"
            raise InputError(what, where=row.where, remedy="Give another negative, or leave its cell empty")
        return LabeledText(text, pair, as_text(row.cells.get("label")), row.where, negatives, row=row.number)


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """An example: a prompt, its possible continuations, and the index of the right one where it is known."""

    prompt: str
    choices: tuple[str, ...]
    gold: int | None
    where: str
    """File and line."""
    row: int | None = field(default=None, kw_only=True, compare=False)
    """Row of the table, from 1."""


@dataclass(frozen=True, kw_only=True)
class ChoiceReader(RowReader[ChoiceQuestion]):
    """A prompt with any number of choices a row."""

    text_column: str = "prompt"
    """Column of the prompt."""
    choices_column: str = "choices"
    """A list of texts; in TSV and CSV as JSON in one cell."""
    choice_columns: tuple[str, ...] = ()
    """One column per choice, as in TSV and CSV, instead of `choices_column`."""

    def columns(self) -> tuple[Column, ...]:
        prompt = named_column("text_column", self.text_column, key="prompt")
        if not self.choice_columns:
            return prompt, named_column("choices_column", self.choices_column, kind="texts")
        return prompt, *(Column(name, setting="choice_columns") for name in self.choice_columns)

    def choices(self, row: Row) -> list[str]:
        return [row.text(column) for column in self.choice_columns] or row.texts("choices")

    def example(self, row: Row, gold: Any) -> ChoiceQuestion:
        choices = tuple(self.choices(row))
        if len(choices) < 2:
            raise InputError(f"{len(choices)} choices: give two at least", where=row.where)
        if gold is not None and gold >= len(choices):
            what = f"label {gold} is not the number of a choice"
            raise InputError(what, where=row.where, remedy=f"There are {len(choices)}, counted from 0")
        return ChoiceQuestion(row.text("prompt"), choices, gold, row.where, row=row.number)

    def group(self, example: ChoiceQuestion) -> Hashable:
        return example.prompt, example.choices
