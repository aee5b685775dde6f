"""The length of a run: in optimizer steps, or on the clock."""

import re
from dataclasses import dataclass

from cloze.errors import InputError


@dataclass(frozen=True, slots=True)
class Budget:
    """A number of optimizer steps, a time, or steps cut short after a time; the schedule and the phases follow it."""

    steps: int | None = None
    seconds: float | None = None
    """Time of steps and of saving; evaluations come on top."""

    @property
    def total(self) -> float:
        """Total units."""
        return self.seconds or 0.0 if self.steps is None else self.steps

    @property
    def unit(self) -> str:
        """The name of a unit."""
        return "seconds" if self.steps is None else "steps"

    def used(self, step: int, elapsed_seconds: float) -> float:
        """Return the units used up; of steps within a time, the larger share of both."""
        if self.seconds is None:
            return step
        share = min(elapsed_seconds / self.seconds, 1.0)
        return self.total * share if self.steps is None else max(float(step), self.total * share)

    def round_down(self, fraction: float) -> float:
        """Round a fraction of the run down to whole steps, as Google's code does; on the clock leave it."""
        return fraction if self.steps is None else int(self.steps * fraction) / self.steps


def parse_duration(text: str) -> float:
    """Read "90s", "30m", "1.5h" or "2h30m" as seconds.

    >>> parse_duration("2h30m")
    9000.0
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    seconds = sum(float(number) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or seconds <= 0:
        raise InputError(f"cannot read {text!r} as a time", where="budget", remedy="Write 90s, 30m or 2h")
    return float(seconds)
