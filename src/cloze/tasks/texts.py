"""Readers of texts, pairs of texts, and texts with choices, a row each."""

import re
import warnings
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from cloze.data.reading.columns import Column
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.memory import Data
from cloze.data.reading.source import ReadOptions
from cloze.data.reading.tables import Row
from cloze.errors import DataWarning, InputError
from cloze.tasks.reader import ID, GoldAnswers, RowReader, named_column

_NEGATIVE = re.compile(r"negative_[0-9]+")


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
        text, pair = (row.text(key) if key in row.cells else None for key in ("text", "pair"))
        return LabeledText(text or "", pair, gold, row.where, row=row.number, id=as_text(row.cells.get("id")))

    def to_score(self, source: Data, answer: GoldAnswers) -> Iterator[LabeledText]:
        options = self.options(answer, labeled=True)
        columns = tuple(
            replace(column, is_required=column.is_required and column.is_label) for column in options.columns
        )
        return (example for example, _ in self._read(source, answer, replace(options, columns=columns)))

    def group(self, example: LabeledText) -> Hashable:
        return example.text, example.pair


@dataclass(frozen=True, kw_only=True)
class PassageReader(TextReader):
    """A query and a passage a row; the candidates of a query are all rows with its text."""

    text_column: str = "query"
    pair_column: str | None = "passage"

    def to_score(self, source: Data, answer: GoldAnswers) -> Iterator[LabeledText]:
        """Read all columns: passages of one query are ranked together."""
        return self.examples(source, answer)

    def group(self, example: LabeledText) -> Hashable:
        return example.text


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

    def examples(self, source: Data, answer: GoldAnswers, *, labeled: bool = True) -> Iterator[LabeledText]:
        labels = set()
        for example in super().examples(source, answer, labeled=labeled):
            labels.add(example.gold)
            yield replace(example, gold=None)
        if len(labels) > 1:
            what = "the column 'label' or 'score' is not used: in every row the two texts are taken to belong together"
            remedy = "The tasks ranking and scored-pairs learn from it"
            warnings.warn(DataWarning(f"{source}: {what}. {remedy}"), stacklevel=2)

    def to_score(self, source: Data, answer: GoldAnswers) -> Iterator[LabeledText]:
        """Read all columns: the candidates of a text are the second texts of the data."""
        return self.examples(source, answer)

    def options(self, answer: GoldAnswers, *, labeled: bool) -> ReadOptions:
        is_further = labeled and self.negative_column is None
        return replace(
            super().options(answer, labeled=labeled),
            is_also_read=lambda name: is_further and _NEGATIVE.fullmatch(name) is not None,
        )

    def example(self, row: Row, gold: Any) -> LabeledText:
        text, pair = map(row.required if row.labeled else row.text, ("text", "pair"))
        columns = [key for key in row.cells if key not in ("text", "pair", "label", "id")]
        negatives = tuple(negative for key in columns for negative in _negatives(row, key))
        if pair in negatives:
            what = f"{pair!r} is both the second text and among the negatives"
            raise InputError(what, where=row.where, remedy="Give another negative, or leave its cell empty")
        return LabeledText(text, pair, as_text(row.cells.get("label")), row.where, negatives, row=row.number)


def _negatives(row: Row, column: str) -> list[str]:
    """Return the texts of a cell of hard negatives."""
    cell = row.cells[column]
    texts = row.texts(column) if isinstance(cell, list) else [] if cell is None else [row.text(column)]
    return [text for text in texts if text.strip()]


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
