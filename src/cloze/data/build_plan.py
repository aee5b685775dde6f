"""The plan of a build: its settings and the input shards, as in `build.json`."""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloze.data.files import STDIN, file_version
from cloze.data.input_shards import InputShard
from cloze.data.part_files import Record

PLAN_FILE = "build.json"


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """An input shard by its key, with what `InputShard.as_dict` returns."""

    key: str
    description: Record

    @property
    def first_file(self) -> str:
        """The file that it begins in."""
        return str(self.description["spans"][0]["file"])

    @property
    def files(self) -> list[str]:
        """Its files, without stdin."""
        return [span["file"] for span in self.description["spans"] if span["file"] != STDIN]

    @property
    def is_of_files(self) -> bool:
        """Whether no part of it is read from stdin."""
        return len(self.files) == len(self.description["spans"])


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """All that the parts and the output of a build depend on."""

    settings: Record
    """All that a part depends on, except its shard."""
    options: Record
    """All that the output depends on, except its parts."""
    shards: tuple[PlannedShard, ...]
    """In order. A shard that was named twice is here twice."""

    @classmethod
    def of(
        cls, input_shards: Sequence[InputShard], settings: Mapping[str, Any], options: Mapping[str, Any]
    ) -> "BuildPlan":
        """Return the plan of a build of input shards, as it is read from JSON."""
        shards = tuple(PlannedShard(_shard_key(shard), shard.as_dict()) for shard in input_shards)
        return cls.from_json(json.loads(json.dumps(cls(dict(settings), dict(options), shards).to_json())))

    def to_json(self, *, manifest_sha256: str | None = None) -> Record:
        """Return the content of `build.json`.

        Args:
            manifest_sha256: that of the output, once it is written.
        """
        return {
            "settings": self.settings,
            "options": self.options,
            "input_shards": [{"key": shard.key, **shard.description} for shard in self.shards],
            "manifest_sha256": manifest_sha256,
        }

    @classmethod
    def from_json(cls, table: Record) -> "BuildPlan":
        """Return the plan of the content of `build.json`."""
        entries = table["input_shards"]
        shards = tuple(
            PlannedShard(entry["key"], {key: value for key, value in entry.items() if key != "key"})
            for entry in entries
        )
        return cls(table["settings"], table["options"], shards)

    def describe_change(self, new: "BuildPlan", *, is_task: bool) -> str | None:
        """Describe why the parts of this plan cannot be used for a new one; None if they can."""
        pairs = [(self.settings, new.settings), *([(self.options, new.options)] if is_task else [])]
        for old_values, new_values in pairs:
            for setting in sorted({*old_values, *new_values}):
                before, now = (
                    json.dumps(values.get(setting), ensure_ascii=False) for values in (old_values, new_values)
                )
                if before != now:
                    return f"{setting} {before}, not {now}"
        new_keys = [shard.key for shard in new.shards]
        if is_task and new_keys != [shard.key for shard in self.shards]:
            changed = _files_of(shard for shard in self.shards if shard.key not in new_keys)
            return f"other text: {changed[0]} has changed" if changed else "less text"
        files = _files_of(self.shards)
        if not is_task and files and not {*files} & {*_files_of(new.shards)}:
            return f"other text: {files[0]} is no longer an input"
        return None


def sha256_of_output(directory: Path) -> str | None:
    """Return the SHA-256 of the manifest of the output that was made of the parts in a directory, if it was.

    Raises:
        OSError: there is no plan.
        ValueError: it is damaged.
    """
    sha256 = json.loads((directory / PLAN_FILE).read_text("utf-8")).get("manifest_sha256")
    return None if sha256 is None else str(sha256)


def _files_of(shards: Iterable[PlannedShard]) -> list[str]:
    return [file for shard in shards for file in shard.files]


def _shard_key(input_shard: InputShard) -> str:
    """Hash a shard and the versions of its files. Text from stdin is different each time."""
    files = {file_range.file for file_range in input_shard.ranges}
    content = [input_shard.as_dict(), {file: file_version(file) for file in sorted(files)}]
    if STDIN in files:
        content.append({"run": uuid.uuid4().hex})
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()
