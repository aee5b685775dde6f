"""Show progress on stderr: bars with an ETA on a terminal, a line every few seconds in a log file."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

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
    in_flags: Callable[[str], str] = str
    """Returns a text with flags in the place of parameters in backticks; the command line sets it."""

    def note(self, text: str) -> None:
        """Print one line."""
        if not self.quiet:
            print(escape_controls(self.in_flags(text)), file=sys.stderr, flush=True)  # noqa: T201

    @contextmanager
    def bar(self, label: str, *, total: float | None, unit: str = "", done: float = 0.0) -> Iterator[Bar]:
        """Yield a progress bar.

        Args:
            total: number of units; None if unknown.
            done: units finished earlier, which do not count for the speed.
        """
        if self.quiet:
            yield SILENT_BAR
            return
        is_terminal = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
        bar = _ShownBar(escape_controls(label), total, unit, done, self.clock, is_log=not is_terminal)
        if is_terminal:
            from rich.console import Console  # most commands show no bar
            from rich.live import Live

            with Live(bar, console=Console(stderr=True), refresh_per_second=10):
                yield bar
        else:
            yield bar
            bar.write()


SILENT = Progress(quiet=True)
SILENT_BAR = Bar()


def resolve_progress(progress: bool | Progress) -> Progress:  # noqa: FBT001
    """Return the progress that an argument stands for: True shows it."""
    if isinstance(progress, Progress):
        return progress
    return Progress() if progress else SILENT


@dataclass
class _ShownBar(Bar):
    """A line with bar, count and times, and below it a line with values; in a log file a line every few seconds.

    On a narrow terminal the bar shrinks, then gives way, as do the label and the last values.
    """

    label: str
    total: float | None
    unit: str
    done: float
    clock: Callable[[], float]
    is_log: bool
    values: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.done_before = self.done
        self.start = self.written = self.clock()

    def advance(self, amount: float) -> None:
        self.done += amount
        if self.is_log and self.clock() - self.written >= _LOG_INTERVAL_SECONDS:
            self.write()

    def show(self, **values: object) -> None:
        self.values = values

    def write(self) -> None:
        self.written = self.clock()
        values = f" {join_values(self.values)}" if self.values else ""
        line = escape_controls(f"{self.label}: {self._count_and_times(values)}")
        print(line, file=sys.stderr, flush=True)  # noqa: T201

    def _count_and_times(self, values: str = "") -> str:
        done, total, elapsed = self.done, self.total or 0, self.clock() - self.start
        count = f"{done:,.0f}{f'/{total:,.0f}' if total else ''} {self.unit}{values}".rstrip()
        eta = ""
        if self.done_before < done and round(done) < round(total):
            eta = f", {format_duration(elapsed / (done - self.done_before) * (total - done))} left"
        return f"{count} [{format_duration(elapsed)}{eta}]"

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        width, text, total = options.max_width, self._count_and_times(), self.total
        bar_width = min(width - len(self.label) - len(text) - 2, _MAX_BAR_WIDTH)
        if bar_width < _MIN_BAR_WIDTH:
            words = f"{self.label} {text}"
            yield Text(words if len(words) <= width else text, no_wrap=True)
        else:
            bar = ProgressBar(total, self.done, bar_width, pulse=total is None, animation_time=self.clock())
            line = Table.grid(padding=(0, 1))
            line.add_row(Text(self.label), bar, text)
            yield line
        if values := join_values(self.values, width - 2):
            yield Text(f"  {values}", no_wrap=True)


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
