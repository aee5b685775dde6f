"""`metrics.jsonl`, one object per line, and TensorBoard events if tensorboardX is installed."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cloze import file_io
from cloze.errors import InputError

METRICS = "metrics.jsonl"
VALIDATION = "validation"
"""The kind of the lines of evaluations."""


class MetricsLog:
    """Appends to a run's metrics; a resumed run first drops the lines after its checkpoint."""

    def __init__(self, run: Path, *, resume_step: int) -> None:
        with file_io.disk_errors(run):
            run.mkdir(parents=True, exist_ok=True)
        self._path = run / METRICS
        if self._path.exists():
            kept = [row for row in read_metrics(run) if row["step"] <= resume_step]
            file_io.write_text(self._path, "".join(json.dumps(row) + "\n" for row in kept))
        else:
            file_io.write_text(self._path, "")
        self._events: Any = None
        if find_spec("tensorboardX") is not None:
            from tensorboardX import SummaryWriter

            self._events = SummaryWriter(str(run / "tensorboard"), purge_step=resume_step + 1)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Append one line.

        Args:
            kind: "train", "validation", "skipped" or "halved".
            step: completed optimizer steps.
            values: numbers or text.
        """
        row = {"kind": kind, "step": step, **values}
        with file_io.disk_errors(self._path), self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
        if self._events is not None:
            for name, value in values.items():
                if isinstance(value, (int, float)):
                    self._events.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Flush TensorBoard's events."""
        if self._events is not None:
            self._events.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Return the rows of a run's metrics, without a last line that a kill cut short.

    Raises:
        InputError: there is no such file, or a line other than the last is damaged.
    """
    path = Path(run) / METRICS
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        what, remedy = "not a run: it has no metrics.jsonl", "Give the directory of a run"
        raise InputError(what, where=run, remedy=remedy) from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number < len(lines):
                raise InputError("not a JSON object", where=f"{path}:{number}") from error
            break
        if not (isinstance(row, dict) and isinstance(row.get("step"), int) and "kind" in row):
            what = "not a row of metrics: kind or step is missing"
            raise InputError(what, where=f"{path}:{number}")
        rows.append(row)
    return rows
