"""SWAG: what happens next?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from cloze.stores import Place
from cloze.tasks.multiple_choice import MultipleChoice, Question, question
from cloze.tasks.registry import register_task
from cloze.tasks.tables import read_rows
from cloze.tasks.task import Split

_ENDINGS = ("ending0", "ending1", "ending2", "ending3")


@register_task("swag")
@dataclass(frozen=True, kw_only=True)
class SWAG(MultipleChoice):
    """A sentence about a video and the beginning of the next one, which four endings complete.

    The first sentence is one segment, the second with an ending the other.
    """

    data_format: ClassVar[str] = "CSV: sent1, sent2, ending0 to ending3, label; also JSON lines or Parquet"
    source: ClassVar[str] = "Zellers et al. 2018; Devlin et al. 2019, 4.4"
    defaults: ClassVar[tuple[str, ...]] = ("batch_size=16", "optimizer.learning_rate=2e-5")
    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = MappingProxyType(
        {"train": ("train.csv",), "dev": ("val.csv",)}
    )

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[Question]:
        """Read the rows of a table."""
        wanted = ("sent1", "sent2", *_ENDINGS, *(["label"] if labelled else []))
        for row in read_rows(path, wanted):
            start = row.text("sent2")
            choices = [f"{start} {row.text(ending)}".strip() for ending in _ENDINGS]
            label = row.required("label") if labelled else None
            yield question(row.text("sent1"), choices, label, row.where)
