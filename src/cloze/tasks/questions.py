"""The reader of questions on paragraphs, in SQuAD's form or a row each."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from cloze.data.reading.columns import Column
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.source import ReadOptions
from cloze.data.reading.tables import Row
from cloze.tasks.paragraphs import Paragraph, SpanQuestion
from cloze.tasks.reader import ID, GoldAnswers, RowReader
from cloze.tokenization.unicode import replace_lone_surrogates


@dataclass(frozen=True, kw_only=True)
class QuestionReader(RowReader[SpanQuestion]):
    """A question with its paragraph a row, or SQuAD's file."""

    def __post_init__(self) -> None:
        if self.clean is not None:
            raise ValueError("clean would move the characters that answers count")

    def columns(self) -> tuple[Column, ...]:
        return Column("question"), Column("context"), ID

    def options(self, answer: GoldAnswers, *, labeled: bool) -> ReadOptions:
        return replace(super().options(answer, labeled=labeled), reader="questions")

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
