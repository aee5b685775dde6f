"""What the user names to stretches: files, folders, globs and stdin, and what each holds, cut for reading.

The way of the text begins here: inputs -> stretches -> documents -> parts. Who reads which stretch does not matter:
the documents are the same, and together they are all.
"""

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from cloze.corpus.cleaning import CleaningConfig
from cloze.corpus.formats import HEAD_BYTES, IN_WORDS, FileFormat, TextFormat, judge_text, tell_apart
from cloze.corpus.streams import STDIN, is_compressed, open_bytes
from cloze.errors import InputError

_STRETCH_BYTES = 32_000_000
_COMPRESSED_TO = 3
"""Bytes of text that a byte of a compressed file stands for, roughly."""
_FILES_LOOKED_AT = 8
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
    text_format: TextFormat
    """ "auto" only for stdin, which can be read but once."""
    begin: int = 0
    """In bytes; a document belongs to the span that it begins in."""
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

    What is named is told apart by itself; the running text of a folder or glob as a whole, by the kind of its names.
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
    files: dict[str, dict[str, None]] = {}
    for stretch in stretches:
        for span in stretch.spans:
            files.setdefault(span.text_format, {})[span.file] = None
    told = []
    for text_format, names in files.items():
        first = next(iter(names))
        others = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        words = IN_WORDS.get(text_format, "seen when it is read")
        told.append(f"{first}{others}: {words}")
    return told


def _spans_of(given: str, reading: ReadingConfig) -> list[Span]:
    files = _find_files(given)
    formats: dict[str, TextFormat | None] = {file: _format_of(file, reading) for file in files}
    for _, group in groupby(sorted(files, key=_kind_of_name), key=_kind_of_name):
        running = [file for file in group if formats[file] is None]
        if running:
            formats.update(dict.fromkeys(running, _judge(running)))
    return [span for file in files for span in _cut(file, formats[file] or "paragraphs")]


def _format_of(file: str, reading: ReadingConfig) -> TextFormat | None:
    if file == STDIN:
        return reading.text_format
    with open_bytes(file) as (stream, _):
        head = stream.read(HEAD_BYTES if reading.text_format == "auto" else 8)
    found = tell_apart(file, head)
    if reading.text_format == "auto" or found in ("parquet", "arrow"):
        return found
    return reading.text_format


def _kind_of_name(file: str) -> str:
    return "".join(Path(file).suffixes[-2:])


def _judge(files: Sequence[str]) -> FileFormat:
    """Look at the beginnings of some files, taken evenly from among them."""
    sample = files[:: max(1, len(files) // _FILES_LOOKED_AT)][:_FILES_LOOKED_AT]
    lines: list[str] = []
    for file in sample:
        with open_bytes(file) as (stream, _):
            head = stream.read(HEAD_BYTES // len(sample))
        lines += [line.strip() for line in head.decode("utf-8", "replace").split("\n")[:-1]]
        lines.append("")
    return judge_text(lines, max(map(_text_bytes, files)))


def _text_bytes(file: str) -> int:
    """Estimate the size of the text in a file."""
    return Path(file).stat().st_size * (_COMPRESSED_TO if is_compressed(file) else 1)


def _cut(file: str, text_format: TextFormat) -> Iterator[Span]:
    """Cut a large plain file into spans of equal size."""
    if file == STDIN:
        yield Span(file=file, text_format=text_format)
        return
    size = Path(file).stat().st_size
    count = 1
    if text_format in _CUT_FORMATS and not is_compressed(file):
        count = max(1, size // _STRETCH_BYTES)
    edges = [size * index // count for index in range(count)]
    for begin, end in zip(edges, [*edges[1:], None], strict=True):
        yield Span(
            file=file,
            text_format=text_format,
            begin=begin,
            end=end,
            size_bytes=(size if end is None else end) - begin,
        )


def _runs(spans: Iterable[Span]) -> Iterator[tuple[Span, ...]]:
    """Gather spans up to the size of a stretch, a larger one alone."""
    run: list[Span] = []
    size = 0
    for span in spans:
        estimate = span.size_bytes * (_COMPRESSED_TO if is_compressed(span.file) else 1)
        if run and size + estimate > _STRETCH_BYTES:
            yield tuple(run)
            run, size = [], 0
        run.append(span)
        size += estimate
    if run:
        yield tuple(run)


def _find_files(given: str) -> list[str]:
    """Return the files of an input; those of a folder or glob in the order of their names."""
    if given == STDIN:
        return [given]
    path = Path(given)
    if path.is_dir():
        found = sorted(_walk(path))
    elif path.exists() or path.is_symlink():
        _check_regular(path)
        return [given]
    else:
        matches = (Path(match) for match in glob.glob(given, recursive=True))
        found = sorted(match for match in matches if not match.is_dir())
    if not found:
        raise InputError("no file in this folder" if path.is_dir() else "no such file", where=given)
    for each in found:
        _check_regular(each)
    return list(map(str, found))


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, links followed but not in circles, hidden ones left out."""
    above: dict[str, tuple[tuple[int, int], ...]] = {}
    for place, folders, files in os.walk(folder, followlinks=True):
        known = os.stat(place)
        way = (*above.get(os.path.dirname(place), ()), (known.st_dev, known.st_ino))
        above[place] = way
        folders[:] = [name for name in folders if not name.startswith(".")]
        folders[:] = [name for name in folders if _identity(os.path.join(place, name)) not in way]
        yield from (Path(place, name) for name in files if not name.startswith("."))


def _identity(place: str) -> tuple[int, int]:
    known = os.stat(place)
    return known.st_dev, known.st_ino


def _check_regular(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise InputError("a link to a file that is not there", where=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from None
    if stat.S_ISFIFO(mode):
        raise InputError("is a pipe, not a file", where=path, remedy=f"Read it as stdin: - < {path}")
    if not stat.S_ISREG(mode):
        raise InputError("is a device or socket, not a file", where=path)
