"""`python -m benchmarks serve`: throughput and latency of the server, under load, overload and over time.

The load comes from established programs: `wrk` for a closed loop, where every connection asks again as soon as it is
answered, and `hey` for a rate. A closed loop hides how long requests wait, so latency is measured at a rate.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain, cycle, islice
from pathlib import Path
from typing import IO, Any, ClassVar
from urllib.request import urlopen

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Benchmark, Check, Result, describe_machine, heading, resident_bytes
from cloze.errors import InputError, RunError
from cloze.model_paths import resolve_checkpoint
from cloze.process import usable_processors
from cloze.tokenization.loading import load_tokenizer

PROGRAMS = ("wrk", "hey")
_CONNECTIONS = 32
_MIN_PER_CONNECTION = 2.0  # requests a second
_MAX_PROCESSES = 8  # of hey
_SOAK_CONNECTIONS = 4
_SHARE_OF_RATE = 0.7
_OVERLOAD = 3
_OVERLOAD_CONNECTIONS = 512
_HEALTH_PER_SECOND, _HEALTH_CONNECTIONS = 20.0, 4
_RECOVERY_SECONDS = 10
_BAD_SHARE = 0.2
_SOAK_ROUNDS = 10
_MIN_SOAK = 50  # a bad request in each round
_SECONDS_TO_START, _SECONDS_TO_END = 600, 60
_MAX_OUTPUT = 1 << 16
_BAD_BODY = '{"inputs": ["a", 5], "unknown": "\\ud800"}'


@dataclass(frozen=True, slots=True)
class Second:
    """The requests sent in one second."""

    answered: int
    """Requests answered with 200."""
    p99_ms: float | None
    """Latency of the answered requests."""


@dataclass(frozen=True, slots=True)
class Load:
    """Requests sent at a rate."""

    asked_per_second: float
    sent_per_second: float
    """Less than asked for if every connection waits for an answer."""
    answered_per_second: float
    """Requests answered with 200."""
    statuses: dict[int, int]
    p50_ms: float
    p99_ms: float
    """Latencies are of requests answered with 200."""
    refused_p99_ms: float | None
    """Latency of requests refused with 429."""
    by_second: tuple[Second, ...]


@dataclass(frozen=True, slots=True)
class Client:
    """Programs that send requests to a route."""

    url: str
    folder: Path

    def closed_loop(self, body: str, *, seconds: int) -> tuple[float, int]:
        """Return the requests answered per second, and the number of errors."""
        script = self.folder / "wrk.lua"
        headers = 'wrk.headers["Content-Type"] = "application/json"'
        script.write_text(f'wrk.method = "POST"\n{headers}\nwrk.body = [==[{body}]==]\n')
        output = _output("wrk", "-t1", f"-c{_CONNECTIONS}", f"-d{seconds}s", "-s", str(script), self.url)
        rate = re.search(r"Requests/sec:\s*([\d.]+)", output)
        if rate is None:
            raise RunError(f"wrk prints no rate: {output}")
        wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
        broken = re.search(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
        errors = sum(map(int, broken.groups())) if broken else 0
        return float(rate[1]), errors + (int(wrong[1]) if wrong else 0)

    def at_rate(
        self, rate: float, seconds: int, body: str | None = None, *, connections: int | None = None
    ) -> Load:
        """Send requests at a rate, whatever the answers.

        All connections of a process of hey ask at the same moment, so several processes start one after the other.

        Args:
            rate: requests per second, of all connections.
            body: of POST requests; None sends GET requests.
            connections: by default as few as the rate needs.
        """
        connections = connections or min(_CONNECTIONS, max(1, int(rate / _MIN_PER_CONNECTION)))
        parts = min(_MAX_PROCESSES, connections)
        per_part = connections // parts
        how = ("-z", f"{seconds}s", "-c", str(per_part), "-q", f"{rate / parts / per_part:.3f}")
        posted = self._posted(body)

        def start(number: int) -> list[dict[str, str]]:
            time.sleep(number * per_part / rate)
            return self._hey(*how, *posted)

        with ThreadPoolExecutor(parts) as pool:
            rows = list(chain.from_iterable(pool.map(start, range(parts))))
        status = np.array([int(row["status-code"]) for row in rows])
        ms = 1000 * np.array([float(row["response-time"]) for row in rows])
        second = np.array([float(row["offset"]) for row in rows]).astype(int)
        refused = ms[status == 429]
        return Load(
            asked_per_second=rate,
            sent_per_second=len(rows) / seconds,
            answered_per_second=float((status == 200).sum()) / seconds,
            statuses=dict(Counter(status.tolist())),
            p50_ms=float(np.percentile(ms[status == 200], 50)),
            p99_ms=float(np.percentile(ms[status == 200], 99)),
            refused_p99_ms=float(np.percentile(refused, 99)) if len(refused) else None,
            by_second=tuple(_second(ms[(status == 200) & (second == number)]) for number in range(seconds)),
        )

    def ask(self, body: str, count: int) -> None:
        """Send a number of requests, a few at once."""
        self._hey("-n", str(count), "-c", str(min(count, _SOAK_CONNECTIONS)), *self._posted(body))

    def _posted(self, body: str | None) -> tuple[str, ...]:
        """Return the arguments with which hey posts a body."""
        if body is None:
            return ()
        file = self.folder / "body.json"
        file.write_text(body)
        return ("-m", "POST", "-T", "application/json", "-D", str(file))

    def _hey(self, *how: str) -> list[dict[str, str]]:
        return list(csv.DictReader(_output("hey", *how, "-o", "csv", self.url).splitlines()))


def _second(ms: npt.NDArray[np.float64]) -> Second:
    return Second(len(ms), float(np.percentile(ms, 99)) if len(ms) else None)


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(done.stderr.strip() or f"exit code {done.returncode}", where=command[0])
    return done.stdout


@dataclass(frozen=True, kw_only=True)
class Serve(Benchmark):
    """Requests per second over HTTP, their latency, overload and a soak; needs wrk and hey."""

    name: ClassVar[str] = "serve"

    model: str
    """A checkpoint, which is served to embed texts."""
    tokens: int = 32
    """Tokens of a text, special ones included."""
    rate: float | None = None
    """Requests per second at which latency is measured; otherwise 70% of the maximum."""
    seconds: int = 60
    """Duration of each load."""
    soak: int = 100_000
    """Requests of the soak, a fifth of them bad."""

    def __post_init__(self) -> None:
        for name, least in (("tokens", 3), ("seconds", 1), ("soak", _MIN_SOAK)):
            if (value := getattr(self, name)) < least:
                raise InputError(f"{value} is less than {least}", where=f"--{name}")
        if self.rate is not None and not self.rate > 0:
            raise InputError(f"{self.rate:g} is not positive", where="--rate")

    def run(self) -> Result:
        """Measure the route /embed of a server in a process of its own."""
        for program in PROGRAMS:
            if shutil.which(program) is None:
                raise InputError(f"{program} is not installed", remedy="Run apt-get install wrk hey")
        text = text_of_length(self.model, self.tokens)
        body = json.dumps({"inputs": text})
        with server(self.model) as (process, url), tempfile.TemporaryDirectory() as folder:
            client, health_client = (Client(f"{url}/{route}", Path(folder)) for route in ("embed", "health"))
            self.progress.note("closed loop")
            client.closed_loop(body, seconds=max(1, self.seconds // 10))  # warm-up
            rate, errors = client.closed_loop(body, seconds=self.seconds)
            paced = _SHARE_OF_RATE * rate if self.rate is None else self.rate
            self.progress.note(f"{rate:,.0f} requests per second; at {paced:,.0f}")
            steady = client.at_rate(paced, self.seconds, body)
            self.progress.note(f"at {_OVERLOAD * rate:,.0f}")
            with ThreadPoolExecutor(1) as pool:
                health = pool.submit(
                    health_client.at_rate, _HEALTH_PER_SECOND, self.seconds, connections=_HEALTH_CONNECTIONS
                )
                overload = client.at_rate(
                    _OVERLOAD * rate, self.seconds, body, connections=_OVERLOAD_CONNECTIONS
                )
            recovery = client.at_rate(paced, min(self.seconds, _RECOVERY_SECONDS), body)
            self.progress.note("soak")
            soak = tuple(_soak(client, process.pid, text, self))
        return ServerFigures(
            settings={
                "model": Path(self.model).name,
                "tokens": self.tokens,
                "seconds": self.seconds,
                "cores": usable_processors(),
            },
            environment=describe_machine(),
            closed_loop_per_second=rate,
            closed_loop_errors=errors,
            steady=steady,
            overload=overload,
            health=health.result(),
            recovery=recovery,
            soak=soak,
        ).result()


@dataclass(frozen=True, slots=True)
class Memory:
    """Resources of the server's process after some requests."""

    requests: int
    mebibytes: float
    threads: int
    files: int


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """The measurements of a server, as `record.json` has them."""

    settings: Mapping[str, Any]
    environment: Mapping[str, Any]
    closed_loop_per_second: float
    closed_loop_errors: int
    steady: Load
    overload: Load
    health: Load
    """Of /health during the overload."""
    recovery: Load
    """At the steady rate, right after the overload."""
    soak: tuple[Memory, ...]
    name: str = "serve"

    @property
    def growth(self) -> float:
        """Mebibytes per 10,000 requests, by a line through the soak without its first round."""
        requests = [memory.requests / 10_000 for memory in self.soak[1:]]
        return float(np.polyfit(requests, [memory.mebibytes for memory in self.soak[1:]], 1)[0])

    @property
    def recovery_seconds(self) -> int | None:
        """Seconds after the overload until a second is as good as the worst one of the steady load; None if never.

        Good means as many answers, as soon.
        """
        fewest = min(second.answered for second in self.steady.by_second)
        slowest = max(second.p99_ms or 0.0 for second in self.steady.by_second)
        for number, second in enumerate(self.recovery.by_second, 1):
            if second.p99_ms is not None and second.answered >= fewest and second.p99_ms <= slowest:
                return number
        return None

    def result(self) -> Result:
        """Return the record, a table, and checks that the server failed at nothing."""
        figures = {
            **asdict(self),
            "mebibytes_per_10_000_requests": self.growth,
            "recovery_seconds": self.recovery_seconds,
        }
        statuses = {*self.steady.statuses, *self.overload.statuses, *self.recovery.statuses}
        checks = (
            Check("errors in the closed loop", self.closed_loop_errors, 0.0),
            Check("statuses other than 200 and 429", len(statuses - {200, 429}), 0.0),
            Check("statuses of /health other than 200", len({*self.health.statuses} - {200}), 0.0),
        )
        return Result(self.name, figures, self.as_text(), checks)

    def as_text(self) -> str:
        """Return a line for each load."""
        steady, overload, health = self.steady, self.overload, self.health
        first, last = self.soak[1], self.soak[-1]
        goodput = overload.answered_per_second / self.closed_loop_per_second
        refused = overload.refused_p99_ms
        recovered = self.recovery_seconds
        lines = [
            heading(self.name, self.settings),
            f"closed loop: {self.closed_loop_per_second:,.0f} requests per second, {self.closed_loop_errors} errors",
            f"{steady.asked_per_second:,.0f} per second: p50 {steady.p50_ms:.1f} ms, p99 {steady.p99_ms:.1f} ms, "
            f"answers {steady.statuses}",
            f"{overload.sent_per_second:,.0f} per second, {overload.asked_per_second:,.0f} planned: "
            f"{goodput:.0%} of the closed loop's rate answered"
            + ("" if refused is None else f", refused with a p99 of {refused:.1f} ms")
            + f", answers {overload.statuses}",
            f"/health meanwhile: p50 {health.p50_ms:.1f} ms, p99 {health.p99_ms:.1f} ms, answers {health.statuses}",
            f"{self.recovery.asked_per_second:,.0f} per second again: "
            + ("not recovered" if recovered is None else f"recovered after {recovered} s")
            + f", answers {self.recovery.statuses}",
            f"soak of {last.requests:,} requests, {_BAD_SHARE:.0%} of them bad: {self.growth:+.2f} MiB per 10,000, "
            f"threads {first.threads} to {last.threads}, files {first.files} to {last.files}",
        ]
        return "\n".join(lines)


