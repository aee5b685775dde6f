"""QQP: do these two questions ask the same?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cloze.stores import Place
from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns, LabelledText, read_texts


@register_task("qqp")
@dataclass(frozen=True, kw_only=True)
class QQP(GlueClassification):
    """Two questions from Quora, 1 where they are duplicates."""

    data_format: ClassVar[str] = (
        "GLUE's TSV, without the few rows that a line end broke; also JSON lines or Parquet"
    )
    source: ClassVar[str] = "Quora Question Pairs; GLUE"
    columns: ClassVar[Columns] = Columns("question1", "question2", ("is_duplicate", "label"))
    main_metric: ClassVar[str] = "f1"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "accuracy")
    libraries: ClassVar[tuple[str, ...]] = ("sklearn",)

    def _rows(self, path: Place, *, labelled: bool) -> Iterator[LabelledText]:
        return read_texts(path, self.columns, labelled=labelled, skip_broken=labelled)
