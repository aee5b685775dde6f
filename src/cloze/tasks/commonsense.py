"""Benchmarks of commonsense, as multiple choice: SWAG and CODAH."""

from cloze.data.reading.columns import Column
from cloze.data.reading.tables import Row
from cloze.tasks.families.multiple_choice import MultipleChoice
from cloze.tasks.registry import register_task

_CHOICES = ("choice0", "choice1", "choice2", "choice3")
_ENDINGS = ("ending0", "ending1", "ending2", "ending3")


@register_task("swag")
class SWAG(MultipleChoice):
    """A sentence about a video and the beginning of the next one, with four endings.

    The first sentence is one segment, the second with an ending the other.
    """

    data_format = "CSV: sent1, sent2, ending0 to ending3, label; also JSON lines or Parquet"
    source = "Zellers et al. 2018; Devlin et al. 2019, 4.4"
    columns = (
        Column("prompt", names=("sent1",)),
        *map(Column, ("sent2", *_ENDINGS)),
        Column("label", "label"),
    )
    defaults = ("batch_size=16", "optimizer.learning_rate=2e-5")
    train_files = ("train.csv",)
    dev_files = ("val.csv",)

    def choices(self, row: Row) -> list[str]:
        """Return the second sentence with each ending."""
        return [f"{row.text('sent2')} {row.text(ending)}".strip() for ending in _ENDINGS]


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
