"""CODAH: which completion makes sense?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cloze.stores import Place
from cloze.tasks.multiple_choice import MultipleChoice, Question, question
from cloze.tasks.registry import register_task
from cloze.tasks.tables import read_rows

_CHOICES = ("choice0", "choice1", "choice2", "choice3")
_HEADER = ("category", "prompt", *_CHOICES, "label")


@register_task("codah")
@dataclass(frozen=True, kw_only=True)
class CODAH(MultipleChoice):
    """A sentence that people wrote to mislead models of SWAG, and four ways for it to go on."""

    data_format: ClassVar[str] = (
        "TSV without a first line of names: category, sentence, four completions, label"
    )
    source: ClassVar[str] = "Chen et al. 2019"
    defaults: ClassVar[tuple[str, ...]] = ("batch_size=16", "optimizer.learning_rate=2e-5")

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[Question]:
        """Read the rows of a table."""
        for row in read_rows(path, _HEADER, header=_HEADER):
            choices = [row.text(choice) for choice in _CHOICES]
            label = row.required("label") if labelled else None
            yield question(row.text("prompt"), choices, label, row.where)
