"""SWAG, a benchmark of commonsense, as multiple choice."""

from cloze.data.reading.columns import Column
from cloze.data.reading.tables import Row
from cloze.tasks.families.multiple_choice import MultipleChoice
from cloze.tasks.registry import register_task

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
