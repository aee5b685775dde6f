"""Tasks whose examples are rows of tables, and those with a column of labels."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic

from cloze.choices import AnnotationFormat, Clean, MissingLabels
from cloze.data.reading.annotations import unwrap_labels
from cloze.data.reading.bad_rows import MissingLabelError
from cloze.data.reading.columns import Column
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.memory import Source
from cloze.data.reading.table_files import RawTable
from cloze.data.reading.tables import Row, TableConfig, parse_rows
from cloze.errors import DataWarning, InputError
from cloze.tasks.labels import PLACEHOLDERS, plain_label
from cloze.tasks.task import ExampleT, PredictionT, Task
from cloze.tasks.task_batch import FeatureT

ID = Column("id", "other", is_required=False)
_FLAGS = {"text_column": "`text_column=NAME`", "label_column": "`label_column=NAME`"}
"""The flags of settings that name columns."""


@dataclass(frozen=True, kw_only=True)
class TableTask(Task[ExampleT, FeatureT, PredictionT], Generic[ExampleT, FeatureT, PredictionT]):
    """A task whose examples are the rows of a table."""

    columns: ClassVar[tuple[Column, ...]]
    header: ClassVar[tuple[str, ...]] = ()
    """The names of the columns of a TSV whose first line may be a row."""

    encoding: str | None = None
    """Encoding of text files, as in latin-1, cp1252 or utf-16 (default: utf-8)."""
    column_names: tuple[str, ...] = ()
    """Names of the columns of a TSV or CSV whose first line is a row, in its order."""

    def named_columns(self) -> tuple[Column, ...]:
        """Return the columns as the settings name them; one that a setting names None is left out."""
        named = []
        for column in self.columns:
            if column.setting is None:
                named.append(column)
            elif (name := getattr(self, column.setting)) is not None:
                names = column.names if name == column.names[0] else (name,)
                flag = _FLAGS.get(column.setting, f"`{self.name}.{column.setting}=NAME`")
                named.append(replace(column, names=names, flag=flag))
        return tuple(named)

    def table(self, *, labeled: bool) -> TableConfig:
        """Return how tables are read; unlabeled data with a single text may be plain text."""
        columns = self.named_columns()
        num_texts = sum(column.kind in ("text", "texts") for column in columns)
        return TableConfig(
            columns=tuple(column for column in columns if labeled or not column.is_label),
            header=self.header,
            encoding=self.encoding,
            column_names=self.column_names,
            can_name_columns=True,
            labeled=labeled,
            may_be_lines=not labeled and num_texts == 1,
        )

    def open_rows(self, source: Source, *, labeled: bool) -> RawTable | None:
        """Open data of another form than a table; None for a table."""
        return None

    @abstractmethod
    def example(self, row: Row) -> ExampleT:
        """Return the example of a row; a row of unlabeled data has no cell of a label.

        Raises:
            InputError: a cell is invalid.
        """

    def with_plain_labels(self, examples: Iterator[ExampleT]) -> Iterator[ExampleT]:
        """Return the labeled examples of a file with labels in one notation, which all of them together show.

        Raises:
            InputError: they may mean several things.
        """
        return examples

    def examples(self, source: Source, *, labeled: bool = True) -> Iterator[ExampleT]:
        """Read the examples of a table, those with one text and no label also of plain text."""
        return self.read_table(source, self.table(labeled=labeled))

    def examples_with_cells(self, source: Source) -> Iterator[tuple[ExampleT, Mapping[str, Any]]]:
        """Read unlabeled examples, each with the cells of other columns by name."""
        return self._read_rows(source, replace(self.table(labeled=False), keeps_others=True))

    def read_table(self, source: Source, table: TableConfig) -> Iterator[ExampleT]:
        """Read the examples of a table, whose labels have one notation."""
        examples = (example for example, _ in self._read_rows(source, table))
        yield from self.with_plain_labels(examples) if table.labeled else examples

    def _read_rows(self, source: Source, table: TableConfig) -> Iterator[tuple[ExampleT, Mapping[str, Any]]]:
        """Read examples with the other cells, and warn of labeled ones without a text, if the user named its column."""
        named_texts = [c.key for c in table.columns if c.kind == "text" and c.setting and c.is_required]
        without_text = []

        def parse(row: Row) -> tuple[ExampleT, Mapping[str, Any]]:
            example = self.example(row)
            if row.labeled and any(not row.text(key).strip() for key in named_texts):
                without_text.append(row.where)
            return example, row.others

        yield from parse_rows(source, table, parse, self.open_rows(source, labeled=table.labeled))
        if without_text:
            warning = (
                f"{without_text[0]}: the text of a labeled row is empty (the first of {len(without_text):,})"
            )
            warnings.warn(DataWarning(warning), stacklevel=2)


@dataclass(frozen=True, kw_only=True)
class LabeledTask(TableTask[ExampleT, FeatureT, PredictionT], Generic[ExampleT, FeatureT, PredictionT]):
    """A task on tables with a column of labels, with settings for rows that cannot be used."""

    missing_labels: MissingLabels = "refuse"
    """Refuse rows without a label, or drop and count them, with those whose label is a placeholder such as n/a or -."""
    skip_bad_rows: bool = False
    """Leave out and count rows that cannot be read, instead of refusing the file."""
    format: AnnotationFormat | None = None
    """Annotation tool that exported the data: argilla, doccano, label-studio or prodigy; detected in JSON alone."""
    clean: Clean | None = None
    """pdf joins words divided at line ends and removes ligatures and soft hyphens in texts, as PDFs leave them."""

    def table(self, *, labeled: bool) -> TableConfig:
        """Return how tables are read, and which bad rows are left out."""
        table = super().table(labeled=labeled)
        return replace(
            table,
            format=self.format,
            clean=self.clean,
            keeps_numbers=self._keeps_numbers,
            leave_out=self.errors_left_out,
        )

    @property
    def errors_left_out(self) -> tuple[type[InputError], ...]:
        """The kinds of errors whose rows are left out."""
        if self.skip_bad_rows:
            return (InputError,)
        return (MissingLabelError,) if self.missing_labels == "drop" else ()

    def _keeps_numbers(self, column: str, names: Sequence[str]) -> bool:
        """Return whether a column has labels that are numbers, as choices are, or has no name of the task's labels."""
        labels: Sequence[str] | None = getattr(self, "labels", None)
        kinds = {name: asked.kind for asked in self.named_columns() for name in asked.names}
        if kinds.get(column) != "label" or labels is None:
            return kinds.get(column) in ("label", "flag")
        return bool(labels) and not {*labels} & {*map(plain_label, names), *names}

    def check_label(self, label: str, where: str) -> str:
        """Return a label of a table as the task names it.

        Raises:
            InputError: the task cannot have it.
        """
        return label

    def read_label(self, row: Row) -> str:
        """Return the label of a row, as the task names it."""
        name, value = row.name("label"), unwrap_labels(row.cells["label"])
        if isinstance(value, list) and len(value) > 1:
            what = f"{name!r} is a list of {len(value)}"
            raise InputError(what, where=row.where, remedy="The task multi-label learns lists of labels")
        if isinstance(value, list):  # as annotation tools write one label
            value = value[0] if value else None
        is_null = value is None or (isinstance(value, float) and math.isnan(value))
        label = "" if is_null else (as_text(value) or row.text("label")).strip()
        is_placeholder = label in PLACEHOLDERS and label not in (getattr(self, "labels", None) or ())
        if not label or (is_placeholder and self.missing_labels == "drop"):
            what = (
                f"{name!r} is {label!r}, a placeholder and not a label"
                if label
                else f"the cell {name!r} is empty"
            )
            raise MissingLabelError(
                what, where=row.where, remedy="`missing_labels=drop` leaves out such rows"
            )
        return self.check_label(label, row.where)
