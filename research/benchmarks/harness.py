"""Compare contestants: interleaved rounds in one process, after a warm-up, and only if they compute the same.

Clocks and other load drift, so contestants alternate A B A B. Rates are medians over the rounds; a ratio has the
95% interval of its geometric mean over the rounds.
"""

import gc
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import torch

from cloze import artifacts
from cloze.cli.parameters import CommonOptions
from cloze.errors import InputError, RunError
from cloze.optional_dependencies import import_package
from cloze.process import THREAD_VARIABLES
from cloze.progress import Progress
from cloze.suggestions import did_you_mean
from cloze.tables import text_table
from cloze.training.precision import peak_memory
from cloze.training.run_directory import describe_environment
from experiments.differences import paired_difference

Peers: TypeAlias = str
EncoderSize: TypeAlias = Literal["tiny", "mini", "small", "medium", "base", "large"]
TimedFunction = Callable[[], object]

CPU = torch.device("cpu")
Value = TypeVar("Value")

_LONG_SECONDS = 0.5
"""A matrix product that takes longer than this is not repeated."""
_BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"


@dataclass(frozen=True, slots=True)
class Contestant:
    """A program, or one way of using it, that is timed."""

    name: str
    does: str
    """The timed work, in one sentence."""
    prepare: Callable[[], TimedFunction]
    """Untimed preparation, which returns the timed work."""


def repeat(work: TimedFunction) -> Callable[[], TimedFunction]:
    """Return the preparation of work that needs none."""
    return lambda: work


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that a contestant took for one piece of work, in each round."""

    name: str
    does: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return median(self.seconds)


@dataclass(frozen=True, slots=True)
class Check:
    """A comparison of results, without which times could not be compared."""

    what: str
    difference: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the contestants agree."""
        return self.difference <= self.tolerance

    def __str__(self) -> str:
        verdict = "agree" if self.holds else "DISAGREE"
        return f"{self.what}: {verdict}, {self.difference:.2g} apart (at most {self.tolerance:.2g})"


@dataclass(frozen=True, slots=True)
class Limit:
    """The rate that the machine could reach at most."""

    what: str
    rate: float
    """Units of the work per second."""


@dataclass(frozen=True, slots=True)
class Result:
    """The findings of a benchmark."""

    name: str
    record: Mapping[str, Any]
    """Settings, figures and machine, as `record.json` has them."""
    text: str
    checks: Sequence[Check] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    """By peer, why it was not compared."""

    def require_agreement(self) -> None:
        """Refuse times of contestants that did not compute the same, and a comparison that lacks a peer."""
        for check in self.checks:
            if not check.holds:
                what = f"{check.what}: {check.difference:.2g} apart, at most {check.tolerance:.2g}"
                raise RunError(what, where=f"benchmarks {self.name}", remedy="The figures cannot be compared")
        if self.failures:
            reasons = "; ".join(f"{peer} ({reason})" for peer, reason in self.failures.items())
            raise RunError(f"not compared: {reasons}", where=f"benchmarks {self.name}")

    def write(self, output: Path, *, overwrite: bool = False) -> None:
        """Write a directory with `record.json` and `README.md`."""
        environment = json.dumps(self.record["environment"], indent=1)
        page = f"# python -m benchmarks {self.name}\n\n```\n{self.text}\n```\n\n```json\n{environment}\n```\n"
        with artifacts.write_directory(output, kind="record", overwrite=overwrite) as directory:
            (directory / "record.json").write_text(json.dumps(self.record, indent=1) + "\n", "utf-8")
            (directory / "README.md").write_text(page, "utf-8")


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Flags of every benchmark; a subclass adds its own and `run`."""

    name: ClassVar[str]

    output: Path | None = None
    """Directory for a record of figures, machine and versions."""
    overwrite: bool = False
    """Replace the output if it exists."""
    flags: CommonOptions = field(default_factory=CommonOptions)
    failures: dict[str, str] = field(default_factory=dict, init=False)
    """By peer, why it is not compared."""

    @contextmanager
    def attempt(self, peer: str) -> Iterator[None]:
        """Leave out a peer that is missing or fails, and note why; wrong flags are errors."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            self.failures[peer] = reason
            self.progress.note(f"{peer} is not compared: {reason}")

    def run(self) -> Result:
        """Run the benchmark."""
        raise NotImplementedError

    @property
    def progress(self) -> Progress:
        """The progress of the command."""
        return self.flags.progress


