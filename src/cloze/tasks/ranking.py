"""Your own queries and passages, with how relevant each is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cloze.stores import Place
from cloze.tasks.passage_ranking import PassageRanking
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns, LabelledText, read_texts


@register_task("ranking")
@dataclass(frozen=True, kw_only=True)
class Ranking(PassageRanking):
    """The columns are settings; the passages of a query are those of all rows with its text."""

    data_format: ClassVar[str] = "TSV, CSV, JSON lines or Parquet: a query, a passage, its relevance from 0"
    source: ClassVar[str] = "your own data; Nogueira and Cho 2019"

    text_column: str = "query"
    pair_column: str = "passage"
    label_column: str = "label"

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[LabelledText]:
        """Read the rows of a table."""
        columns = Columns(self.text_column, self.pair_column, self.label_column)
        return read_texts(path, columns, labelled=labelled)
