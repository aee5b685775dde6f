"""How two sides are compared: in turn, in one process, after a warm-up, and only if they compute the same.

Machines drift (clocks, neighbours), so the sides alternate A B A B and every figure is a median over the rounds,
with the least and the most beside it.
"""

import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module, metadata
from pathlib import Path
from statistics import fmean, median
from types import ModuleType
from typing import Any, Protocol

import torch

from cloze import artifacts
from cloze.errors import InputError, RunError
from cloze.extras import require
from cloze.progress import SILENT, Progress
from cloze.training.environment import describe_environment

RECORD_KIND = "record"
LEAST_ROUNDS = 5
"""Fewer are for trying a benchmark out; a record says how many there were."""

_STATUS = Path("/proc/self/status")
_RUSAGE_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes

Prepared = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Side:
    """One of those compared.

    Args:
        name: what it is called, as "cloze" or "transformers".
        does: in a sentence, what is timed.
        prepare: does what is not timed, and returns what is.
    """

    name: str
    does: str
    prepare: Callable[[], Prepared]


@dataclass(frozen=True, slots=True)
class Timing:
    """What one side took, round by round."""

    name: str
    does: str
    seconds: tuple[float, ...]
    """For one piece of work, in each round."""

    @property
    def median(self) -> float:
        """The median over the rounds, in seconds."""
        return median(self.seconds)


@dataclass(frozen=True, slots=True)
class Check:
    """Something that both sides computed, and how far they may be apart."""

    what: str
    difference: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the sides agree."""
        return self.difference <= self.tolerance


@dataclass(frozen=True, slots=True)
class Limit:
    """What the machine could do at most."""

    what: str
    rate: float
    """In units of the work a second."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a benchmark found. The first side is ours; the others are measured against it."""

    name: str
    settings: dict[str, Any]
    amount: float
    """Units in one piece of work."""
    unit: str
    timings: tuple[Timing, ...]
    checks: tuple[Check, ...]
    environment: dict[str, Any]
    limit: Limit | None = None
    notes: tuple[str, ...] = field(default=())
    results: dict[str, Any] = field(default_factory=dict)
    """What was found besides times, for programs; the notes tell it to people."""

    def rate(self, seconds: float) -> float:
        """Turn the time of one piece of work into units a second."""
        return self.amount / seconds

    def as_dict(self) -> dict[str, Any]:
        """Return settings and figures as what JSON can say."""
        ours = self.timings[0]
        sides = []
        for timing in self.timings:
            side: dict[str, Any] = {
                "name": timing.name,
                "does": timing.does,
                "median": self.rate(timing.median),
                "min": self.rate(max(timing.seconds)),
                "max": self.rate(min(timing.seconds)),
                "cloze_is_times_as_fast": timing.median / ours.median,
                "seconds": list(timing.seconds),
            }
            if self.limit is not None:
                side["share_of_limit"] = self.rate(timing.median) / self.limit.rate
            sides.append(side)
        return {
            "benchmark": self.name,
            "settings": self.settings,
            "unit": f"{self.unit}/s",
            "sides": sides,
            "limit": None if self.limit is None else asdict(self.limit),
            "checks": [{**asdict(check), "holds": check.holds} for check in self.checks],
            "notes": list(self.notes),
            **self.results,
            "environment": self.environment,
        }

    def as_text(self) -> str:
        """Return a table for a person."""
        table = self.as_dict()
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        width = max(len(timing.name) for timing in self.timings)
        head = f"{'':<{width}} {'median':>12} {'min':>12} {'max':>12}  cloze is"
        lines = [f"{self.name}: {settings}", "", f"{self.unit}/s".ljust(width) + head[width:]]
        if self.limit is not None:
            lines[-1] += "  of limit"
        for side in table["sides"]:
            figures = " ".join(f"{_figure(side[name]):>12}" for name in ("median", "min", "max"))
            line = f"{side['name']:<{width}} {figures}  {side['cloze_is_times_as_fast']:7.2f}x"
            lines.append(line + (f"  {side['share_of_limit']:8.1%}" if "share_of_limit" in side else ""))
        if self.limit is not None:
            lines.append(f"{'limit':<{width}} {_figure(self.limit.rate):>12}  {self.limit.what}")
        lines.append("")
        lines += [f"{timing.name}: {timing.does}" for timing in self.timings]
        lines += self.notes
        for check in self.checks:
            verdict = "agree" if check.holds else "DISAGREE"
            lines.append(
                f"{check.what}: both sides {verdict}, {check.difference:.2g} apart (at most {check.tolerance:.2g})"
            )
        return "\n".join(lines)

    def pictures(self) -> dict[str, str]:
        """Return none: the table says it."""
        return {}

    def require_agreement(self) -> None:
        """Raise where the sides did not compute the same thing: their times say nothing then.

        Raises:
            RunError: a check does not hold.
        """
        require_checks(self.name, self.checks)


