"""CODAH: which completion makes sense?"""

from collections.abc import Iterator

from cloze.data.tables import Row
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

        def choices_of(row: Row) -> list[str]:
            return [row.text(choice) for choice in _CHOICES]

        label = "label" if labeled else None
        return self.read_table(path, _CHOICES, choices_of, prompt="prompt", label=label, header=_HEADER)
