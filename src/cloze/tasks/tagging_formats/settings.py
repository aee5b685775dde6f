"""Settings that say how tagged data are read, and the data that a format is detected in and reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

from cloze.choices import AnnotationFormat, TaggingFormat
from cloze.data.reading.files import Line
from cloze.data.reading.memory import Data
from cloze.tasks.running_text import split_text
from cloze.tasks.tag_schemes import Scheme, SchemeDetector
from cloze.tasks.tagged_text import TaggedText

Context: TypeAlias = Literal["sentence", "document"]
Offsets: TypeAlias = Literal["characters", "utf-16", "utf-8"]
"""What the offsets of spans count: characters, UTF-16 units (as JavaScript and Java do, an emoji is two), or bytes."""


@dataclass(frozen=True, kw_only=True)
class TaggingSettings:
    """Settings that say how tagged words are written."""

    word_column: int = 0
    """Counted from 0, or from -1 backwards."""
    tag_column: int = -1
    context: Context = "sentence"
    """Read a sentence alone, or with as much of its document on both sides as fits."""
    language: str = "en"
    """Language of plain text, for sentence splitting."""
    format: TaggingFormat | None = None
    """How files are written: columns, conllu, json, table or text, one a line; by default it is detected.
    Or the annotation tool that exported them: argilla, doccano, label-studio or prodigy; detected in JSON alone."""
    encoding: str | None = None
    """Encoding of text files, as in latin-1, cp1252 or utf-16 (default: utf-8)."""
    tags_field: str | None = None
    """Field or column of the tags of words in JSON, Parquet and tables; by default the only one whose name says so."""
    tag_names: tuple[str, ...] = ()
    """Names of tags that JSON and Parquet have as numbers, in their order."""
    offsets: Offsets = "characters"
    """What the offsets of spans count: characters, utf-16 (units of it) or utf-8 (bytes)."""
    skip_bad_rows: bool = False
    """Leave out and count the texts of JSON, Parquet and Arrow that cannot be read, instead of refusing the file."""

    @property
    def tool(self) -> AnnotationFormat | None:
        """The annotation tool that `format` names."""
        return next((name for name in get_args(AnnotationFormat) if name == self.format), None)

    def keeps_numbers(self, column: str, names: Sequence[str]) -> bool:
        """Return whether the names of tags are those of a setting."""
        return bool(self.tag_names)

    def split(self, text: str) -> TaggedText:
        """Split plain text into sentences and words."""
        return TaggedText(split_text(text, language=self.language), text)


class KnownTags(Protocol):
    """The labels, the scheme and the number of columns, as far as they are known before data are read."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The tags of a trained model, or of a setting."""

    @property
    def scheme(self) -> Scheme | None:
        """The scheme of the training data, or of a setting."""

    @property
    def num_columns(self) -> int | None:
        """Number of columns of the training data."""

    def scheme_detector(self) -> SchemeDetector:
        """Return a detector that accepts the tags that the settings allow."""


@dataclass(frozen=True, slots=True)
class TaggedData:
    """Data to read with the settings of a task."""

    source: Data
    settings: TaggingSettings
    answer: KnownTags
    labeled: bool
    """Whether tags or spans are read."""
    lines: Iterator[Line]
    """All lines of a text file; none of other data."""
    sample: Sequence[str]
    """The first lines."""

    @property
    def content(self) -> list[str]:
        """The first lines without blank ones."""
        return [line for line in self.sample if line.strip()]
