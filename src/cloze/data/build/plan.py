"""The plan of a build: its settings, and the keys of the parts of each input shard.

A key is a hash of all that makes the parts of a shard: the ranges of its files with their versions, the settings, and
the versions of the packages. So a part that exists needs no check but that of its checksum.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from cloze.config import differences
from cloze.data.build.input_shards import InputShard
from cloze.data.reading.files import STDIN, file_version

STDIN_PREFIX = "stdin-"
"""Of the keys of text that no other build can read again."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """All that an output depends on."""

    settings: Mapping[str, Any]
    """Those of the parts and those of the output."""
    keys: Sequence[str]
    """Of the input shards, in order. That of a shard that was named twice is here twice."""
    files: Sequence[str]
    """The file that each shard begins in."""
    input_shards: Mapping[str, InputShard] = field(default_factory=dict)
    """The text to read, by key; not in JSON, since the merge of parts does not read."""

    @classmethod
    def of(
        cls,
        input_shards: Sequence[InputShard],
        part_settings: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> "BuildPlan":
        """Return the plan of a build.

        Args:
            input_shards: the text to read.
            part_settings: all that a part depends on, except its text.
            settings: all that the output depends on, except its parts.
        """
        keys = [_key(shard, part_settings) for shard in input_shards]
        files = [shard.ranges[0].file for shard in input_shards]
        return cls({**part_settings, **settings}, keys, files, dict(zip(keys, input_shards, strict=True)))

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> "BuildPlan":
        """Return the inverse of `as_json`."""
        return cls(table["settings"], table["keys"], table["files"])

    def as_json(self) -> dict[str, Any]:
        """Return it without its input shards."""
        return {"settings": self.settings, "keys": self.keys, "files": self.files}

    @property
    def hash(self) -> str:
        """Hash of all of it."""
        return content_hash(self.as_json())

    def describe_change(self, new: "BuildPlan") -> str | None:
        """Describe why an output of this plan would not be that of a new one; None if it is the same."""
        for setting, values in sorted(differences(self.settings, new.settings).items()):
            before, now = (json.dumps(value, ensure_ascii=False) for value in values)
            return f"{setting} {before}, not {now}"
        if new.keys == self.keys:
            return None
        changed = [file for key, file in zip(self.keys, self.files, strict=True) if key not in new.keys]
        return f"other text: {changed[0]} has changed" if changed else "less text"


def _key(input_shard: InputShard, settings: Mapping[str, Any]) -> str:
    """Return the key of the parts of a shard.

    The version of a file is its size and the time of its modification: a hash of its content would read all text once
    more whenever a build resumes. Text from stdin is different each time.
    """
    files = sorted({file_range.file for file_range in input_shard.ranges})
    if STDIN in files:
        return STDIN_PREFIX + uuid.uuid4().hex
    return content_hash([asdict(input_shard), {file: file_version(file) for file in files}, dict(settings)])


def content_hash(content: object) -> str:
    """Hash a JSON value."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
