"""Parts of text, made in any process: each is a file under the key of what made it, with a checksum and its counts.

    KEY-00000.arrow  .json   a part of an input shard; its SHA-256 and counts, written when it is complete
    KEY.json                 number of parts of a shard that was read to its end

A key is a hash of everything that determines the parts of a shard: the ranges of its files with their versions, the
settings, and the versions of the packages. So a part with its checksum is not made again, and any process may make any
part, even twice. Files are renamed into place but not synced: the checksum finds a part that a machine failure damaged.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from cloze import file_io
from cloze.data.build.input_shards import BuildRun, InputShard, read_documents, total_bytes
from cloze.data.reading.documents import Document, split_into_parts
from cloze.data.reading.files import STDIN, file_version
from cloze.errors import RunError
from cloze.parallel_map import Workers, map_unordered, num_workers
from cloze.progress import SILENT_BAR, Bar

_WRITE_OPTIONS = {"sync": False, "make_parents": False}
STDIN_PREFIX = "stdin-"
"""Prefix of the keys of text from stdin, which no other build can read again."""

Record: TypeAlias = dict[str, Any]
MakePart: TypeAlias = Callable[[list[Document], Path], Record]
"""Writes the part of some documents to a path and returns its counts for JSON; a top-level function or `partial`."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The settings and the parts of an output."""

    settings: Mapping[str, Any]
    keys: Sequence[str]
    """Key of each input shard, in order. A shard that was named twice has its key here twice."""
    input_shards: Mapping[str, InputShard]
    """The text to read, by key."""

    @classmethod
    def of(
        cls, input_shards: Sequence[InputShard], part_settings: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> "BuildPlan":
        """Return the plan of a build.

        `part_settings` are all that the parts depend on besides their text, `settings` what else the output does.
        """
        keys = []
        for shard in input_shards:
            files = sorted({file_range.file for file_range in shard.ranges})
            if STDIN in files:  # its text is different each time
                keys.append(STDIN_PREFIX + uuid.uuid4().hex)
                continue
            # size and time of the modification: a hash of the content would read all text once more at each resume
            versions = {file: file_version(file) for file in files}
            keys.append(content_hash([asdict(shard), versions, dict(part_settings)]))
        return cls({**part_settings, **settings}, keys, dict(zip(keys, input_shards, strict=True)))

    @property
    def hash(self) -> str:
        """Hash of the settings and the keys."""
        return content_hash([self.settings, self.keys])


def content_hash(content: object) -> str:
    """Hash a JSON value."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class _PlannedShard:
    """An input shard and the place of its parts."""

    directory: Path
    key: str
    input_shard: InputShard
    part_characters: int

    def read_missing(self, bar: Bar = SILENT_BAR) -> Iterator[tuple[Path, list[Document]]]:
        """Read the shard, yield path and documents of missing parts, and record how many parts the shard has."""
        count = 0
        for documents in split_into_parts(read_documents(self.input_shard, bar), self.part_characters):
            path = _path(self.directory, self.key, count)
            if not _is_finished(path):
                yield path, documents
            count += 1
        file_io.write_text(self.directory / f"{self.key}.json", str(count), **_WRITE_OPTIONS)


def list_parts(directory: Path, plan: BuildPlan) -> list[Path]:
    """Return all parts of a plan in the order of the text; RunError if some are missing."""
    counts = {key: _count_parts(directory, key) for key in plan.input_shards}
    if missing := sum(count is None for count in counts.values()):
        what = f"{missing} of {len(counts)} input shards are not finished"
        raise RunError(what, where=directory, remedy="Run the command again: finished parts are kept")
    return [_path(directory, key, number) for key in plan.keys for number in range(counts[key] or 0)]


def read_record(part: Path) -> Record:
    """Return the counts of a part."""
    record: Record = json.loads(part.with_suffix(".json").read_text("utf-8"))["record"]
    return record


def make_parts(
    directory: Path, plan: BuildPlan, make: MakePart, *, label: str, counts: Sequence[str], run: BuildRun
) -> list[Path]:
    """Make the missing and damaged parts of a plan, and return all in the order of the text.

    A progress bar advances by the bytes read from disk and those of finished shards. It shows the sums of these
    `counts` in the records of the parts.
    """
    part_characters = plan.settings["part_characters"]
    shards = [
        _PlannedShard(directory, key, shard, part_characters) for key, shard in plan.input_shards.items()
    ]
    totals = dict.fromkeys(counts, 0)
    total = total_bytes(plan.input_shards.values())
    with run.progress.bar(label, total=total, unit="bytes") as bar:
        for record in _make_missing(shards, make, run.workers, bar):
            totals = {name: total + record[name] for name, total in totals.items()}
            bar.show(**{name: f"{number:,}" for name, number in totals.items()})
    return list_parts(directory, plan)


def _make_missing(
    shards: Sequence[_PlannedShard], make: MakePart, workers: Workers, bar: Bar
) -> Iterator[Record]:
    """Make the missing parts and yield the record of each, in any order.

    If there are enough shards, each worker reads its own. Otherwise this process reads for all of them, as it does for
    stdin.
    """
    missing = [shard for shard in shards if _count_parts(shard.directory, shard.key) is None]
    total, rest = (sum(shard.input_shard.size_bytes for shard in some) for some in (shards, missing))
    bar.advance(total - rest)
    reads_stdin = total_bytes(shard.input_shard for shard in missing) is None
    if 1 < num_workers(workers) <= len(missing) // 2 and not reads_stdin:
        for shard, records in map_unordered(partial(_finish_shard, make=make), missing, workers=workers):
            bar.advance(shard.input_shard.size_bytes)
            yield from records
    else:
        parts = (part for shard in missing for part in shard.read_missing(bar))
        yield from map_unordered(partial(_finish_part, make=make), parts, workers=workers)


def _finish_shard(shard: _PlannedShard, *, make: MakePart) -> tuple[_PlannedShard, list[Record]]:
    return shard, [_finish_part(part, make=make) for part in shard.read_missing()]


def _finish_part(part: tuple[Path, list[Document]], *, make: MakePart) -> Record:
    path, documents = part
    with file_io.write_file(path, **_WRITE_OPTIONS) as temporary:
        record = make(documents, temporary)
        sha256 = file_io.sha256_of_file(temporary)
    content = json.dumps({"sha256": sha256, "record": record})
    file_io.write_text(path.with_suffix(".json"), content, **_WRITE_OPTIONS)
    return record


def _count_parts(directory: Path, key: str) -> int | None:
    """Return the number of parts of a shard if all of them are finished."""
    try:
        count = int((directory / f"{key}.json").read_text("utf-8"))
    except (OSError, ValueError):  # the shard was not read to its end, or the file is damaged
        return None
    return count if all(_is_finished(_path(directory, key, number)) for number in range(count)) else None


def _is_finished(part: Path) -> bool:
    """Return whether a part is complete, with the content of its checksum."""
    try:
        expected = json.loads(part.with_suffix(".json").read_text("utf-8"))["sha256"]
        return bool(file_io.sha256_of_file(part) == expected)
    except (OSError, ValueError, KeyError):
        return False


def _path(directory: Path, key: str, number: int) -> Path:
    return directory / f"{key}-{number:05}.arrow"
