"""Files, folders, globs, URLs and stdin to input shards, which are read independently.

The data path begins here: inputs -> input shards -> documents -> parts. The documents are the same, whichever process
reads which shard.
"""

import glob
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from cloze import artifacts
from cloze.data.build.cleaning import CleaningConfig, CleaningCounts, Counts, clean_all
from cloze.data.reading.directories import names_in_dataset
from cloze.data.reading.documents import PART_CHARACTERS, Document, FileRange, split_into_parts
from cloze.data.reading.files import STDIN, check_regular, file_size, is_compressed, open_text
from cloze.data.reading.formats import FORMATS, detect_format, format_names, read_range, text_format
from cloze.data.reading.text_layout import guess_text_layout
from cloze.errors import InputError
from cloze.file_names import MANIFEST
from cloze.parallel_map import Workers, map_ordered
from cloze.progress import SILENT, SILENT_BAR, Bar, Progress
from cloze.remote_files import is_url, list_files, to_path_or_url
from cloze.results import Result
from cloze.suggestions import did_you_mean
from cloze.text_encoding import check_encoding

Counted = TypeVar("Counted")
_COMPRESSION_RATIO = 3  # roughly
_NO_TEXT = {"vocab.txt", "dataset.json", "config.json"}
"""Next to a manifest, the files of a vocabulary, data set or model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingConfig:
    """How inputs are read."""

    text_format: str = "auto"
    """A name in `FORMATS`, or "auto" to detect it. Parquet and Arrow files are always detected."""
    text_field: str = "text"
    """The field of JSON lines and tables that has the text; "a.b" is field b of field a."""
    encoding: str | None = None
    """That of text files; None: UTF-8."""
    limit: int | None = None
    """Maximum number of documents; None reads all."""
    cleaning: CleaningConfig = CleaningConfig()
    shard_bytes: int = 32_000_000
    part_characters: int = PART_CHARACTERS
    """Approximate size of a part, which a process works on at a time."""

    def __post_init__(self) -> None:
        if self.encoding is not None:
            check_encoding(self.encoding)
        if self.limit is not None and self.limit < 1:
            raise InputError(f"{self.limit} is less than 1", where="limit")
        if self.text_format not in format_names():
            remedy = did_you_mean(self.text_format, format_names())
            raise InputError(f"no format {self.text_format!r}", where="format", remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRun:
    """How a build runs; the bytes of its output do not depend on it."""

    workers: Workers = 1
    overwrite: bool = False
    """Replace existing output."""
    progress: Progress = SILENT


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShard:
    """Files and ranges of files that one process reads."""

    ranges: tuple[FileRange, ...]
    text_field: str
    limit: int | None = None

    @property
    def size_bytes(self) -> int:
        """Size on disk, without stdin."""
        return sum(file_range.size_bytes for file_range in self.ranges)


@dataclass(frozen=True, slots=True, repr=False)
class InputPreview(Result):
    """Inputs before they are tokenized."""

    formats: tuple[str, ...]
    """A line per format with its first file and the number of others."""
    size_bytes: int | None
    """Size on disk; None if stdin is read."""
    input_shards: int
    """Number of parts that processes read independently."""
    first_document: Document | None
    """Without cleaning."""


@dataclass(frozen=True, slots=True, repr=False)
class InputSummary(Counts, Result):
    """Counts of text after cleaning."""

    documents: int = 0
    lines: int = 0
    """Sentences or paragraphs, as the text has them."""
    characters: int = 0
    cleaning: CleaningCounts = CleaningCounts()


def plan_input_shards(
    inputs: Sequence[str | Path], reading: ReadingConfig, *, progress: Progress = SILENT
) -> list[InputShard]:
    """Divide inputs into shards: a function of the names, sizes and first lines of the files alone.

    With a limit there is one shard, because the limit counts documents in the order of the inputs. `progress` gets a
    line per format.
    """
    if not inputs:
        raise InputError("no input was given", remedy="Name files, folders, globs, or - for stdin")
    ranges = chain.from_iterable(_ranges_of(str(name), reading) for name in inputs)
    shard_bytes = reading.shard_bytes if reading.limit is None else sys.maxsize
    groups: list[list[FileRange]] = []
    size = 0
    for file_range, text_bytes in ranges:  # up to the size of a shard; a larger one is alone
        if not groups or size + text_bytes > shard_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file_range)
        size += text_bytes
    input_shards = [
        InputShard(ranges=tuple(group), text_field=reading.text_field, limit=reading.limit)
        for group in groups
    ]
    for line in describe_input_formats(input_shards):
        progress.note(line)
    return input_shards


def read_documents(input_shard: InputShard, bar: Bar = SILENT_BAR) -> Iterator[Document]:
    """Yield the documents of a shard in order; `bar` advances by the bytes read from disk.

    No more than a document and a few buffers are in memory. InputError names the file and line of an error.
    """
    documents = (
        document
        for file_range in input_shard.ranges
        for document in read_range(file_range, input_shard.text_field, bar)
    )
    return islice(documents, input_shard.limit)


def check_documents(
    input_shards: Sequence[InputShard], cleaning: CleaningConfig, run: BuildRun = BuildRun()
) -> InputSummary:
    """Read and clean all documents. The first error in the order of the text is raised."""
    check = partial(_check_shard, cleaning=cleaning)
    return sum(map_input_shards(check, input_shards, run, label="reading"), InputSummary())


def map_input_shards(
    function: Callable[[InputShard], Counted],
    input_shards: Sequence[InputShard],
    run: BuildRun,
    *,
    label: str,
) -> Iterator[Counted]:
    """Yield `function(shard)` of each shard in the order of the text; a bar advances by the bytes on disk."""
    size = total_bytes(input_shards)
    workers = 1 if size is None else run.workers  # stdin is read by this process
    with run.progress.bar(label, total=size, unit="bytes") as bar:
        results = map_ordered(function, input_shards, workers=workers)
        for input_shard, result in zip(input_shards, results, strict=True):
            bar.advance(input_shard.size_bytes)
            yield result


def _check_shard(input_shard: InputShard, *, cleaning: CleaningConfig) -> InputSummary:
    summary = InputSummary()
    for documents in split_into_parts(read_documents(input_shard)):
        kept, counts = clean_all(documents, cleaning)
        lines = [line for document in kept for line in document.lines]
        summary += InputSummary(len(kept), len(lines), sum(map(len, lines)), counts)
    return summary


def total_bytes(input_shards: Iterable[InputShard]) -> int | None:
    """Return the size on disk of all shards; None if they read stdin."""
    ranges = [file_range for input_shard in input_shards for file_range in input_shard.ranges]
    if any(file_range.file == STDIN for file_range in ranges):
        return None
    return sum(file_range.size_bytes for file_range in ranges)


def describe_input_formats(input_shards: Iterable[InputShard]) -> list[str]:
    """Return a line per format with its first file and the number of others."""
    files: dict[str, dict[str, None]] = {}
    for input_shard in input_shards:
        for file_range in input_shard.ranges:
            files.setdefault(file_range.text_format, {})[file_range.file] = None
    lines = []
    for name, names in files.items():
        others = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        description = "detected when it is read" if name == "auto" else FORMATS[name].about
        lines.append(f"{next(iter(names))}{others}: {description}")
    return lines


def _ranges_of(name: str, reading: ReadingConfig) -> Iterator[tuple[FileRange, int]]:
    """Yield the ranges of the files that an input names, and about how many bytes of text each has."""
    if name == STDIN:
        yield FileRange(file=name, text_format=reading.text_format, encoding=reading.encoding), 0
        return
    for file in find_files(name):
        size = file_size(file)
        ratio = _COMPRESSION_RATIO if size and is_compressed(file) else 1
        with open_text(file, reading.encoding) as (_, _, head):
            format_name = detect_format(file, head, reading.text_format)
        format_name = format_name or guess_text_layout(head, size * ratio)
        text = text_format(format_name)
        ranges: list[tuple[int, int | None, int]] = [(0, None, size)]
        has_offsets = ratio == 1 and (reading.encoding is None or text.magic)  # offsets count bytes in UTF-8
        if text.split and has_offsets and size >= 2 * reading.shard_bytes:
            ranges = text.split(file, size, reading.shard_bytes)
        for begin, end, size_bytes in ranges:
            file_range = FileRange(
                file=file,
                text_format=format_name,
                begin=begin,
                end=end,
                size_bytes=size_bytes,
                encoding=reading.encoding,
            )
            yield file_range, size_bytes * ratio


def find_files(name: str, unread: list[InputError | OSError] | None = None) -> list[str]:
    """Return the files that an input names; those of a folder or glob are sorted by name.

    Hidden files are left out, links are followed, and a folder is not entered from below itself.

    Args:
        unread: gets the errors of entries of a folder, which are left out; None raises them.
    """
    if name == STDIN:
        return [name]
    if is_url(name):
        return list_files(name)
    try:
        if os.path.lexists(name) and not os.path.isdir(name):
            files = [check_regular(name)]
        else:
            matches = [name] if os.path.isdir(name) else sorted(glob.glob(name, recursive=True))
            files = [file for match in matches for file in _walk(match, unread)]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=error.filename or name) from error
    if not files and not unread:
        what = "no file in this folder" if os.path.isdir(name) else "no such file"
        raise InputError(what, where=name)
    return list(dict.fromkeys(files))


def local_paths(inputs: Iterable[str | Path]) -> Iterator[Path]:
    """Yield the local files and folders that inputs name; folders are not entered."""
    for name in map(str, inputs):
        place = to_path_or_url(name)
        if name == STDIN or not isinstance(place, Path):
            continue
        yield from [place] if os.path.lexists(place) else map(Path, glob.glob(str(place), recursive=True))


def _walk(
    path: str, unread: list[InputError | OSError] | None, parents: Sequence[tuple[int, int]] = ()
) -> Iterator[str]:
    """Yield a file, or the files below a folder, without a folder that is its own parent through a link."""
    if not os.path.isdir(path):
        yield check_regular(path)
        return
    status = os.stat(path)
    folder = (status.st_dev, status.st_ino)
    if folder in parents:
        return
    names = sorted(name for name in os.listdir(path) if not name.startswith("."))
    if artifacts.RUN_CONFIG in names or (MANIFEST in names and not _NO_TEXT.isdisjoint(names)):
        what = "a vocabulary, data set, model or run, not text"
        raise InputError(what, where=path, remedy="Name files or folders of text")
    for name in names_in_dataset(path, names) or names:
        try:
            yield from _walk(os.path.join(path, name), unread, (*parents, folder))
        except (InputError, OSError) as error:
            if unread is None:
                raise
            unread.append(error)
