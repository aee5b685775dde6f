"""The interface of a reader: which columns data have, and what example a row is."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from cloze.choices import AnnotationFormat, Clean
from cloze.data.reading.columns import Column, Kind
from cloze.data.reading.formats import open_source
from cloze.data.reading.memory import Data
from cloze.data.reading.source import ReadOptions
from cloze.data.reading.tables import Row, parse_rows
from cloze.errors import DataWarning, InputError

ExampleT = TypeVar("ExampleT")

ID = Column("id", "other", is_required=False)


def named_column(setting: str, names: str, *, kind: Kind = "text", key: str | None = None) -> Column:
    """Return the column of a setting: a name, or several between | of which the first that data have is read."""
    key = key or setting.removesuffix("_column")
    return Column(key, kind, tuple(names.split("|")), setting=setting, flag=f"`{setting}=NAME`")


class GoldAnswers(Protocol):
    """What a reader asks of a kind of answer: how its gold answers are written."""

    @property
    def errors_left_out(self) -> tuple[type[InputError], ...]:
        """The kinds of errors whose rows are left out and counted."""

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
        """Return the example of a row with its gold answer, None if it is not read.

        Raises:
            InputError: a cell is invalid.
        """

    def options(self, answer: GoldAnswers, *, labeled: bool) -> ReadOptions:
        """Return how data are read: their columns in the order of tuples, and more."""
        columns = (*self.columns(), *answer.columns())
        columns = tuple(column for column in columns if labeled or not column.is_label)
        num_texts = sum(column.kind in ("text", "texts") for column in columns)
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
            can_name_columns=True,
            leave_out=(InputError,) if self.skip_bad_rows else answer.errors_left_out,
        )

    def examples(self, source: Data, answer: GoldAnswers, *, labeled: bool = True) -> Iterator[ExampleT]:
        """Read the examples of a source; unless `labeled`, gold answers are ignored and may be missing."""
        options = self.options(answer, labeled=labeled)
        return (example for example, _ in self._read(source, answer, options))

    def with_cells(self, source: Data, answer: GoldAnswers) -> Iterator[tuple[ExampleT, Mapping[str, Any]]]:
        """Read unlabeled examples, each with the cells of other columns by name; without any if there are none."""
        options = replace(self.options(answer, labeled=False), keeps_others=True)
        return ((example, row.others) for example, row in self._read(source, answer, options))

    def to_score(self, source: Data, answer: GoldAnswers) -> Iterator[ExampleT]:
        """Read labeled examples to score the predictions of a file; their texts may be missing."""
        return self.examples(source, answer)

    def group(self, example: ExampleT) -> Hashable:
        """Return the source text of an example; held-out dev data share none with the training data.

        None: the example is a group of its own.
        """
        return None

    def _read(self, data: Data, answer: GoldAnswers, options: ReadOptions) -> Iterator[tuple[ExampleT, Row]]:
        texts = [column.key for column in options.columns if column.kind == "text" and column.is_required]
        empty = []

        def parse(row: Row) -> tuple[ExampleT, Row]:
            example = self.example(row, answer.read(row) if row.labeled else None)
            if row.labeled and not all(row.text(key).strip() for key in texts):
                empty.append(row.where)
            return example, row

        yield from parse_rows(open_source(data, options), parse)
        if empty:
            what = f"the text of a labeled row is empty (the first of {len(empty):,})"
            warnings.warn(DataWarning(f"{empty[0]}: {what}"), stacklevel=2)
