"""The tasks of GLUE: fixed columns and labels.

They read the benchmark's own TSVs, without quote parsing, and JSON lines and Parquet, where labels may be numbers.

Source: Wang et al. 2018 (GLUE); gluebenchmark.com/tasks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from cloze.data.tables import as_text
from cloze.remote_files import PathOrUrl
from cloze.tasks.sequence_classification import ClassPrediction, SequenceClassification
from cloze.tasks.texts import Columns, LabeledText, read_texts

ENTAILMENT = ("entailment", "not_entailment")


@dataclass(frozen=True, kw_only=True)
class GlueTexts:
    """Mixin for tasks on texts with known columns."""

    columns: ClassVar[Columns]
    data_format: ClassVar[str] = "GLUE's TSV; also JSON lines or Parquet"

    def examples(self, path: PathOrUrl, *, labeled: bool = True) -> Iterator[LabeledText]:
        """Read the rows of a table."""
        return read_texts(path, self.columns, labeled=labeled)


@dataclass(frozen=True, kw_only=True)
class GlueClassification(GlueTexts, SequenceClassification):
    """A classification task; the labels are in the order in which other programs number them."""

    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)

    labels: tuple[str, ...] = ("0", "1")

    def examples(self, path: PathOrUrl, *, labeled: bool = True) -> Iterator[LabeledText]:
        """Read the rows of a table, and replace the numbers of labels by their names."""
        for example in self.rows(path, labeled=labeled):
            yield replace(example, label=self._label_name(example.label))

    def rows(self, path: PathOrUrl, *, labeled: bool) -> Iterator[LabeledText]:
        """Read the rows of a table, with labels as in the file."""
        return super().examples(path, labeled=labeled)

    def from_json(self, values: Mapping[str, Any]) -> ClassPrediction:
        """Read a label or its number; probabilities are optional."""
        return super().from_json({**values, "label": self._label_name(as_text(values["label"]))})

    def _label_name(self, label: str | None) -> str | None:
        """Return the name of a label that may be its number in the data set."""
        names = type(self)().labels  # a model of another program may have another order
        if label is None or label in names or not (label.isascii() and label.isdigit()):
            return label
        return names[int(label)] if int(label) < len(names) else label
