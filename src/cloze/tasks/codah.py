"""CODAH: which completion makes sense?"""

from cloze.data.reading.columns import Column
from cloze.data.reading.tables import Row
from cloze.tasks.families.multiple_choice import MultipleChoice
from cloze.tasks.registry import register_task

_CHOICES = ("choice0", "choice1", "choice2", "choice3")


@register_task("codah")
class CODAH(MultipleChoice):
    """A sentence that people wrote to mislead models of SWAG, and four completions."""

    data_format = "TSV without a first line of names: category, sentence, four completions, label"
    source = "Chen et al. 2019"
    columns = (*map(Column, ("prompt", *_CHOICES)), Column("label", "label"))
    header = ("category", "prompt", *_CHOICES, "label")
    defaults = ("batch_size=16", "optimizer.learning_rate=2e-5")

    def choices(self, row: Row) -> list[str]:
        """Return the four completions."""
        return [row.text(choice) for choice in _CHOICES]
