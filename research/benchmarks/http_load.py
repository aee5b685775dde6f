"""Put load on a server: with `wrk` in a closed loop, with `hey` at a rate."""

import csv
import re
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cloze.errors import RunError

PROGRAMS = ("wrk", "hey")
_CONNECTIONS = 32
_MIN_PER_CONNECTION = 2.0  # requests a second
_MAX_PROCESSES = 8  # of hey
_SOAK_CONNECTIONS = 4


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
