"""Your own texts, or pairs of texts, with a label each, told by the vectors of a frozen encoder."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cloze.stores import Place
from cloze.tasks.feature_classification import FeatureClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns, LabelledText, read_texts


@register_task("feature-classification")
@dataclass(frozen=True, kw_only=True)
class FeatureClasses(FeatureClassification):
    """The columns are settings; the labels are found in the training data."""

    data_format: ClassVar[str] = "TSV, CSV, JSON lines or Parquet: a text, or two, and a label"
    source: ClassVar[str] = "your own data; Devlin et al. 2019, 5.3, with a linear model"

    text_column: str = "text"
    pair_column: str | None = None
    """The second text, for tasks on pairs."""
    label_column: str = "label"

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[LabelledText]:
        """Read the rows of a table; without labels also a plain text, a text a line."""
        columns = Columns(self.text_column, self.pair_column, self.label_column)
        return read_texts(path, columns, labelled=labelled)
