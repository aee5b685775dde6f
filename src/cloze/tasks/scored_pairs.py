"""Your own pairs of texts, with a score of how alike they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cloze.stores import Place
from cloze.tasks.registry import register_task
from cloze.tasks.sentence_vectors import SentenceVectors
from cloze.tasks.texts import Columns, LabelledText, read_texts


@register_task("scored-pairs")
@dataclass(frozen=True, kw_only=True)
class ScoredPairs(SentenceVectors):
    """The columns are settings."""

    data_format: ClassVar[str] = "TSV, CSV, JSON lines or Parquet: two texts and a number"
    source: ClassVar[str] = "your own data; Reimers and Gurevych 2019, 3"

    text_column: str = "text"
    pair_column: str = "pair"
    label_column: str = "score"

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[LabelledText]:
        """Read the rows of a table."""
        columns = Columns(self.text_column, self.pair_column, self.label_column)
        return read_texts(path, columns, labelled=labelled)
