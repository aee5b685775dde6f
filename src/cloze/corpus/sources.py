"""What the user names to stretches: files, folders, globs and stdin, and what each holds, cut for reading.

The way of the text begins here: inputs -> stretches -> documents -> parts. Who reads which stretch does not matter:
the documents are the same, and together they are all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from cloze.corpus.cleaning import CleaningConfig
from cloze.corpus.formats import (
    HEAD_BYTES,
    IN_WORDS,
    FileFormat,
    TextFormat,
    judge_text,
    table_format,
    tell_apart,
)
from cloze.corpus.inputs import find_files
from cloze.corpus.streams import STDIN, file_bytes, is_compressed, open_bytes
from cloze.corpus.tables import HUB, row_group_bytes
from cloze.errors import InputError
from cloze.stores import is_url

_STRETCH_BYTES = 32_000_000
_COMPRESSED_TO = 3
"""Bytes of text that a byte of a compressed file stands for, roughly."""
_BYTES_TO_TELL = 4096
_CUT_FORMATS = ("sentences", "paragraphs", "lines", "jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingConfig:
    """How inputs are read."""

    text_format: TextFormat = "auto"
    """What text files hold. "auto" looks; Parquet and Arrow files are always seen."""
    text_field: str = "text"
    """Where JSON lines and tables have the text; "a.b" is field b of field a."""
    limit: int | None = None
    """Documents read, from the first on; None reads all."""
    cleaning: CleaningConfig = CleaningConfig()

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise InputError(f"{self.limit} is less than 1", where="limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A file, or a piece of a large one."""

    file: str
    text_format: FileFormat | Literal["auto"]
    """ "auto" only for stdin, which can be read but once."""
    begin: int = 0
    """In bytes, or row groups of a Parquet file. A document belongs to the piece that it begins in."""
    end: int | None = None
    size_bytes: int = 0
    """On disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What one reader goes through alone."""

    spans: tuple[Span, ...]
    text_field: str
    limit: int | None = None

    @property
    def size_bytes(self) -> int:
        """Size on disk; nothing is known of stdin."""
        return sum(span.size_bytes for span in self.spans)

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)


def plan_stretches(inputs: Sequence[str | Path], reading: ReadingConfig) -> list[Stretch]:
    """Turn inputs into what is to be read: a function of the names, sizes and first lines of the files alone.

    With a limit there is one stretch, since the first documents are those that come first in the order of the inputs.

    Raises:
        InputError: nothing is there, or a file is nothing that can be read.
    """
    if not inputs:
        raise InputError("no input was given", remedy="Name files, folders, globs, or - for stdin")
    spans = [span for given in inputs for span in _spans_of(str(given), reading)]
    if reading.limit is not None:
        return [Stretch(spans=tuple(spans), text_field=reading.text_field, limit=reading.limit)]
    return [Stretch(spans=run, text_field=reading.text_field) for run in _runs(spans)]


def total_bytes(stretches: Iterable[Stretch]) -> int | None:
    """Return the size of all on disk; None where stdin is among them."""
    stretches = list(stretches)
    if any(span.file == STDIN for stretch in stretches for span in stretch.spans):
        return None
    return sum(stretch.size_bytes for stretch in stretches)


def describe_formats(stretches: Iterable[Stretch]) -> list[str]:
    """Say in a line a format how many files were found to hold it."""
    files: dict[FileFormat | Literal["auto"], dict[str, None]] = {}
    for stretch in stretches:
        for span in stretch.spans:
            files.setdefault(span.text_format, {})[span.file] = None
    told = []
    for text_format, names in files.items():
        first = next(iter(names))
        others = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        words = "told apart when it is read" if text_format == "auto" else IN_WORDS[text_format]
        told.append(f"{first}{others}: {words}")
    return told


def _spans_of(given: str, reading: ReadingConfig) -> Iterator[Span]:
    if given.startswith(HUB) and not is_url(given):
        yield Span(file=given, text_format="hub")
    elif given == STDIN:
        yield Span(file=given, text_format=reading.text_format)
    else:
        for file in find_files(given):
            yield from _cut(file, _format_of(file, reading))


def _format_of(file: str, reading: ReadingConfig) -> FileFormat:
    with open_bytes(file) as (stream, _):
        head = stream.read(_BYTES_TO_TELL)
        if reading.text_format != "auto":
            return table_format(file, head) or reading.text_format
        told = tell_apart(file, head)
        if told is not None:
            return told
        head += stream.read(HEAD_BYTES - len(head))
    return judge_text(head, _text_bytes(file, file_bytes(file)))


def _cut(file: str, text_format: FileFormat) -> Iterator[Span]:
    """Cut a large file into pieces of about the size of a stretch, where its format allows it."""
    size = file_bytes(file)
    pieces: list[tuple[int, int | None, int]] = [(0, None, size)]
    if size >= 2 * _STRETCH_BYTES:
        if text_format == "parquet":
            pieces = _runs_of_row_groups(row_group_bytes(file))
        elif text_format in _CUT_FORMATS and not is_compressed(file):
            count = size // _STRETCH_BYTES
            edges = [size * index // count for index in range(count + 1)]
            pieces = [(begin, end, end - begin) for begin, end in pairwise(edges)]
    for begin, end, size_bytes in pieces:
        yield Span(file=file, text_format=text_format, begin=begin, end=end, size_bytes=size_bytes)


def _runs_of_row_groups(sizes: Sequence[int]) -> list[tuple[int, int | None, int]]:
    runs: list[tuple[int, int | None, int]] = []
    begin = size_bytes = 0
    for index, size in enumerate(sizes, 1):
        size_bytes += size
        if size_bytes >= _STRETCH_BYTES or index == len(sizes):
            runs.append((begin, index, size_bytes))
            begin, size_bytes = index, 0
    return runs


def _runs(spans: Iterable[Span]) -> Iterator[tuple[Span, ...]]:
    """Gather spans up to the size of a stretch, a larger one alone."""
    run: list[Span] = []
    size = 0
    for span in spans:
        text_bytes = _text_bytes(span.file, span.size_bytes)
        if run and size + text_bytes > _STRETCH_BYTES:
            yield tuple(run)
            run, size = [], 0
        run.append(span)
        size += text_bytes
    if run:
        yield tuple(run)


def _text_bytes(file: str, size_bytes: int) -> int:
    """Return the size of the text in so many bytes of a file, a rough guess where it is compressed."""
    return size_bytes * (_COMPRESSED_TO if size_bytes and is_compressed(file) else 1)
