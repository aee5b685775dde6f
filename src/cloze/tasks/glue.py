"""What GLUE's classification tasks have in common: columns and labels that the benchmark fixed.

Each reads the benchmark's own TSVs (never quote-parsed) and the JSON lines and Parquet files that others made of
them, whose labels are numbers.

Source: Wang et al. 2018 (GLUE); gluebenchmark.com/tasks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from cloze.stores import Place
from cloze.tasks.sequence_classification import Prediction, SequenceClassification
from cloze.tasks.tables import as_text
from cloze.tasks.texts import Columns, LabelledText, read_texts

ENTAILMENT = ("entailment", "not_entailment")


@dataclass(frozen=True, kw_only=True)
class GlueClassification(SequenceClassification):
    """A task whose columns are known; labels stand in the order in which other programs number them."""

    columns: ClassVar[Columns]
    data_format: ClassVar[str] = "GLUE's TSV; also JSON lines or Parquet"

    labels: tuple[str, ...] = ("0", "1")

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[LabelledText]:
        """Read the rows of a table."""
        for example in self._rows(path, labelled=labelled):
            yield replace(example, label=self._named(example.label))

    def from_json(self, values: Mapping[str, Any]) -> Prediction:
        """Read the label, or its number; probabilities may be missing."""
        return super().from_json({**values, "label": self._named(as_text(values["label"]))})

    def _rows(self, path: Place, *, labelled: bool) -> Iterator[LabelledText]:
        return read_texts(path, self.columns, labelled=labelled)

    def _named(self, label: str | None) -> str | None:
        """Return the name of a label that may be its number in the data set."""
        names = type(self)().labels  # a model of another program may have another order
        is_number = label is not None and label.isascii() and label.isdigit() and label not in names
        return names[int(label)] if label is not None and is_number and int(label) < len(names) else label
