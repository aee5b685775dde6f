"""Your own questions with choices, any number of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cloze.stores import Place
from cloze.tasks.multiple_choice import MultipleChoice, Question, question
from cloze.tasks.registry import register_task
from cloze.tasks.tables import read_rows


@register_task("multiple-choice")
@dataclass(frozen=True, kw_only=True)
class OwnChoices(MultipleChoice):
    """The columns are settings. A label is the number of a choice, counted from 0."""

    data_format: ClassVar[str] = (
        "JSON lines or Parquet: a text, a list of choices, the number of the right one"
    )
    source: ClassVar[str] = "your own data; Devlin et al. 2019, 4.4"

    text_column: str = "prompt"
    choices_column: str = "choices"
    """A list of texts."""
    choice_columns: tuple[str, ...] = ()
    """Instead of `choices_column`, one column for each choice, as a TSV or CSV has them."""
    label_column: str = "label"

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[Question]:
        """Read the rows of a table."""
        columns = self.choice_columns or (self.choices_column,)
        wanted = [self.text_column, *columns, *([self.label_column] if labelled else [])]
        for row in read_rows(path, wanted):
            choices = (
                [row.text(column) for column in self.choice_columns]
                if self.choice_columns
                else row.texts(self.choices_column)
            )
            label = row.required(self.label_column) if labelled else None
            yield question(row.text(self.text_column), choices, label, row.where)
