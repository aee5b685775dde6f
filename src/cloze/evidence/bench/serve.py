"""`cloze bench serve`: how much the server answers, how soon, and what overload and time do to it.

The load comes from programs that others keep: `wrk` for a closed loop, where every connection asks again as soon as it
is answered, and `hey` for a rate. A closed loop hides how long requests wait; so times are taken at a rate.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen

import numpy as np
import torch

from cloze.errors import InputError, RunError
from cloze.evidence.bench.harness import environment_of
from cloze.evidence.bench.http_load import PROGRAMS, Client, Load
from cloze.locate import resolve_checkpoint
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer

_SHARE_OF_RATE = 0.7
_OVERLOAD = 3
_CONNECTIONS_OF_OVERLOAD = 512
_HEALTH_PER_SECOND, _HEALTH_CONNECTIONS = 20.0, 4
_RECOVERY_SECONDS = 10
_SHARE_OF_BAD = 0.2
_SOAK_ROUNDS = 10
_LEAST_SOAK = 50  # a bad request in each round
_SECONDS_TO_START, _SECONDS_TO_END = 600, 60
_MOST_TOLD = 1 << 16
_BAD_BODY = '{"inputs": ["a", 5], "unknown": "\\ud800"}'


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeBenchmark:
    """What is measured."""

    model: Path
    tokens: int = 32
    """Of a text, [CLS] and [SEP] included."""
    rate: float | None = None
    """Requests a second of the steady load; None takes 70% of what the closed loop shows."""
    seconds: int = 60
    """Of each load."""
    soak: int = 100_000
    """Requests, a fifth of them bad."""

    def __post_init__(self) -> None:
        for flag, value, least in (
            ("--tokens", self.tokens, 3),
            ("--seconds", self.seconds, 1),
            ("--soak", self.soak, _LEAST_SOAK),
        ):
            if value < least:
                raise InputError(f"{value}, {least} at least", where=flag)
        if self.rate is not None and not self.rate > 0:
            raise InputError(f"{self.rate:g} is not positive", where="--rate")


@dataclass(frozen=True, slots=True)
class Memory:
    """What the process held after some requests."""

    requests: int
    mebibytes: float
    threads: int
    files: int


@dataclass(frozen=True, slots=True)
class ServeFinding:
    """What was found."""

    settings: dict[str, Any]
    environment: dict[str, Any]
    closed_loop_per_second: float
    closed_loop_errors: int
    steady: Load
    overload: Load
    health: Load
    """Of /health, while there is that overload."""
    recovery: Load
    """As the steady one, begun when the overload ends."""
    soak: tuple[Memory, ...]
    name: str = "serve"

    @property
    def growth(self) -> float:
        """Mebibytes for 10,000 requests, by a line through the soak without its first round."""
        requests = [each.requests / 10_000 for each in self.soak[1:]]
        return float(np.polyfit(requests, [each.mebibytes for each in self.soak[1:]], 1)[0])

    @property
    def recovery_seconds(self) -> int | None:
        """How many seconds after the overload all is as it was before: as many answers in a second, and as soon.

        That is, as many and as soon as in the worst second of the steady load. None where no second is so.
        """
        fewest = min(second.answered for second in self.steady.by_second)
        slowest = max(second.p99_ms or 0.0 for second in self.steady.by_second)
        for number, second in enumerate(self.recovery.by_second, 1):
            if second.p99_ms is not None and second.answered >= fewest and second.p99_ms <= slowest:
                return number
        return None

    def as_dict(self) -> dict[str, Any]:
        """Return settings and figures as what JSON can say."""
        return {
            **asdict(self),
            "mebibytes_per_10_000_requests": self.growth,
            "recovery_seconds": self.recovery_seconds,
        }

    def as_text(self) -> str:
        """Return a table for a person."""
        first, last = self.soak[1], self.soak[-1]
        refused = self.overload.refused_p99_ms
        goodput = self.overload.answered_per_second / self.closed_loop_per_second
        recovered = self.recovery_seconds
        return "\n".join(
            (
                ", ".join(f"{name} {value}" for name, value in self.settings.items()),
                f"closed loop: {self.closed_loop_per_second:,.0f} requests a second, "
                f"{self.closed_loop_errors} errors",
                f"{self.steady.asked_per_second:,.0f} a second: "
                f"p50 {self.steady.p50_ms:.1f} ms, p99 {self.steady.p99_ms:.1f} ms, "
                f"answers {self.steady.statuses}",
                f"{self.overload.sent_per_second:,.0f} a second, of {self.overload.asked_per_second:,.0f} asked for: "
                f"{goodput:.0%} of the closed loop's rate answered"
                + ("" if refused is None else f", refused with a p99 of {refused:.1f} ms")
                + f", answers {self.overload.statuses}",
                f"/health meanwhile: p50 {self.health.p50_ms:.1f} ms, p99 {self.health.p99_ms:.1f} ms, "
                f"answers {self.health.statuses}",
                f"{self.recovery.asked_per_second:,.0f} a second again: "
                + ("not as before" if recovered is None else f"as before after {recovered} s")
                + f", answers {self.recovery.statuses}",
                f"soak of {last.requests:,} requests, {_SHARE_OF_BAD:.0%} of them bad: "
                f"{self.growth:+.2f} MiB for 10,000, threads {first.threads} to {last.threads}, "
                f"files {first.files} to {last.files}",
            )
        )

    def pictures(self) -> dict[str, str]:
        """Return none."""
        return {}

    def require_agreement(self) -> None:
        """Raise where the server failed at something.

        Raises:
            RunError: it did.
        """
        statuses = {*self.steady.statuses, *self.overload.statuses, *self.recovery.statuses}
        if self.closed_loop_errors or statuses - {200, 429} or set(self.health.statuses) != {200}:
            what = (
                f"{self.closed_loop_errors} errors in the closed loop, statuses {sorted(statuses)}, "
                f"of /health {sorted(self.health.statuses)}"
            )
            raise RunError(what, where="cloze bench serve")


def bench_serve(benchmark: ServeBenchmark, *, progress: Progress = SILENT) -> ServeFinding:
    """Measure a server of its own process on one route, /embed.

    Raises:
        InputError: wrk or hey is not installed, or there is no such model.
        RunError: the server does not start, or fails.
    """
    for program in PROGRAMS:
        if shutil.which(program) is None:
            raise InputError(f"{program} is not installed", remedy="Say apt-get install wrk hey")
    body = json.dumps({"inputs": _text(benchmark)})
    with _server(benchmark.model) as (process, url), tempfile.TemporaryDirectory() as folder:
        client, health_client = (Client(f"{url}/{route}", Path(folder)) for route in ("embed", "health"))
        progress.note("closed loop")
        client.closed_loop(body, seconds=max(1, benchmark.seconds // 10))  # until all is warm
        rate, errors = client.closed_loop(body, seconds=benchmark.seconds)
        paced = _SHARE_OF_RATE * rate if benchmark.rate is None else benchmark.rate
        progress.note(f"{rate:,.0f} requests a second; at {paced:,.0f}")
        steady = client.at_rate(paced, benchmark.seconds, body)
        progress.note(f"at {_OVERLOAD * rate:,.0f}")
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(
                health_client.at_rate, _HEALTH_PER_SECOND, benchmark.seconds, connections=_HEALTH_CONNECTIONS
            )
            overload = client.at_rate(
                _OVERLOAD * rate, benchmark.seconds, body, connections=_CONNECTIONS_OF_OVERLOAD
            )
            health = asking.result()
        recovery = client.at_rate(paced, min(benchmark.seconds, _RECOVERY_SECONDS), body)
        progress.note("soak")
        soak = tuple(_soak(client, process.pid, benchmark))
    return ServeFinding(
        settings={
            "model": benchmark.model.name,
            "tokens": benchmark.tokens,
            "seconds": benchmark.seconds,
            "cores": len(os.sched_getaffinity(0)),
        },
        environment=environment_of(torch.device("cpu"), torch.float32, ()),
        closed_loop_per_second=rate,
        closed_loop_errors=errors,
        steady=steady,
        overload=overload,
        health=health,
        recovery=recovery,
        soak=soak,
    )


def _soak(client: Client, pid: int, benchmark: ServeBenchmark) -> Iterator[Memory]:
    """Ask for long, with texts of many lengths and a fifth of all requests bad; yield what the process holds."""
    lengths = np.random.default_rng(0).integers(3, 512, size=_SOAK_ROUNDS)
    of_round = benchmark.soak // _SOAK_ROUNDS
    bad = int(_SHARE_OF_BAD * of_round)
    text = _text(benchmark)
    short = json.dumps({"inputs": text})
    for number, length in enumerate(lengths.tolist(), 1):
        long = json.dumps({"inputs": " ".join([text] * (length // benchmark.tokens + 1))})
        client.ask(short, (of_round - bad) // 2)
        client.ask(_BAD_BODY, bad)
        client.ask(long, of_round - bad - (of_round - bad) // 2)
        yield _memory(pid, number * of_round)


def _memory(pid: int, requests: int) -> Memory:
    own = Path("/proc") / str(pid)
    resident = int((own / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    threads, files = (len(list((own / name).iterdir())) for name in ("task", "fd"))
    return Memory(requests, resident / (1 << 20), threads, files)


def _text(benchmark: ServeBenchmark) -> str:
    """Return a text of so many pieces: whole words of the vocabulary."""
    tokenizer = Tokenizer.load(resolve_checkpoint(benchmark.model))
    words = [piece for piece in tokenizer.pieces if piece.isascii() and piece.isalpha() and piece.islower()]
    if not words:
        raise InputError("the vocabulary has no whole words", where=benchmark.model)
    return " ".join(islice(cycle(words), benchmark.tokens - 2))


@contextmanager
def _server(model: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    command = [sys.executable, "-m", "cloze", "serve", "-m", str(model), "--port", "0"]
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stderr=told)
        try:
            address = _address(process, told)
            with urlopen(f"{address}/health", timeout=_SECONDS_TO_START):
                pass
            yield process, address
        finally:
            process.terminate()
            try:
                process.wait(_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(process: subprocess.Popen[bytes], told: IO[bytes]) -> str:
    """Wait until a server says where it is.

    Raises:
        RunError: it ends, or says nothing for long.
    """
    deadline = time.monotonic() + _SECONDS_TO_START
    while True:
        has_ended = process.poll() is not None
        text = os.pread(told.fileno(), _MOST_TOLD, 0).decode(errors="replace")
        if found := re.search(r"http://\S+", text):
            return found[0]
        if has_ended or time.monotonic() > deadline:
            raise RunError(text.strip() or f"exit code {process.returncode}", where="cloze serve")
        time.sleep(0.05)
