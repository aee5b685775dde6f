"""STS-B: how much do these two sentences mean the same, from 0 to 5?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cloze.stores import Place
from cloze.tasks.registry import register_task
from cloze.tasks.text_regression import TextRegression
from cloze.tasks.texts import Columns, LabelledText, read_texts


@register_task("stsb")
@dataclass(frozen=True, kw_only=True)
class STSB(TextRegression):
    """Two sentences from news, captions and forums, and the mean of what people said."""

    data_format: ClassVar[str] = "GLUE's TSV; also JSON lines or Parquet"
    source: ClassVar[str] = "Cer et al. 2017; GLUE"

    minimum: float | None = 0.0
    maximum: float | None = 5.0

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[LabelledText]:
        """Read the rows of a table."""
        columns = Columns("sentence1", "sentence2", ("score", "label"))
        return read_texts(path, columns, labelled=labelled)
