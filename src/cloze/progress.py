"""Show progress on stderr: bars with an ETA on a terminal, a line every few seconds in a log file."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.progress import Progress as RichProgress
from rich.progress import ProgressColumn, Task
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cloze.tables import fit_terminal
from cloze.text_encoding import escape_controls

_LOG_INTERVAL_SECONDS = 10.0
_MIN_BAR_WIDTH, _MAX_BAR_WIDTH = 5, 40
_TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_torchrun() -> bool:
    """Return whether torchrun, or a program that sets the same variables, started this process."""
    return all(name in os.environ for name in _TORCHRUN_VARIABLES)


def is_rank_zero() -> bool:
    """Return whether this process prints the results of a run: the first rank of torchrun, or without torchrun."""
    return not is_torchrun() or os.environ["RANK"] == "0"


class Bar:
    """A progress bar; this one shows nothing."""

    def advance(self, amount: float) -> None:
        """Add finished units."""

    def show(self, **values: object) -> None:
        """Show values (loss, tokens/s) below the bar, the most useful first."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress output of long functions, and their clock. `SILENT` prints nothing."""

    quiet: bool = False
    clock: Callable[[], float] = time.monotonic
    """Seconds since some moment; training runs take the time from it, too."""

    def note(self, text: str) -> None:
        """Print one line."""
        if not self.quiet:
            print(fit_terminal(text, sys.stderr), file=sys.stderr, flush=True)  # noqa: T201

    @contextmanager
    def bar(self, label: str, *, total: float | None, unit: str = "", done: float = 0.0) -> Iterator[Bar]:
        """Yield a progress bar.

        Args:
            total: number of units; None if unknown.
            done: units finished earlier, which do not count for the speed.
        """
        label = escape_controls(label)
        if self.quiet:
            yield SILENT_BAR
        elif sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
            console = Console(stderr=True)
            with RichProgress(_Lines(console), console=console, speed_estimate_period=60.0) as rich:
                yield _RichBar(rich, label, total, unit, done)
        else:
            log = _LogBar(label, total, unit, done, self.clock)
            yield log
            log.write()


SILENT = Progress(quiet=True)
SILENT_BAR = Bar()


def resolve_progress(progress: bool | Progress) -> Progress:  # noqa: FBT001
    """Return the progress that an argument stands for: True shows it."""
    if isinstance(progress, Progress):
        return progress
    return Progress() if progress else SILENT


class _Lines(ProgressColumn):
    """A line with bar, count and times, and below it a line with values.

    On a narrow terminal the bar shrinks, then gives way, as do the label and the last values.
    """

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def render(self, task: Task) -> RenderableType:
        width = self._console.width
        label, left = task.description, task.time_remaining if task.total else None
        text = _count_and_times(task.completed, task.total, task.fields["unit"], task.elapsed or 0.0, left)
        bar_width = min(width - len(label) - len(text) - 2, _MAX_BAR_WIDTH)
        first = Table.grid(padding=(0, 1))
        if bar_width < _MIN_BAR_WIDTH:
            words = f"{label} {text}"
            first.add_row(Text(words if len(words) <= width else text, no_wrap=True))
        else:
            time = task.get_time()
            bar = ProgressBar(
                task.total, task.completed, bar_width, pulse=task.total is None, animation_time=time
            )
            first.add_row(label, bar, text)
        values = join_values(task.fields["values"], width - 2)
        return Group(first, Text(f"  {values}", no_wrap=True)) if values else first


class _RichBar(Bar):
    def __init__(self, rich: RichProgress, label: str, total: float | None, unit: str, done: float) -> None:
        self._rich = rich
        self._task = rich.add_task(label, total=total, completed=int(done), unit=unit, values={})

    def advance(self, amount: float) -> None:
        self._rich.advance(self._task, amount)

    def show(self, **values: object) -> None:
        self._rich.update(self._task, values=values)


class _LogBar(Bar):
    """A line every few seconds; carriage returns would garble a log file."""

    def __init__(
        self, label: str, total: float | None, unit: str, done: float, clock: Callable[[], float]
    ) -> None:
        self._label, self._total, self._unit, self._clock = label, total, unit, clock
        self._done = self._done_before = done
        self._values: dict[str, object] = {}
        self._start = self._last = clock()

    def advance(self, amount: float) -> None:
        self._done += amount
        if self._clock() - self._last >= _LOG_INTERVAL_SECONDS:
            self.write()

    def show(self, **values: object) -> None:
        self._values = values

    def write(self) -> None:
        self._last = self._clock()
        elapsed = self._last - self._start
        left = None
        if self._total and self._done_before < self._done < self._total:
            left = elapsed / (self._done - self._done_before) * (self._total - self._done)
        values = f" {join_values(self._values)}" if self._values else ""
        text = _count_and_times(self._done, self._total, f"{self._unit}{values}", elapsed, left)
        print(escape_controls(f"{self._label}: {text}"), file=sys.stderr, flush=True)  # noqa: T201


def _count_and_times(done: float, total: float | None, unit: str, elapsed: float, left: float | None) -> str:
    of = f"/{total:,.0f}" if total else ""
    is_over = total is not None and round(done) >= round(total)
    eta = "" if left is None or is_over else f", {format_duration(left)} left"
    return f"{done:,.0f}{of} {unit}".rstrip() + f" [{format_duration(elapsed)}{eta}]"


def format_duration(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds.

    >>> format_duration(75), format_duration(7265)
    ('1:15', '2:01:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def join_values(values: Mapping[str, object], max_width: int | None = None) -> str:
    """Return names and values as text, without the last ones that do not fit.

    >>> join_values({"loss": 3.5, "norm": 0.1}, 10)
    'loss 3.5'
    """
    parts = [f"{name} {value}" for name, value in values.items()]
    while max_width is not None and len(" ".join(parts)) > max_width:
        parts.pop()
    return " ".join(parts)
