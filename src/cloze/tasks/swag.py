"""SWAG: what happens next?"""

from collections.abc import Iterator

from cloze.data.tables import read_rows
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
        for row in read_rows(path, ("sent1", "sent2", *_ENDINGS, *(["label"] if labeled else []))):
            start = row.text("sent2")
            choices = [f"{start} {row.text(ending)}".strip() for ending in _ENDINGS]
            yield ChoiceQuestion.from_row(row, "sent1", choices, "label" if labeled else None)
