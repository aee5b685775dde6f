"""A source: data that are opened once, in the one format that was found for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from cloze.choices import AnnotationFormat, Clean
from cloze.data.reading.columns import Column, KeepsNumbers
from cloze.data.reading.directories import brat_texts
from cloze.data.reading.documents import TextFormat
from cloze.data.reading.files import MAX_WHOLE_BYTES, STDIN, Line, extension_of, read_lines
from cloze.data.reading.memory import Data, MemoryRows
from cloze.errors import InputError

RawRow: TypeAlias = tuple[Mapping[str, Any] | InputError, str]
"""The cells of a row by column, or why it cannot be read; and its place, such as "file:line"."""

_SAMPLE_LINES, _SAMPLE_LINES_OF_WORDS = 20, 200


ReaderKind: TypeAlias = Literal["rows", "texts", "words", "questions", "predictions"]
"""Rows of tables; these or lines of text; tagged words; questions on paragraphs; or predictions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What is read of data, and how."""

    reader: ReaderKind = "rows"
    """Decides with the data which format they are in."""
    columns: tuple[Column, ...] = ()
    """The data may have more."""
    is_also_read: Callable[[str], bool] = lambda name: False
    """Whether another column is read, too; a row may have no such cell."""
    keeps_others: bool = False
    """Whether the cells of all other columns are read."""
    header: tuple[str, ...] = ()
    """The names of the columns of a TSV whose first line may be a row."""
    keeps_numbers: KeepsNumbers = lambda column, names: False
    """Which columns of classes that Parquet and Arrow name are read as numbers."""
    format: str | None = None
    """The format of a text file, or the annotation tool that wrote the rows; None: detected."""
    labeled: bool = False
    """Leave out rows that annotators rejected, ignored or skipped, with a warning that counts them."""
    skip_broken: bool = False
    """Leave out rows that have more or fewer cells than there are columns, if they are few."""
    encoding: str | None = None
    """That of text files; None: UTF-8."""
    clean: Clean | None = None
    """Kind of text that the texts are cleaned as."""
    column_names: tuple[str, ...] = ()
    """The names of the columns of a TSV or CSV whose first line is a row."""
    leave_out: tuple[type[InputError], ...] | None = None
    """Kinds of errors whose rows are left out, with a warning that counts them; None: no flag asks for it."""
    word_column: int = 0
    """The column of words in columns, counted from 0, or from -1 backwards."""
    tag_column: int = -1
    by_document: bool = False
    """Whether a row of words in columns is a document instead of a sentence."""

    @property
    def tool(self) -> str | None:
        """The annotation tool that `format` names."""
        return self.format if self.format in get_args(AnnotationFormat) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """How data of one format are recognized and read."""

    about: str
    extensions: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    """Tasks that read it; "all" of those on tables; none of a format of a corpus alone."""
    readers: tuple[ReaderKind, ...] = ()
    fits: "Callable[[Source], bool] | None" = None
    """Whether data are in it; None: by the extension."""
    rows: "Callable[[Source], Iterator[RawRow]] | None" = None
    is_json: bool = False
    """Whether rows of annotation tools are recognized."""
    is_text_file: bool = True
    """Whether a setting can name it."""
    has_rows: bool = True
    """Whether examples are rows, not words, questions or lines."""
    text: TextFormat | None = None
    """How it is read as text of a corpus."""


_UNKNOWN = Format(about="")


@dataclass(eq=False)
class Source:
    """A file, a URL, a glob, a directory, stdin, or rows in memory."""

    data: Data
    options: ReadOptions
    format: Format = _UNKNOWN
    files: Sequence[str] = ()
    """Those of a glob, all of one format."""
    _lines: Iterator[Line] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return "stdin" if str(self.data) == STDIN else str(self.data)

    def rows(self) -> Iterator[RawRow]:
        """Yield the rows, without the columns that the options leave out where the format allows it."""
        assert self.format.rows is not None
        if not self.files:
            return self.format.rows(self)
        sources = (Source(file, self.options, self.format) for file in self.files)
        return chain.from_iterable(map(self.format.rows, sources))

    @property
    def has_rows(self) -> bool:
        """Whether tools may have written the rows, and bad ones can be left out."""
        return self.format.has_rows or self.options.reader == "texts"

    @cached_property
    def tool(self) -> str | None:
        """The annotation tool that the user names, if the format has rows."""
        return self.options.tool if self.has_rows else None

    @cached_property
    def extension(self) -> str:
        """The last part of a file's name, as in ".json", without that of its compression."""
        return "" if isinstance(self.data, MemoryRows) else extension_of(self.data)

    @cached_property
    def brat_texts(self) -> list[Path]:
        """The texts of a directory of brat."""
        return brat_texts(self.data, labeled=self.options.labeled)

    @property
    def lines(self) -> Iterator[Line]:
        """The lines of a text file from its beginning, which can be read once."""
        return ((text.rstrip("\r"), where) for text, where in self.lines_with_cr)

    @property
    def lines_with_cr(self) -> Iterator[Line]:
        """The lines with the CR before their ends, which belong to a cell in quotation marks that has several lines."""
        if self._lines is None:
            assert not isinstance(self.data, MemoryRows)
            may_be_long = self.extension == ".json" or self.options.reader == "questions"
            self._lines = read_lines(self.data, self.options.encoding, whole=may_be_long, keep_cr=True)
        return self._lines

    @cached_property
    def sample(self) -> list[str]:
        """The first lines of a text file; `lines` still has them."""
        size = _SAMPLE_LINES_OF_WORDS if self.options.reader == "words" else _SAMPLE_LINES
        first = list(islice(self.lines_with_cr, size))
        self._lines = chain(first, self.lines_with_cr)
        return [text.rstrip("\r") for text, _ in first]

    @property
    def content(self) -> list[str]:
        """The first lines without blank ones."""
        return [line for line in self.sample if line.strip()]

    def read_whole(self) -> str:
        """Return the text of a file that is parsed as a whole, without its last line end."""
        lines, size = [], 0
        for line, _ in self.lines_with_cr:
            lines.append(line)
            size += len(line) + 1
            if size > MAX_WHOLE_BYTES:
                what = (
                    f"over {MAX_WHOLE_BYTES // 10**6} MB, which is too large to read into memory as a whole"
                )
                remedy = "Split it, or write one object a line and call it .jsonl"
                raise InputError(what, where=self, remedy=remedy)
        return "\n".join(lines)
