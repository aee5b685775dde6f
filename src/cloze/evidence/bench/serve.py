"""`cloze bench serve`: how much the server answers, how soon, and what overload and time do to it.

The load comes from programs that others keep: `wrk` for a closed loop, where every connection asks again as soon as it
is answered, and `hey` for a rate. A closed loop hides how long requests wait; so times are taken at a rate.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import torch

from cloze.errors import InputError, RunError
from cloze.evidence.bench.harness import environment_of
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer
from cloze.training.checkpoints import resolve_checkpoint

_PROGRAMS = ("wrk", "hey")
_SOAK_CONNECTIONS = 4
_SHARE_OF_RATE = 0.7
_OVERLOAD = 3
_CONNECTIONS, _CONNECTIONS_OF_OVERLOAD = 32, 512
_SHARE_OF_BAD = 0.2
_SOAK_ROUNDS = 10
_BAD_BODY = '{"inputs": ["a", 5], "unknown": "\\ud800"}'


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeBenchmark:
    """What is measured."""

    model: Path
    tokens: int = 32
    """Of a text, [CLS] and [SEP] included."""
    seconds: int = 60
    """Of each load."""
    soak: int = 100_000
    """Requests, a fifth of them bad."""


@dataclass(frozen=True, slots=True)
class Load:
    """What became of requests that came at a rate."""

    asked_per_second: float
    answered_per_second: float
    """Those answered with 200."""
    statuses: dict[int, int]
    p50_ms: float
    p99_ms: float
    """Of those answered with 200."""
    refused_p99_ms: float | None
    """Of those refused with 429."""


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
    soak: tuple[Memory, ...]
    name: str = "serve"

    @property
    def growth(self) -> float:
        """Mebibytes for 10,000 requests, by a line through the soak without its first round."""
        requests = [each.requests / 10_000 for each in self.soak[1:]]
        return float(np.polyfit(requests, [each.mebibytes for each in self.soak[1:]], 1)[0])

    def as_dict(self) -> dict[str, Any]:
        """Return settings and figures as what JSON can say."""
        return {**asdict(self), "mebibytes_per_10_000_requests": self.growth}

    def as_text(self) -> str:
        """Return a table for a person."""
        first, last = self.soak[1], self.soak[-1]
        refused = self.overload.refused_p99_ms
        goodput = self.overload.answered_per_second / self.closed_loop_per_second
        return "\n".join(
            (
                ", ".join(f"{name} {value}" for name, value in self.settings.items()),
                f"closed loop: {self.closed_loop_per_second:,.0f} requests a second, "
                f"{self.closed_loop_errors} errors",
                f"{_SHARE_OF_RATE:.0%} of that: p50 {self.steady.p50_ms:.1f} ms, p99 {self.steady.p99_ms:.1f} ms, "
                f"answers {self.steady.statuses}",
                f"{_OVERLOAD} times that: {goodput:.0%} of the rate answered, the rest refused"
                + ("" if refused is None else f" (p99 {refused:.1f} ms)")
                + f", answers {self.overload.statuses}",
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
        statuses = {*self.steady.statuses, *self.overload.statuses}
        if self.closed_loop_errors or statuses - {200, 429}:
            what = f"{self.closed_loop_errors} errors in the closed loop, statuses {sorted(statuses)}"
            raise RunError(what, where="cloze bench serve")


def bench_serve(benchmark: ServeBenchmark, *, progress: Progress = SILENT) -> ServeFinding:
    """Measure a server of its own process on one route, /embed.

    Raises:
        InputError: wrk or hey is not installed, or there is no such model.
        RunError: the server does not start, or fails.
    """
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            raise InputError(f"{program} is not installed", remedy="Say apt-get install wrk hey")
    body = json.dumps({"inputs": _text(benchmark)})
    with _server(benchmark.model) as (process, url), tempfile.TemporaryDirectory() as folder:
        client = _Client(f"{url}/embed", Path(folder))
        progress.note("closed loop")
        client.closed_loop(body, seconds=max(1, benchmark.seconds // 10))  # until all is warm
        rate, errors = client.closed_loop(body, seconds=benchmark.seconds)
        progress.note(f"{rate:,.0f} requests a second; at {_SHARE_OF_RATE:.0%} of that")
        steady = client.at_rate(body, _SHARE_OF_RATE * rate, benchmark.seconds, connections=_CONNECTIONS)
        progress.note(f"at {_OVERLOAD} times that")
        overload = client.at_rate(
            body, _OVERLOAD * rate, benchmark.seconds, connections=_CONNECTIONS_OF_OVERLOAD
        )
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
        soak=soak,
    )


@dataclass(frozen=True, slots=True)
class _Client:
    """Programs that ask a route."""

    url: str
    folder: Path

    def closed_loop(self, body: str, *, seconds: int) -> tuple[float, int]:
        """Return the requests answered in a second, and how many went wrong."""
        script = self.folder / "wrk.lua"
        headers = 'wrk.headers["Content-Type"] = "application/json"'
        script.write_text(f'wrk.method = "POST"\n{headers}\nwrk.body = [==[{body}]==]\n')
        told = _output("wrk", "-t1", f"-c{_CONNECTIONS}", f"-d{seconds}s", "-s", str(script), self.url)
        rate = re.search(r"Requests/sec:\s*([\d.]+)", told)
        if rate is None:
            raise RunError(f"wrk says no rate: {told}")
        wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", told)
        broken = re.search(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", told)
        errors = sum(map(int, broken.groups())) if broken else 0
        return float(rate[1]), errors + (int(wrong[1]) if wrong else 0)

    def at_rate(self, body: str, rate: float, seconds: int, *, connections: int) -> Load:
        """Ask so often in a second, whatever the answers."""
        each = f"{rate / connections:.3f}"
        rows = self._hey(body, "-z", f"{seconds}s", "-c", str(connections), "-q", each)
        status = np.array([int(row["status-code"]) for row in rows])
        ms = 1000 * np.array([float(row["response-time"]) for row in rows])
        refused = ms[status == 429]
        return Load(
            asked_per_second=rate,
            answered_per_second=float((status == 200).sum()) / seconds,
            statuses=dict(Counter(status.tolist())),
            p50_ms=float(np.percentile(ms[status == 200], 50)),
            p99_ms=float(np.percentile(ms[status == 200], 99)),
            refused_p99_ms=float(np.percentile(refused, 99)) if len(refused) else None,
        )

    def ask(self, body: str, count: int) -> None:
        """Ask so many times, a few at once."""
        self._hey(body, "-n", str(count), "-c", str(min(count, _SOAK_CONNECTIONS)))

    def _hey(self, body: str, *how: str) -> list[dict[str, str]]:
        file = self.folder / "body.json"
        file.write_text(body)
        table = _output(
            "hey", *how, "-m", "POST", "-T", "application/json", "-D", str(file), "-o", "csv", self.url
        )
        return list(csv.DictReader(table.splitlines()))


def _soak(client: _Client, pid: int, benchmark: ServeBenchmark) -> Iterator[Memory]:
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
def _server(model: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "cloze", "serve", "-m", str(model), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        told = process.stderr.readline()
        found = re.search(r"http://\S+", told)
        if found is None:
            raise RunError(told.strip(), where="cloze serve")
        with urlopen(f"{found[0]}/health"):
            pass
        yield process, found[0]
    finally:
        process.terminate()
        process.communicate()


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(done.stderr.strip() or f"exit code {done.returncode}", where=command[0])
    return done.stdout
