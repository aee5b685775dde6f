"""The plan of a build: its settings, and the keys of the parts of each input shard.

A key is a hash of everything that determines the parts of a shard: the ranges of its files with their versions, the
settings, and the versions of the packages. So a part that exists needs no check but that of its checksum.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cloze.data.build.input_shards import InputShard
from cloze.data.reading.files import STDIN, file_version

STDIN_PREFIX = "stdin-"
"""Prefix of the keys of text from stdin, which no other build can read again."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The settings and the parts of an output."""

    settings: Mapping[str, Any]
    """Settings of the parts and of the output."""
    keys: Sequence[str]
    """Key of each input shard, in order. A shard that was named twice has its key here twice."""
    input_shards: Mapping[str, InputShard]
    """The text to read, by key."""

    @classmethod
    def of(
        cls,
        input_shards: Sequence[InputShard],
        part_settings: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> "BuildPlan":
        """Return the plan of a build.

        Args:
            part_settings: everything that the parts depend on, except their text.
            settings: everything else that the output depends on.
        """
        keys = [_key(shard, part_settings) for shard in input_shards]
        return cls({**part_settings, **settings}, keys, dict(zip(keys, input_shards, strict=True)))

    @property
    def hash(self) -> str:
        """Hash of the settings and the keys."""
        return content_hash([self.settings, self.keys])


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
