"""A dry run over text: read, clean and count it without writing anything."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from cloze.data.build.cleaning import CleaningConfig, CleaningCounts, Counts, clean_all
from cloze.data.build.input_shards import (
    InputShard,
    describe_input_formats,
    map_input_shards,
    read_documents,
    total_bytes,
)
from cloze.data.reading.documents import Document, split_into_parts
from cloze.parallel_map import Workers
from cloze.progress import SILENT, Progress
from cloze.results import Result


@dataclass(frozen=True, slots=True)
class InputSummary(Counts):
    """Counts of text after cleaning."""

    documents: int = 0
    lines: int = 0
    """Sentences or paragraphs, as the text has them."""
    characters: int = 0
    cleaning: CleaningCounts = CleaningCounts()


@dataclass(frozen=True, slots=True, repr=False)
class InputPreview(Result):
    """Inputs before they are tokenized."""

    formats: tuple[str, ...]
    """A line per format with its first file and the number of others."""
    size_bytes: int | None
    """Size on disk; None if stdin is read."""
    input_shards: int
    """Number of parts that processes read independently."""
    first_document: Document | None = None
    """Without cleaning."""
    summary: InputSummary | None = None
    """Counts of all text, if it was read."""


def describe_inputs(input_shards: Sequence[InputShard]) -> InputPreview:
    """Return the formats and sizes of inputs before they are read."""
    formats = tuple(describe_input_formats(input_shards))
    return InputPreview(formats, total_bytes(input_shards), len(input_shards))


def check_inputs(
    input_shards: Sequence[InputShard],
    cleaning: CleaningConfig,
    *,
    workers: Workers = 1,
    progress: Progress = SILENT,
) -> InputSummary:
    """Read and clean all of a text. The first error in the order of the text is raised."""
    summary = InputSummary()
    check = partial(_check_shard, cleaning=cleaning)
    for counts, bar in map_input_shards(check, input_shards, "reading", workers=workers, progress=progress):
        summary += counts
        bar.show(documents=f"{summary.documents:,}")
    return summary


def _check_shard(input_shard: InputShard, *, cleaning: CleaningConfig) -> InputSummary:
    summary = InputSummary()
    for documents in split_into_parts(read_documents(input_shard)):
        kept, counts = clean_all(documents, cleaning)
        lines = [line for document in kept for line in document.lines]
        summary += InputSummary(len(kept), len(lines), sum(map(len, lines)), counts)
    return summary


def first_document(input_shards: Sequence[InputShard]) -> Document | None:
    """Return the first document without cleaning, or None if there are no documents."""
    return next((document for shard in input_shards for document in read_documents(shard)), None)