def _soak(client: Client, pid: int, text: str, benchmark: Serve) -> Iterator[Memory]:
    """Send texts of many lengths, and bad requests; yield the resources of the process after each round."""
    lengths = np.random.default_rng(0).integers(3, 512, size=_SOAK_ROUNDS)
    per_round = benchmark.soak // _SOAK_ROUNDS
    bad = int(_BAD_SHARE * per_round)
    short = json.dumps({"inputs": text})
    for number, length in enumerate(lengths.tolist(), 1):
        long = json.dumps({"inputs": " ".join([text] * (length // benchmark.tokens + 1))})
        num_short = (per_round - bad) // 2
        client.ask(short, num_short)
        client.ask(_BAD_BODY, bad)
        client.ask(long, per_round - bad - num_short)
        threads, files = (len(os.listdir(f"/proc/{pid}/{name}")) for name in ("task", "fd"))
        yield Memory(number * per_round, resident_bytes(pid) / (1 << 20), threads, files)


def text_of_length(model: str, num_tokens: int) -> str:
    """Return a text with a number of tokens, all of them whole words of the vocabulary."""
    tokenizer = load_tokenizer(resolve_checkpoint(model))
    words = [token for token in tokenizer.tokens if token.isascii() and token.isalpha() and token.islower()]
    if not words:
        raise InputError("the vocabulary has no whole words", where=model)
    return " ".join(islice(cycle(words), num_tokens - 2))


@contextmanager
def server(model: str, *flags: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start `cloze serve` in a process of its own, and yield the process and its address when it is ready."""
    command = [sys.executable, "-m", "cloze", "serve", "-m", str(model), "--port", "0", *flags]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stderr=output, env=user_environment())
        try:
            address = _wait_for_address(process, output)
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


def user_environment() -> dict[str, str]:
    """Return the environment, without the variable that keeps Python from storing compiled modules."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _wait_for_address(process: subprocess.Popen[bytes], output: IO[bytes]) -> str:
    """Return the address that a server prints."""
    deadline = time.monotonic() + _SECONDS_TO_START
    while True:
        has_ended = process.poll() is not None
        text = os.pread(output.fileno(), _MAX_OUTPUT, 0).decode(errors="replace")
        if match := re.search(r"http://\S+", text):
            return match[0]
        if has_ended or time.monotonic() > deadline:
            raise RunError(text.strip() or f"exit code {process.returncode}", where="cloze serve")
        time.sleep(0.05)
