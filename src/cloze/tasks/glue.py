"""The tasks of GLUE: fixed columns and labels.

They read the benchmark's own TSVs, without quote parsing, and JSON lines and Parquet, where labels may be numbers.

Source: Wang et al. 2018 (GLUE); gluebenchmark.com/tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from cloze.data.json_rows import as_text
from cloze.remote_files import PathOrUrl
from cloze.tasks.sequence_classification import ClassPrediction, SequenceClassification
from cloze.tasks.task import Task
from cloze.tasks.texts import Columns, LabeledRows, LabeledText, read_texts

ENTAILMENT = ("entailment", "not_entailment")


@dataclass(frozen=True, kw_only=True)
class GlueTexts(LabeledRows):
    """Mixin for tasks on texts with known columns."""

    columns: ClassVar[Columns]
    data_format: ClassVar[str] = "GLUE's TSV; also JSON lines or Parquet"

    @property
    def reads_pairs(self) -> bool:
        """Whether there is a column of second texts."""
        return self.columns.pair is not None

    @property
    def table_columns(self) -> Columns:
        """The columns of the texts and the label."""
        return self.columns

    def examples(self, path: PathOrUrl, *, labeled: bool = True) -> Iterator[LabeledText]:
        """Read the rows of a table."""
        return self.read_table(path, labeled=labeled)

    def read_table(
        self,
        path: PathOrUrl,
        *,
        labeled: bool,
        header: Sequence[str] | None = None,
        skip_broken: bool = False,
    ) -> Iterator[LabeledText]:
        """Read the rows of a table; `header` and `skip_broken` are those of `parse_rows`."""
        assert isinstance(self, Task)
        examples = read_texts(
            path,
            self.columns,
            labeled=labeled,
            header=header,
            skip_broken=skip_broken,
            read_label=self.read_label,
            leave_out=self.errors_left_out,
            keeps_numbers=self.keeps_numbers,
        )
        return self.with_plain_labels(examples) if labeled else examples


@dataclass(frozen=True, kw_only=True)
class GlueClassification(GlueTexts, SequenceClassification):
    """A classification task; the labels are in the order in which other programs number them."""

    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)

    labels: tuple[str, ...] = ("0", "1")

    def check_label(self, label: str, where: str) -> str:
        """Return the class of a label, which may be its number."""
        return super().check_label(self._label_name(label), where)

    def from_json(self, values: Mapping[str, Any]) -> ClassPrediction:
        """Read a label or its number; probabilities are optional."""
        label = as_text(values["label"])
        return super().from_json(values if label is None else {**values, "label": self._label_name(label)})

    def _label_name(self, label: str) -> str:
        """Return the name of a label that may be its number in the data set."""
        names = type(self)().labels  # a model of another program may have another order
        if label in names or not (label.isascii() and label.isdigit()):
            return label
        return names[int(label)] if int(label) < len(names) else label
