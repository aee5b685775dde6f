"""SWAG: what happens next?"""

from collections.abc import Iterator

from cloze.data.tables import Row
from cloze.remote_files import PathOrUrl
from cloze.tasks.multiple_choice import ChoiceQuestion, MultipleChoice
from cloze.tasks.registry import register_task

_ENDINGS = ("ending0", "ending1", "ending2", "ending3")


@register_task("swag")
class SWAG(MultipleChoice):
    """A sentence about a video and the beginning of the next one, with four endings.

    The first sentence is one segment, the second with an ending the other.
    """

    data_format = "CSV: sent1, sent2, ending0 to ending3, label; also JSON lines or Parquet"
    source = "Zellers et al. 2018; Devlin et al. 2019, 4.4"
    defaults = ("batch_size=16", "optimizer.learning_rate=2e-5")
    train_files = ("train.csv",)
    dev_files = ("val.csv",)

    def examples(self, path: PathOrUrl, *, labeled: bool = True) -> Iterator[ChoiceQuestion]:
        """Read the rows of a table."""

        def choices_of(row: Row) -> list[str]:
            return [f"{row.text('sent2')} {row.text(ending)}".strip() for ending in _ENDINGS]

        label = "label" if labeled else None
        return self.read_table(path, ("sent2", *_ENDINGS), choices_of, prompt="sent1", label=label)
