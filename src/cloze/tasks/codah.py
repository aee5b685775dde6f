"""CODAH: which completion makes sense?"""

from collections.abc import Iterator

from cloze.data.tables import read_rows
from cloze.remote_files import PathOrUrl
from cloze.tasks.multiple_choice import ChoiceQuestion, MultipleChoice
from cloze.tasks.registry import register_task

_CHOICES = ("choice0", "choice1", "choice2", "choice3")
_HEADER = ("category", "prompt", *_CHOICES, "label")


@register_task("codah")
class CODAH(MultipleChoice):
    """A sentence that people wrote to mislead models of SWAG, and four completions."""

    data_format = "TSV without a first line of names: category, sentence, four completions, label"
    source = "Chen et al. 2019"
    defaults = ("batch_size=16", "optimizer.learning_rate=2e-5")

    def examples(self, path: PathOrUrl, *, labeled: bool = True) -> Iterator[ChoiceQuestion]:
        """Read the rows of a table."""
        for row in read_rows(path, _HEADER, header=_HEADER):
            choices = [row.text(choice) for choice in _CHOICES]
            yield ChoiceQuestion.from_row(row, "prompt", choices, "label" if labeled else None)
