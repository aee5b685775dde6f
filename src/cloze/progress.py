"""Progress on stderr: bars with an ETA on a terminal, a plain line every few seconds in a log file."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

_LOG_INTERVAL_SECONDS = 10.0
_OF_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_launched() -> bool:
    """Say whether torchrun started this process, or something that tells it the same: then its first rank talks."""
    return all(name in os.environ for name in _OF_TORCHRUN)


class Bar(Protocol):
    """One running piece of work."""

    def advance(self, amount: float) -> None:
        """Say that `amount` more units are done."""

    def show(self, **fields: object) -> None:
        """Put values (loss, tokens/s) beside the bar."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a long function tells how far it is. `SILENT` tells nobody."""

    quiet: bool = False

    def note(self, text: str) -> None:
        """Say one thing."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)  # noqa: T201

    @contextmanager
    def bar(self, label: str, *, total: float | None, unit: str = "", done: float = 0.0) -> Iterator[Bar]:
        """Follow one piece of work.

        Args:
            label: what is being done.
            total: units in all; None where nobody knows.
            unit: the name of a unit, as in "documents".
            done: units that were done before, of which no speed can be told.
        """
        if self.quiet:
            yield _SilentBar()
        elif sys.stderr.isatty():
            with _rich_progress() as rich:
                yield _RichBar(rich, label, total, unit, done)
        else:
            log = _LogBar(label, total, unit, done)
            yield log
            log.write()


SILENT = Progress(quiet=True)


class _SilentBar:
    def advance(self, amount: float) -> None:
        pass

    def show(self, **fields: object) -> None:
        pass


def _rich_progress() -> RichProgress:
    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]} {task.fields[shown]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=Console(stderr=True),
        speed_estimate_period=60.0,
    )


class _RichBar:
    def __init__(self, rich: RichProgress, label: str, total: float | None, unit: str, done: float) -> None:
        self._rich = rich
        self._task = rich.add_task(label, total=total, completed=int(done), unit=unit, shown="")

    def advance(self, amount: float) -> None:
        self._rich.advance(self._task, amount)

    def show(self, **fields: object) -> None:
        self._rich.update(self._task, shown=_join(fields))


class _LogBar:
    """A line every few seconds, since a carriage return makes a mess of a log file."""

    def __init__(self, label: str, total: float | None, unit: str, done: float) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._done = self._done_before = done
        self._fields: dict[str, object] = {}
        self._start = self._last = time.monotonic()

    def advance(self, amount: float) -> None:
        self._done += amount
        if time.monotonic() - self._last >= _LOG_INTERVAL_SECONDS:
            self.write()

    def show(self, **fields: object) -> None:
        self._fields = fields

    def write(self) -> None:
        self._last = time.monotonic()
        elapsed = self._last - self._start
        of, eta = "", ""
        if self._total:
            of = f"/{self._total:,.0f}"
            if self._done_before < self._done < self._total:
                seconds_per_unit = elapsed / (self._done - self._done_before)
                eta = f", {clock(seconds_per_unit * (self._total - self._done))} left"
        line = f"{self._label}: {self._done:,.0f}{of} {self._unit} {_join(self._fields)}".rstrip()
        print(f"{line} [{clock(elapsed)}{eta}]", file=sys.stderr, flush=True)  # noqa: T201


def clock(seconds: float) -> str:
    """Write a duration as hours, minutes and seconds.

    >>> clock(75), clock(7265)
    ('1:15', '2:01:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _join(fields: dict[str, object]) -> str:
    return " ".join(f"{name} {value}" for name, value in fields.items())
