"""STS-B by vectors: the cosine of two sentences that the model never sees together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cloze.stores import Place
from cloze.tasks.registry import register_task
from cloze.tasks.sentence_vectors import SentenceVectors
from cloze.tasks.texts import Columns, LabelledText, read_texts


@register_task("stsb-vectors")
@dataclass(frozen=True, kw_only=True)
class STSBVectors(SentenceVectors):
    """STS-B's pairs, from 0 to 5."""

    data_format: ClassVar[str] = "GLUE's TSV; also JSON lines or Parquet"
    source: ClassVar[str] = "Cer et al. 2017; Reimers and Gurevych 2019, 4.2"

    minimum: float | None = 0.0
    maximum: float | None = 5.0

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[LabelledText]:
        """Read the rows of a table."""
        columns = Columns("sentence1", "sentence2", ("score", "label"))
        return read_texts(path, columns, labelled=labelled)
