"""Read the lines that a training run has appended to its `metrics.jsonl` since the last request."""

import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloze.errors import InputError
from cloze.run_files import METRICS


@dataclass(frozen=True, slots=True)
class MetricsTail:
    """The metrics of a run after a place; the field names are those of the JSON response."""

    rows: tuple[dict[str, Any], ...]
    """Complete lines, without values that JSON cannot express (NaN, infinity)."""
    place: str
    """Where the next request continues: the file's inode and an offset in bytes."""
    is_anew: bool
    """Whether the rows start the file: nothing was read before, or the file was rewritten, as on resuming."""
    more: bool
    """Whether more rows can be read at once."""
    seconds_since_change: float


def read_new_rows(run: Path, after: str = "", *, max_bytes: int = 1 << 20) -> MetricsTail:
    """Read the metrics of a run after a place.

    Args:
        run: the run directory.
        after: the `place` of the previous call; empty for the first.
        max_bytes: maximum number of bytes to read.

    Raises:
        InputError: the directory has no metrics.
    """
    try:
        with (run / METRICS).open("rb") as stream:
            status = os.fstat(stream.fileno())
            inode, _, offset = after.partition(":")
            continues = inode == str(status.st_ino) and offset.isdecimal() and int(offset) <= status.st_size
            start = int(offset) if continues else 0
            stream.seek(start)
            data = stream.read(max_bytes)
    except OSError:
        raise InputError(f"no {METRICS}: not a run, or not started yet", where=run.name) from None
    complete = data[: data.rfind(b"\n") + 1]  # the last line may be half written
    return MetricsTail(
        rows=tuple(row for line in complete.splitlines() if (row := _parse_row(line)) is not None),
        place=f"{status.st_ino}:{start + len(complete)}",
        is_anew=start == 0,
        more=len(data) == max_bytes and bool(complete),  # a line longer than max_bytes is not metrics
        seconds_since_change=max(0.0, time.time() - status.st_mtime),
    )


def _parse_row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not (isinstance(row, dict) and isinstance(row.get("step"), int) and isinstance(row.get("kind"), str)):
        return None
    return {
        name: value for name, value in row.items() if not isinstance(value, float) or math.isfinite(value)
    }
