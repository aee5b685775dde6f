"""How long a run lasts: in optimizer steps, or on the clock."""

import re
from dataclasses import dataclass
from typing import Protocol

from cloze.errors import InputError


class Budget(Protocol):
    """What tells the loop how far a run is; the schedule, the phases and the evaluations follow it."""

    @property
    def total(self) -> float:
        """Units in all."""

    @property
    def unit(self) -> str:
        """The name of a unit."""

    def used(self, step: int, elapsed_seconds: float) -> float:
        """Units used up."""

    def whole(self, fraction: float) -> float:
        """A fraction of the run, cut to whole units where these are steps, as Google's code does."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A number of optimizer steps: the same run gives the same bits."""

    total: int
    unit: str = "steps"

    def used(self, step: int, elapsed_seconds: float) -> float:
        """Return the number of completed steps."""
        return step

    def whole(self, fraction: float) -> float:
        """Return the fraction that whole steps are."""
        return int(self.total * fraction) / self.total


@dataclass(frozen=True, slots=True)
class Clock:
    """A time in seconds, validation and saving included: the schedule reaches zero when it is up."""

    total: float
    unit: str = "seconds"

    def used(self, step: int, elapsed_seconds: float) -> float:
        """Return the seconds spent, those before a resume included."""
        return min(elapsed_seconds, self.total)

    def whole(self, fraction: float) -> float:
        """Return the fraction as it is."""
        return fraction


@dataclass(frozen=True, slots=True)
class StepsWithin:
    """A number of optimizer steps, or as many of them as a time allows: then the schedule follows the clock."""

    total: int
    seconds: float
    unit: str = "steps"

    def used(self, step: int, elapsed_seconds: float) -> float:
        """Return the share that is over, of the steps or of the time, counted in steps."""
        return max(float(step), self.total * min(elapsed_seconds / self.seconds, 1.0))

    def whole(self, fraction: float) -> float:
        """Return the fraction that whole steps are."""
        return Steps(self.total).whole(fraction)


def parse_duration(text: str) -> float:
    """Read "90s", "30m", "1.5h" or "2h30m" as seconds.

    Raises:
        InputError: it is none of these, or not positive.

    >>> parse_duration("2h30m")
    9000.0
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    seconds = sum(float(number) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or seconds <= 0:
        raise InputError(f"cannot read {text!r} as a time", where="--budget", remedy="Write 90s, 30m or 2h")
    return float(seconds)
