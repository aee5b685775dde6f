"""Your own pairs of texts, with a score of how alike they are."""

from dataclasses import dataclass
from typing import ClassVar

from cloze.tasks.registry import register_task
from cloze.tasks.sentence_vectors import SentenceVectors
from cloze.tasks.texts import OwnTexts


@register_task("scored-pairs")
@dataclass(frozen=True, kw_only=True)
class ScoredPairs(OwnTexts, SentenceVectors):
    """Each pair has a score."""

    data_format: ClassVar[str] = "TSV, CSV, JSON lines or Parquet: two texts and a number"
    source: ClassVar[str] = "your own data; Reimers and Gurevych 2019, 3"

    pair_column: str = "pair"
    label_column: str = "score"