def require_checks(name: str, checks: Sequence[Check]) -> None:
    """Raise where the sides of a benchmark did not compute the same thing.

    Raises:
        RunError: a check does not hold.
    """
    for check in checks:
        if not check.holds:
            what = f"{check.what}: the sides are {check.difference:.2g} apart, at most {check.tolerance:.2g}"
            raise RunError(what, where=f"bench {name}", remedy="Their times cannot be compared")


def alternate(
    sides: Sequence[Side],
    *,
    rounds: int,
    min_seconds: float = 1.0,
    warmup: int = 1,
    progress: Progress = SILENT,
) -> tuple[Timing, ...]:
    """Time the sides in turn.

    Args:
        sides: ours first.
        rounds: how often each has its turn.
        min_seconds: a turn repeats its work until this much time is over.
        warmup: turns of each side that are not counted.
        progress: where to tell how far it is.
    """
    if rounds < 1:
        raise InputError(f"{rounds} rounds", where="--rounds", remedy=f"Take {LEAST_ROUNDS} or more")
    seconds: dict[str, list[float]] = {side.name: [] for side in sides}
    gc.collect()
    with progress.bar("measuring", total=(warmup + rounds) * len(sides), unit="turns") as bar:
        for number in range(warmup + rounds):
            for side in sides:
                taken = _turn(side, min_seconds)
                if number >= warmup:
                    seconds[side.name].append(taken)
                bar.advance(1)
                bar.show(side=side.name, seconds=f"{taken:.3g}")
    return tuple(Timing(side.name, side.does, tuple(seconds[side.name])) for side in sides)


def _turn(side: Side, min_seconds: float) -> float:
    """Return the mean time of one piece of work."""
    seconds: list[float] = []
    end = time.perf_counter() + min_seconds
    while not seconds or time.perf_counter() < end:
        work = side.prepare()
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return fmean(seconds)


def matrix_product_rate(device: torch.device, dtype: torch.dtype) -> tuple[float, int]:
    """Measure the machine's rate of square matrix products, the best of several.

    Returns:
        FLOP/s, and the size of the matrices: as large as it takes to keep the device busy.
    """
    size = 1024 if device.type == "cpu" else 8192
    left = torch.randn(size, size, device=device).to(dtype)
    right = torch.randn(size, size, device=device).to(dtype)
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        left @ right
        wait_for(device)
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best, size


def wait_for(device: torch.device) -> None:
    """Wait until a device has done what it was given; a CPU always has."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def peak_bytes() -> int:
    """Return the most memory that this process has had.

    On Linux not as getrusage says it: a process that was spawned begins there with what its parent had.
    """
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RUSAGE_UNIT
    fields = dict(line.split(":", 1) for line in _STATUS.read_text("utf-8").splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


def environment_of(device: torch.device, dtype: torch.dtype, peers: Sequence[str]) -> dict[str, Any]:
    """Return versions, ours and the peers', and the machine."""
    environment = describe_environment(device, dtype)
    environment["versions"] |= {peer: metadata.version(peer) for peer in peers}
    environment["vector_instructions"] = torch.backends.cpu.get_cpu_capability()
    return environment


def import_peer(name: str) -> ModuleType:
    """Import a package that cloze is compared with.

    Raises:
        InputError: it is not installed.
    """
    require([name], extra="bench", where="--vs")
    return import_module(name)


def require_peers(peers: Sequence[str], known: Collection[str]) -> None:
    """Raise unless every peer is one that the benchmark knows.

    Raises:
        InputError: one is not.
    """
    for peer in peers:
        if peer not in known:
            raise InputError(f"no peer {peer!r}", where="--vs", remedy=f"Known are {', '.join(known)}")


class Finding(Protocol):
    """What a benchmark found."""

    @property
    def name(self) -> str:
        """Of the benchmark."""

    @property
    def environment(self) -> dict[str, Any]:
        """Versions and machine."""

    def as_dict(self) -> dict[str, Any]:
        """Return settings and figures as what JSON can say."""

    def as_text(self) -> str:
        """Return a table for a person."""

    def pictures(self) -> dict[str, str]:
        """Return SVG elements by name."""

    def require_agreement(self) -> None:
        """Raise where what was found is not worth telling."""


def write_record(found: Finding, output: Path, *, overwrite: bool) -> None:
    """Write what was found as a directory: `record.json` for programs, `README.md` and pictures for people.

    Raises:
        InputError: `output` exists.
        RunError: it cannot be written.
    """
    environment = json.dumps(found.environment, indent=1)
    pictures = found.pictures()
    shown = "".join(f"![{name}]({name}.svg)\n\n" for name in pictures)
    page = (
        f"# cloze bench {found.name}\n\n```\n{found.as_text()}\n```\n\n{shown}```json\n{environment}\n```\n"
    )
    with artifacts.write_directory(output, kind=RECORD_KIND, overwrite=overwrite) as directory:
        (directory / "record.json").write_text(json.dumps(found.as_dict(), indent=1) + "\n", "utf-8")
        for name, picture in pictures.items():
            (directory / f"{name}.svg").write_text(picture, "utf-8")
        (directory / "README.md").write_text(page, "utf-8")


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
