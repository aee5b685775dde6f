"""Your own queries and passages, with how relevant each is."""

from dataclasses import dataclass
from typing import ClassVar

from cloze.tasks.passage_ranking import PassageRanking
from cloze.tasks.registry import register_task
from cloze.tasks.texts import OwnTexts


@register_task("ranking")
@dataclass(frozen=True, kw_only=True)
class Ranking(OwnTexts, PassageRanking):
    """The passages of a query are those of all rows with its text."""

    data_format: ClassVar[str] = "TSV, CSV, JSON lines or Parquet: a query, a passage, its relevance from 0"
    source: ClassVar[str] = "your own data; Nogueira and Cho 2019"

    text_column: str = "query"
    pair_column: str = "passage"
