"""Your own texts, or pairs of texts, with a label each: a TSV, CSV or JSON lines file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cloze.tasks.registry import register_task
from cloze.tasks.sequence_classification import LabelledText, SequenceClassification
from cloze.tasks.tables import is_table, read_lines, read_rows


@register_task("classification")
@dataclass(frozen=True, kw_only=True)
class Classification(SequenceClassification):
    """The columns are settings; the labels are found in the training data."""

    data_format: ClassVar[str] = "TSV, CSV or JSON lines: a text (or two) and a label"
    source: ClassVar[str] = "your own data; Devlin et al. 2019, 4.1"

    text_column: str = "text"
    pair_column: str | None = None
    """The second text, for tasks on pairs."""
    label_column: str = "label"

    def examples(self, path: Path, *, labelled: bool = True) -> Iterator[LabelledText]:
        """Read the rows of a table; without labels also a plain text, a text a line."""
        if not labelled and not is_table(path):
            yield from (LabelledText(line, where=where) for line, where in read_lines(path))
            return
        columns = [column for column in (self.text_column, self.pair_column) if column is not None]
        for row in read_rows(path, [*columns, self.label_column] if labelled else columns):
            yield LabelledText(
                row.cells[self.text_column],
                None if self.pair_column is None else row.cells[self.pair_column],
                row.required(self.label_column) if labelled else None,
                row.where,
            )
