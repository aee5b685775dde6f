"""Following a run: the lines of its `metrics.jsonl` that are new since it was last asked."""

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloze.errors import InputError
from cloze.training.metrics_log import METRICS

_MOST_BYTES = 1 << 20  # of an answer; who is behind asks again


@dataclass(frozen=True, slots=True)
class NewRows:
    """What a run wrote after an offset."""

    rows: tuple[dict[str, Any], ...]
    """Whole lines; a number that JSON has no word for (NaN, infinity) is left out of its row."""
    offset: int
    """Bytes read so far: where to go on. It is less than was asked for where the file was written anew."""
    more: bool
    """Whether there is more to read already."""
    seconds_since_change: float


def new_rows(run: Path, offset: int) -> NewRows:
    """Read what a run wrote to its metrics after an offset.

    Args:
        run: its directory.
        offset: bytes, as it was given back last; 0 at first.

    Raises:
        InputError: there are no metrics.
    """
    try:
        with (run / METRICS).open("rb") as stream:
            size = stream.seek(0, 2)
            start = (
                offset if offset <= size else 0
            )  # a resumed run forgets what it wrote after its checkpoint
            stream.seek(start)
            read = stream.read(_MOST_BYTES)
        changed = (run / METRICS).stat().st_mtime
    except OSError:
        raise InputError(f"not a run, or not yet: no {METRICS}", where=run.name) from None
    whole = read[: read.rfind(b"\n") + 1]  # the last line may be half written
    end = start + len(whole)
    rows = tuple(row for line in whole.splitlines() if (row := _row(line)) is not None)
    more = len(read) == _MOST_BYTES and bool(whole)  # a line longer than that is no metrics
    return NewRows(rows, end, more, max(0.0, time.time() - changed))


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
