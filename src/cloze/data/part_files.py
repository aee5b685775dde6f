"""The files of parts of a text: each with a checksum and a record of its counts."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cloze import file_io
from cloze.data.documents import Document, split_into_parts
from cloze.data.input_shards import InputShard, read_documents
from cloze.progress import SILENT_BAR, Bar

WRITE_OPTIONS = {"sync": False, "make_parents": False}

Record: TypeAlias = dict[str, Any]
MakePart: TypeAlias = Callable[[list[Document], Path], Record]
"""Writes the part of some documents to a path and returns its counts for JSON; a top-level function or `partial`."""


@dataclass(frozen=True, slots=True)
class Part:
    """A finished part."""

    path: Path

    @property
    def record(self) -> Record:
        """Its counts, read each time, because those of all parts may be large."""
        record: Record = json.loads(self.path.with_suffix(".json").read_text("utf-8"))["record"]
        return record

    def is_intact(self) -> bool:
        """Return whether the part is as it was written."""
        try:
            expected = json.loads(self.path.with_suffix(".json").read_text("utf-8"))["sha256"]
            return bool(file_io.sha256_of_file(self.path) == expected)
        except (OSError, ValueError, KeyError):
            return False


@dataclass(frozen=True, slots=True)
class Share:
    """The parts of an input shard that one worker or task makes: number % modulus == remainder."""

    key: str
    input_shard: InputShard
    remainder: int = 0
    modulus: int = 1


def part_name(key: str, number: int) -> str:
    """Return the name of a part of a shard, without the ending."""
    return f"{key}-{number:05}"


def unfinished_parts(
    share: Share, bar: Bar, *, directory: Path, part_characters: int
) -> Iterator[tuple[str, int, list[Document]]]:
    """Read a shard, yield key, number and documents of its missing parts, and record how many parts it has."""
    count = 0
    for documents in split_into_parts(read_documents(share.input_shard, bar), part_characters):
        is_in_share = count % share.modulus == share.remainder
        if is_in_share and not (directory / f"{part_name(share.key, count)}.json").exists():
            yield share.key, count, documents
        count += 1
    file_io.write_text(directory / f"{share.key}.json", str(count), **WRITE_OPTIONS)


def finish_share(
    share: Share, *, read: Callable[..., Any], finish_part: Callable[[Any], Record]
) -> tuple[Share, list[Record]]:
    """Make the missing parts of a share, and return their records with it."""
    return share, [finish_part(part) for part in read(share, SILENT_BAR)]


def finish_part(part: tuple[str, int, list[Document]], *, directory: Path, make: MakePart) -> Record:
    """Write a part and its checksum, and return its record."""
    key, number, documents = part
    path = directory / f"{part_name(key, number)}.arrow"
    with file_io.write_file(path, **WRITE_OPTIONS) as temporary:
        record = make(documents, temporary)
        sha256 = file_io.sha256_of_file(temporary)
    content = json.dumps({"sha256": sha256, "record": record})
    file_io.write_text(path.with_suffix(".json"), content, **WRITE_OPTIONS)
    return record
