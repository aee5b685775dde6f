"""The reader of tagged words and of texts with spans."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from cloze.data.reading.columns import Column
from cloze.data.reading.memory import Data
from cloze.data.reading.tables import TableConfig
from cloze.tasks.reader import GoldAnswers, Reader
from cloze.tasks.tagged_text import TaggedText
from cloze.tasks.tagging_formats.formats import read_tagged
from cloze.tasks.tagging_formats.settings import KnownTags, TaggingSettings


@dataclass(frozen=True, kw_only=True)
class TaggedReader(TaggingSettings, Reader[TaggedText]):
    """Sentences or documents in columns, JSON, tables or Parquet, or plain text if there are no tags."""

    def columns(self) -> tuple[Column, ...]:
        return (Column("text"),)

    def examples(self, source: Data, answer: GoldAnswers, *, labeled: bool = True) -> Iterator[TaggedText]:
        return read_tagged(source, self, cast(KnownTags, answer), labeled=labeled)

    def table(self, answer: GoldAnswers, *, labeled: bool) -> TableConfig:
        """Return the columns of tuples: a text or its words, and their tags."""
        tags = [Column("tags", "label", (self.tags_field or "tags",))] if labeled else []
        return TableConfig(
            columns=(*self.columns(), *tags), keeps_numbers=lambda column, names: bool(self.tag_names)
        )

    def group(self, example: TaggedText) -> str | None:
        """Return file and line of a sentence's document."""
        return example.document
