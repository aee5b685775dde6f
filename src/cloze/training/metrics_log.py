"""`metrics.jsonl`: one object a line, always written; TensorBoard events where tensorboardX is installed."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cloze import artifacts
from cloze.errors import InputError

METRICS = "metrics.jsonl"
VALIDATION = "validation"
"""The kind of the lines that hold an evaluation."""


class MetricsLog:
    """Appends to a run's metrics; a resumed run first forgets what was logged after its checkpoint."""

    def __init__(self, run: Path, *, resume_step: int) -> None:
        with artifacts.disk_errors(run):
            run.mkdir(parents=True, exist_ok=True)
        self._path = run / METRICS
        if self._path.exists():
            kept = [row for row in read_metrics(run) if row["step"] <= resume_step]
            artifacts.write_text(self._path, "".join(json.dumps(row) + "\n" for row in kept))
        else:
            artifacts.write_text(self._path, "")
        self._events = _event_writer(run, purge_step=resume_step + 1)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Append one line.

        Args:
            kind: "train", "validation", "skipped" or "halved".
            step: completed optimizer steps.
            values: numbers, or text where a number would not say it.
        """
        row = {"kind": kind, "step": step, **values}
        with artifacts.disk_errors(self._path), self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
        if self._events is not None:
            for name, value in values.items():
                if isinstance(value, (int, float)):
                    self._events.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Write what TensorBoard's events still wait for."""
        if self._events is not None:
            self._events.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Return the rows of a run's metrics; a last line cut short by a kill is left out.

    Raises:
        InputError: there is no such file, or a line in its middle is damaged.
    """
    path = Path(run) / METRICS
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise InputError("not a run: it has no metrics.jsonl", where=run) from None
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


def _event_writer(run: Path, *, purge_step: int) -> Any:
    if find_spec("tensorboardX") is None:
        return None
    from tensorboardX import SummaryWriter

    return SummaryWriter(str(run / "tensorboard"), purge_step=purge_step)
