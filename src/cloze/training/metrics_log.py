"""`metrics.jsonl`, one object per line."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cloze import file_io
from cloze.callbacks import Callback
from cloze.errors import InputError

METRICS = "metrics.jsonl"
VALIDATION = "validation"
"""The kind of the lines of evaluations."""
END = "end"
"""The kind of the last line of a run that has used up its budget, or stopped early as configured."""
_MAX_BYTES = 1 << 30


class MetricsLog(Callback):
    """Appends to a run's metrics; a resumed run first drops the lines after its checkpoint."""

    def on_start(self, run: Path, settings: Mapping[str, Any], step: int) -> None:
        self._step = step
        with file_io.disk_errors(run):
            run.mkdir(parents=True, exist_ok=True)
        self._path = run / METRICS
        rows = read_metrics(run) if self._path.exists() else []
        kept = [row for row in rows if row["step"] <= step and row["kind"] != END]
        lines = (json.dumps(file_io.with_nulls(row)) + "\n" for row in kept)
        file_io.write_text(self._path, "".join(lines))

    def on_step(self, step: int, values: Mapping[str, float]) -> None:
        self.on_event(step, "train", values)

    def on_evaluation(self, step: int, values: Mapping[str, float]) -> None:
        self.on_event(step, VALIDATION, values)

    def on_event(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        self._step = step
        row = {"kind": kind, "step": step, **values}
        with file_io.disk_errors(self._path), self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(file_io.with_nulls(row)) + "\n")

    def on_end(self, *, completed: bool) -> None:
        if completed:
            self.on_event(self._step, END, {})


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Return the rows of a run's metrics, without a last line that a kill cut short."""
    path = Path(run) / METRICS
    try:
        lines = file_io.read_file(path, max_bytes=_MAX_BYTES).splitlines()
    except FileNotFoundError:
        what, remedy = "not a run: it has no metrics.jsonl", "Give the directory of a run"
        raise InputError(what, where=run, remedy=remedy) from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines):
                break
            row = None
        if not (isinstance(row, dict) and isinstance(row.get("step"), int) and "kind" in row):
            raise InputError("not a row of metrics", where=f"{path}:{number}")
        if row["kind"] == VALIDATION:
            row = {name: math.nan if value is None else value for name, value in row.items()}
        rows.append(row)
    return rows
