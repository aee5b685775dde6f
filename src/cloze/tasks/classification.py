"""Your own texts, or pairs of texts, with a label each: a TSV, CSV or JSON lines file."""

from dataclasses import dataclass
from pathlib import Path

from cloze.tasks.registry import register_task
from cloze.tasks.sequence_classification import LabelledText, SequenceClassification
from cloze.tasks.tables import read_rows


@register_task("classification")
@dataclass(frozen=True, kw_only=True)
class Classification(SequenceClassification):
    """The columns are settings; the labels are found in the training data."""

    text_column: str = "text"
    pair_column: str | None = None
    """The second text, for tasks on pairs."""
    label_column: str = "label"

    def examples(self, path: Path) -> list[LabelledText]:
        """Read the rows of a table."""
        texts = [self.text_column] if self.pair_column is None else [self.text_column, self.pair_column]
        return [
            LabelledText(
                row.cells[self.text_column],
                None if self.pair_column is None else row.cells[self.pair_column],
                row.required(self.label_column),
                row.where,
            )
            for row in read_rows(path, [*texts, self.label_column])
        ]
