"""Following a run: the lines of its `metrics.jsonl` that are new since it was last asked."""

import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloze.errors import InputError
from cloze.training.metrics_log import METRICS

_MOST_BYTES = 1 << 20  # of an answer; who is behind asks again


@dataclass(frozen=True, slots=True)
class NewRows:
    """What a run wrote after a place."""

    rows: tuple[dict[str, Any], ...]
    """Whole lines; a number that JSON has no word for (NaN, infinity) is left out of its row."""
    place: str
    """Where to go on: the file and the bytes of it that were read."""
    is_anew: bool
    """Whether these are its first rows: none were read before, or the file was written anew, as a run is that begins
    again, or forgets what came after the checkpoint that it is resumed from."""
    more: bool
    """Whether there is more to read already."""
    seconds_since_change: float


def new_rows(run: Path, after: str = "") -> NewRows:
    """Read what a run wrote to its metrics after a place.

    Args:
        run: its directory.
        after: the place that was given back last; none at first.

    Raises:
        InputError: there are no metrics.
    """
    try:
        with (run / METRICS).open("rb") as stream:
            found = os.fstat(stream.fileno())
            file, _, offset = after.partition(":")
            is_same = file == str(found.st_ino) and offset.isdecimal() and int(offset) <= found.st_size
            start = int(offset) if is_same else 0
            stream.seek(start)
            read = stream.read(_MOST_BYTES)
    except OSError:
        raise InputError(f"not a run, or not yet: no {METRICS}", where=run.name) from None
    whole = read[: read.rfind(b"\n") + 1]  # the last line may be half written
    place = f"{found.st_ino}:{start + len(whole)}"
    rows = tuple(row for line in whole.splitlines() if (row := _row(line)) is not None)
    more = len(read) == _MOST_BYTES and bool(whole)  # a line longer than that is no metrics
    return NewRows(rows, place, start == 0, more, max(0.0, time.time() - found.st_mtime))


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not (isinstance(row, dict) and isinstance(row.get("step"), int) and isinstance(row.get("kind"), str)):
        return None
    return {
        name: value for name, value in row.items() if not isinstance(value, float) or math.isfinite(value)
    }
