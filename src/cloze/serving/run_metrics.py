"""Read the lines that a training run has appended to its `metrics.jsonl` since the last request."""

import json
import math
import os
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloze.artifacts import RUN_CONFIG
from cloze.errors import InputError
from cloze.run_files import METRICS
from cloze.training.metrics_log import END

_LAST_LINE_BYTES = 256
"""At the end of the metrics, enough for a line of the kind "end"."""


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
    is_finished: bool
    """Whether the run has completed; never while more rows can be read."""
    budget: float | None
    """The steps or seconds of the run, if `run.toml` says so."""
    budget_unit: str | None
    """"steps" or "seconds"."""


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
    rows = tuple(row for line in complete.splitlines() if (row := _parse_row(line)) is not None)
    unit, budget = _read_budget(run)
    return MetricsTail(
        rows=tuple(row for row in rows if row["kind"] != END),
        place=f"{status.st_ino}:{start + len(complete)}",
        is_anew=start == 0,
        more=len(data) == max_bytes and bool(complete),  # a line longer than max_bytes is not metrics
        seconds_since_change=max(0.0, time.time() - status.st_mtime),
        is_finished=_is_finished(run),
        budget=budget,
        budget_unit=unit,
    )


def _is_finished(run: Path) -> bool:
    """Return whether the last line of the metrics says that the run has completed."""
    with (run / METRICS).open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - _LAST_LINE_BYTES))
        last = stream.read().splitlines()[-1:]
    return bool(last) and (row := _parse_row(last[0])) is not None and row["kind"] == END


def _read_budget(run: Path) -> tuple[str | None, float | None]:
    """Return the unit and the size of a pre-training run's budget, or None where `run.toml` does not say."""
    try:
        settings = tomllib.loads((run / RUN_CONFIG).read_text("utf-8"))
    except (OSError, ValueError):
        return None, None
    for unit, name in (("steps", "steps"), ("seconds", "budget_seconds")):
        value = settings.get(name)
        if isinstance(value, int | float) and value > 0:
            return unit, value
    return None, None


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