@dataclass(frozen=True, kw_only=True)
class TimedBenchmark(Benchmark):
    """Flags of a benchmark that times contestants in turn; a subclass adds its own and `compare_in`."""

    peers_known: ClassVar[Collection[str]] = ("transformers",)

    vs: Peers = "transformers"
    """Compared programs: transformers."""
    rounds: int = 5
    """Number of rounds; each round times every contestant once."""
    min_seconds: float = 1.0
    """Repeat the work of a turn for at least this long."""

    def run(self) -> Result:
        """Compare the contestants, with an empty temporary directory for their files."""
        peers = split_names(self.vs, self.peers_known, flag="--vs")
        with TemporaryDirectory(prefix="cloze-bench-") as directory:
            return self.compare_in(Path(directory), peers)

    def compare_in(self, directory: Path, peers: Sequence[str]) -> Result:
        """Prepare the contestants in a directory, check that they compute the same, and time them."""
        raise NotImplementedError

    def measure(self, contestants: Sequence[Contestant], *, busy: int = 0) -> tuple[Timing, ...]:
        """Time contestants in turn, after one round that does not count; a turn repeats its work for `min_seconds`.

        Args:
            busy: number of busy processes; each round then times every contestant once more, beside them, and the
                timings beside them follow the others.
        """
        if self.rounds < 1:
            raise InputError(f"{self.rounds} rounds", where="--rounds", remedy="Choose 5 or more")
        if busy < 0:
            raise InputError(f"{busy} processes", where="--busy", remedy="Choose 0 or more")
        loads = (0, busy) if busy else (0,)
        seconds: dict[tuple[int, str], list[float]] = {
            (load, contestant.name): [] for load in loads for contestant in contestants
        }
        gc.collect()
        with self.progress.bar("measuring", total=(1 + self.rounds) * len(seconds), unit="turns") as bar:
            for number in range(1 + self.rounds):
                for load in loads:
                    with busy_processes(load):
                        for contestant in contestants:
                            elapsed = _time_turn(contestant, self.min_seconds)
                            if number > 0:
                                seconds[load, contestant.name].append(elapsed)
                            bar.advance(1)
                            bar.show(contestant=contestant.name, seconds=f"{elapsed:.3g}")
        return tuple(
            Timing(one.name, one.does, tuple(seconds[load, one.name]))
            for load in loads
            for one in contestants
        )

    def describe(
        self,
        timings: Sequence[Timing],
        *,
        settings: Mapping[str, Any],
        unit: str,
        amount: float = 1.0,
        checks: Sequence[Check] = (),
        notes: Sequence[str] = (),
        environment: Mapping[str, Any] | None = None,
        limit: Limit | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> Result:
        """Compare rates, in units per second, with those of the first contestant.

        Args:
            amount: units in one piece of work.
            environment: by default that of a benchmark on the CPU in float32.
            more: further entries of the record.
        """
        sides = [describe_side(timing, timings[0], amount, limit) for timing in timings]
        record = {
            "benchmark": self.name,
            "settings": settings,
            "unit": f"{unit}/s",
            "sides": sides,
            "limit": None if limit is None else asdict(limit),
            "checks": [{**asdict(check), "holds": check.holds} for check in checks],
            "notes": list(notes),
            "failures": self.failures,
            **(more or {}),
            "environment": environment or describe_machine(peers=filter(None, self.vs.split(","))),
        }
        lines = [heading(self.name, settings), "", _table(f"{unit}/s", sides, limit)]
        if limit is not None:
            lines.append(f"limit: {_figure(limit.rate)} {unit}/s, {limit.what}")
        lines += ["", *(f"{timing.name}: {timing.does}" for timing in timings), *notes, *map(str, checks)]
        lines += [f"{peer} was not compared: {reason}" for peer, reason in self.failures.items()]
        return Result(self.name, record, "\n".join(lines), checks, self.failures)


def describe_side(
    timing: Timing, ours: Timing, amount: float = 1.0, limit: Limit | None = None
) -> dict[str, Any]:
    """Return the rates of a contestant, and how many times as fast ours is."""
    ratio, interval = _times_as_long(timing, ours)
    side: dict[str, Any] = {
        "name": timing.name,
        "does": timing.does,
        "median": amount / timing.median,
        "min": amount / max(timing.seconds),
        "max": amount / min(timing.seconds),
        "cloze_is_times_as_fast": ratio,
        "seconds": list(timing.seconds),
    }
    if timing is not ours and interval is not None:
        side["interval"] = interval
    if limit is not None:
        side["share_of_limit"] = amount / timing.median / limit.rate
    return side


def _table(unit: str, sides: Sequence[Mapping[str, Any]], limit: Limit | None) -> str:
    columns = [unit, "median", "min", "max", "cloze is", "95% interval", *(["of limit"] if limit else [])]
    rows = []
    for side in sides:
        row = [side["name"], *(_figure(side[name]) for name in ("median", "min", "max"))]
        row.append(f"{side['cloze_is_times_as_fast']:.2f}x")
        row.append("{:.2f} to {:.2f}".format(*side["interval"]) if "interval" in side else "")
        rows.append([*row, *([f"{side['share_of_limit']:.1%}"] if limit else [])])
    return text_table(columns, rows)


def heading(name: str, settings: Mapping[str, Any]) -> str:
    """Return the first line of a result: its name and settings."""
    return f"{name}: {', '.join(f'{key} {value}' for key, value in settings.items())}"


def split_names(text: str, known: Collection[str], *, flag: str) -> list[str]:
    """Split a list of names at its commas."""
    names = list(dict.fromkeys(filter(None, text.split(","))))
    for name in names:
        if name not in known:
            raise InputError(f"unknown name {name!r}", where=flag, remedy=did_you_mean(name, known))
    return names


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run processes of equal priority that compute all the time, until the block or this process ends."""
    processes = [subprocess.Popen([sys.executable, "-S", "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def describe_busy(
    idle: Sequence[Timing], busy: Sequence[Timing], processes: int, unit: str, *, amount: float = 1.0
) -> tuple[dict[str, Any], str]:
    """Compare contestants beside busy processes with each other, and each with itself on the idle machine.

    Args:
        amount: units in one piece of work.

    Returns:
        An entry of the record, and text.
    """
    sides, lines = [], []
    for before, beside in zip(idle, busy, strict=True):
        side = describe_side(beside, busy[0], amount)
        ratio, interval = _times_as_long(beside, before)
        side["times_as_long_as_idle"], side["interval_of_idle"] = ratio, interval
        sides.append(side)
        spread = "" if interval is None else " ({:.2f} to {:.2f})".format(*interval)
        lines.append(
            f"{beside.name}: {beside.median * 1e3:.2f} ms, {ratio:.2f} times as long as without them{spread}"
        )
    title = f"beside {processes} busy processes"
    text = "\n".join(["", title, "", _table(f"{unit}/s", sides, None), "", *lines, ""])
    return {"processes": processes, "sides": sides}, text


def _times_as_long(timing: Timing, other: Timing) -> tuple[float, list[float] | None]:
    """Return the ratio of medians, and the 95% interval of the ratio over the rounds, if there are several."""
    if len(timing.seconds) == 1:
        return timing.median / other.median, None
    ratio = paired_difference(*([math.log(seconds) for seconds in one.seconds] for one in (timing, other)))
    return timing.median / other.median, [math.exp(ratio.low), math.exp(ratio.high)]


def _time_turn(contestant: Contestant, min_seconds: float) -> float:
    """Return the mean seconds of one piece of work."""
    seconds: list[float] = []
    end = time.perf_counter() + min_seconds
    while not seconds or time.perf_counter() < end:
        work = contestant.prepare()
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return fmean(seconds)


def import_peer(name: str) -> ModuleType:
    """Import a package that cloze is compared with; a RunError without it."""
    if find_spec(name) is None:
        raise RunError(f"needs the package {name}", remedy=f"Run pip install {name.replace('_', '-')}")
    return import_package(name)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def describe_machine(
    device: torch.device = CPU, dtype: torch.dtype = torch.float32, peers: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the machine and the versions of cloze and its peers, as in "transformers" or "transformers-tuned"."""
    environment = describe_environment(device, dtype)
    packages = [re.sub("-(tuned|compiled|int8)$", "", peer) for peer in peers]
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            environment["versions"][package] = metadata.version(package)
    environment["thread_settings"] = {
        name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ
    }
    environment["vector_instructions"] = torch.backends.cpu.get_cpu_capability()
    return environment


def dtype_name(dtype: torch.dtype) -> str:
    """Return a number format as settings have it, as in "float32"."""
    return str(dtype).removeprefix("torch.")


def synchronize(device: torch.device) -> None:
    """Wait until a device has finished its work."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def matrix_product_rate(device: torch.device, dtype: torch.dtype) -> tuple[float, int]:
    """Return the best FLOP/s of several square matrix products, and their size, which keeps the device busy."""
    size = 1024 if device.type == "cpu" else 8192
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))

    best = math.inf
    for _ in range(20):
        started = time.perf_counter()
        left @ right
        synchronize(device)
        best = min(best, time.perf_counter() - started)
        if best > _LONG_SECONDS:  # a number format that the processor emulates
            break
    return 2 * size**3 / best, size


def in_new_process(function: Callable[[], Value]) -> Value:
    """Call a function in a process of its own, so that its memory is not shared."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function).result()


def peak_bytes() -> int:
    """Return the peak memory of this process."""
    return peak_memory(CPU) or 0


def resident_bytes(process: int | str = "self") -> int:
    """Return the current memory of a process; 0 if the system does not report it."""
    statm = Path("/proc") / str(process) / "statm"
    return int(statm.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0
