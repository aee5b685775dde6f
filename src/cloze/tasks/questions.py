"""The reader of questions on paragraphs, in SQuAD's form or a row each."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cloze.data.reading.columns import Column
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.memory import Data, MemoryRows
from cloze.data.reading.table_files import RawTable
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.tasks.paragraphs import Paragraph, SpanQuestion
from cloze.tasks.reader import ID, RowReader
from cloze.tasks.squad_files import has_question_rows, squad_rows
from cloze.tokenization.unicode import replace_lone_surrogates


@dataclass(frozen=True, kw_only=True)
class QuestionReader(RowReader[SpanQuestion]):
    """A question with its paragraph a row, or SQuAD's file."""

    def __post_init__(self) -> None:
        if self.clean is not None:
            raise ValueError("clean would move the characters that answers count")

    def columns(self) -> tuple[Column, ...]:
        return Column("question"), Column("context"), ID

    def open_rows(self, source: Data, *, labeled: bool) -> RawTable | None:
        """Open a file in SQuAD's form."""
        if isinstance(source, MemoryRows) or has_question_rows(
            source, labeled=labeled, encoding=self.encoding
        ):
            return None
        if self.skip_bad_rows:
            what = "questions are left out of tables only"
            raise InputError(what, where=source, remedy="Leave out `skip_bad_rows`")
        return RawTable(squad_rows(source, labeled=labeled, encoding=self.encoding), lambda row, where: row)

    def example(self, row: Row, gold: Any) -> SpanQuestion:
        """Return the question of a row, and its answers; without an id it has its place."""
        question, context = (replace_lone_surrogates(row.required(key)) for key in ("question", "context"))
        identifier = as_text(row.cells.get("id")) or row.where
        return SpanQuestion(identifier, question, _paragraph(context), gold or (), row.where)

    def group(self, example: SpanQuestion) -> Hashable:
        return example.paragraph.text


@lru_cache(maxsize=1)
def _paragraph(text: str) -> Paragraph:
    """Return the paragraph of a text, which consecutive questions share, so that it is tokenized once."""
    return Paragraph(text)
