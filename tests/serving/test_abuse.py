"""Arbitrary bytes over a socket: the server refuses them or closes the connection, and answers others as before."""

import re
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

import numpy as np
import pytest
from server_process import ServerProcess

Random: TypeAlias = np.random.Generator
Ending: TypeAlias = Literal["wait", "half-close", "leave", "reset"]

GOOD = b'{"inputs": "a b"}'
HEAD = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
BODY = b'{"inputs": ["a", "b \\u00e9"], "normalize": true, "dimensions": 3}'
WHOLE = HEAD + b"Content-Length: 17\r\n\r\n" + GOOD
SLOW = HEAD + b"Content-Length: 10000\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
TOO_LARGE = 3_000_000

pytestmark = [pytest.mark.protected, pytest.mark.slow, pytest.mark.trials("attack")]


def _post(body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _get(target: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join(
        (b"GET " + target + b" HTTP/1.1", b"Host: localhost", b"Connection: close", *headers, b"", b"")
    )


ANSWERED = {
    "a good one": (WHOLE, {200}),
    "not HTTP": (b"\x00\xff\r\n\r\n", {400}),
    "HTTP 9.9": (b"GET / HTTP/9.9\r\nHost: localhost\r\nConnection: close\r\n\r\n", {200, 400, 505}),
    "a long target": (_get(b"/" + b"a" * 70_000), {400, 404}),
    "a long header": (_get(b"/info", b"X: " + b"b" * 70_000), {200, 400}),
    "many headers": (_get(b"/info", *(b"X%d: b" % i for i in range(9_000))), {200, 400}),
    "a head without end": (_get(b"/info", b"X: " + b"b" * TOO_LARGE), {400}),
    "no host": (b"GET /info HTTP/1.1\r\nConnection: close\r\n\r\n", {200, 400}),
    "a negative length": (HEAD + b"Content-Length: -1\r\n\r\n" + GOOD, {400}),
    "an endless length": (HEAD + b"Content-Length: 99999999999999999999\r\n\r\n" + GOOD, {400, 413}),
    "a length that is too short": (HEAD + b"Content-Length: 5\r\n\r\n" + GOOD, {422}),
    "an invalid length": (HEAD + b"Content-Length: x\r\n\r\n" + GOOD, {400}),
    "two lengths": (HEAD + b"Content-Length: 17\r\nContent-Length: 5\r\n\r\n" + GOOD, {400}),
    "two ways to end a body, and a request behind it": (
        CHUNKED.replace(b"Connection: close", b"Content-Length: 4") + b"0\r\n\r\n" + _get(b"/nowhere"),
        {400},
    ),
    "an upgrade": (_get(b"/info", b"Connection: Upgrade", b"Upgrade: websocket"), {200}),
    "an endless chunk": (CHUNKED + b"FFFFFFFFFFFFFFFFFFFFF\r\n" + GOOD, {400}),
    "a chunk without length": (CHUNKED + b"zz\r\n" + GOOD, {400}),
    "chunks that are too large": (
        CHUNKED + b"%x\r\n" % TOO_LARGE + b" " * TOO_LARGE + b"\r\n0\r\n\r\n",
        {413},
    ),
    "too large": (HEAD + b"Content-Length: %d\r\n\r\n" % TOO_LARGE + b" " * TOO_LARGE, {413}),
    "another place": (_get(b"/page/../../../etc/passwd"), {404}),
    "another place, encoded": (_get(b"/page/%2e%2e/%2e%2e/etc/passwd"), {404}),
    "many ranges": (_get(b"/page/main.js", b"Range: bytes=" + b"0-1," * 10_000), {200, 400}),
}
"""Requests, and the statuses that they may get."""


@dataclass(frozen=True)
class Connection:
    """The data that are sent over a connection, and how it ends."""

    data: bytes
    ending: Ending = "wait"

    def received(self, port: int, *, patience: float) -> bytes:
        """Send the data; return what is received until nothing has come for `patience` seconds."""
        received = b""
        with (
            suppress(TimeoutError, ConnectionError),  # the server waits for more, or has hung up
            socket.create_connection(("127.0.0.1", port), timeout=patience) as connection,
        ):
            connection.sendall(self.data)
            if self.ending == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if self.ending == "half-close":
                with suppress(OSError):  # ENOTCONN, which is no ConnectionError: it has hung up already
                    connection.shutdown(socket.SHUT_WR)
            while self.ending in ("wait", "half-close") and (part := connection.recv(65536)):
                received += part
        return received


def _broken(random: Random, data: bytes, max_changes: int) -> bytes:
    broken = bytearray(data)
    for at in random.integers(0, len(broken), size=random.integers(1, max_changes + 1)):
        broken[at] = random.integers(0, 256)
    return bytes(broken)


def _noise(random: Random) -> bytes:
    return random.bytes(int(random.integers(0, 4000)))


def _chunks(random: Random) -> bytes:
    """Return chunks whose lengths are wrong by a little."""
    lengths = random.integers(0, 40, size=5)
    return CHUNKED + b"".join(
        b"%x\r\n" % (n + random.integers(-1, 2) % 99) + b"[" * n + b"\r\n" for n in lengths
    )


def _pipelined(random: Random) -> bytes:
    """Return requests that do not wait for answers, noise behind them."""
    several = WHOLE.replace(b"Connection: close\r\n", b"") * int(random.integers(1, 6))
    return several + _noise(random)


KINDS: tuple[tuple[float, Callable[[Random], bytes]], ...] = (
    (0.35, lambda random: _broken(random, WHOLE, 5)),
    (0.15, _noise),
    (0.14, lambda random: WHOLE[: random.integers(0, len(WHOLE))]),
    (0.10, _chunks),
    (0.10, _pipelined),
    (0.15, lambda random: _post(_broken(random, BODY, 3))),
    (0.01, lambda random: ANSWERED["too large"][0][: random.integers(2_000_000, TOO_LARGE)]),
)
ENDINGS: tuple[tuple[float, Ending], ...] = (
    (0.55, "wait"),
    (0.25, "half-close"),
    (0.10, "leave"),
    (0.10, "reset"),
)


def connections(seed: int) -> Iterator[Connection]:
    """Yield abusive connections without end, the same for the same seed."""
    random = np.random.default_rng(seed)
    shares, kinds = zip(*KINDS, strict=True)
    ending_shares, endings = zip(*ENDINGS, strict=True)
    while True:
        kind = kinds[random.choice(len(kinds), p=shares)]
        ending = endings[random.choice(len(endings), p=ending_shares)]
        yield Connection(kind(random), ending)


def statuses(received: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


@pytest.mark.parametrize("name", ANSWERED)
def test_abuse_is_answered_by_a_refusal(served, name):
    data, expected = ANSWERED[name]
    received = Connection(data).received(served.port, patience=20)
    if (
        len(data) < TOO_LARGE
    ):  # a client that still sends when the server closes the connection misses the response
        assert set(statuses(received)) & expected, received[:500]
    assert set(statuses(received)) <= expected
    assert b"root:" not in received


class SlowBodies:
    """Connections that send their bodies a byte at a time."""

    def __init__(self, port: int, count: int) -> None:
        self._open = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(count)]
        for connection in self._open:
            connection.sendall(SLOW)

    def send_a_byte(self) -> None:
        for connection in self._open:
            with suppress(ConnectionError):  # given up already
                connection.sendall(b" ")

    def received(self) -> list[bytes]:
        """Return the response to each."""
        told = []
        for connection in self._open:
            try:
                told.append(connection.recv(65536))
            except ConnectionError:
                told.append(b"")
        return told

    def close(self) -> None:
        for connection in self._open:
            connection.close()


def abuse(served: ServerProcess, count: int, slow: SlowBodies, *, seed: int) -> None:
    """Open so many connections, eight at once."""
    all_connections = connections(seed)
    with ThreadPoolExecutor(8) as pool:
        while some := list(islice(all_connections, min(count, 250))):
            count -= len(some)
            found = pool.map(lambda each: each.received(served.port, patience=0.05), some)
            for each, received in zip(some, found, strict=True):
                assert all(status < 500 for status in statuses(received)), (each, received)
            slow.send_a_byte()
            assert served.post("/embed", inputs="a").status_code == 200


@contextmanager
def unharmed(served: ServerProcess) -> Iterator[None]:
    """Check that a server is afterwards as it was before."""
    golden = served.post("/embed", inputs="a b c").content
    _, threads, files = served.state()
    yield
    assert served.post("/embed", inputs="a b c").content == golden
    deadline = time.monotonic() + 20
    while served.state()[2] > files + 2:
        assert time.monotonic() < deadline, "connections stay open"
        time.sleep(0.05)
    assert served.state()[1] <= threads
    assert served.process.poll() is None
    assert all(line.startswith("WARNING:  ") for line in served.log)
    assert len(served.log) == len({*served.log}), "a line that is logged for each bad request fills a disk"


def test_hundreds_of_abusive_connections(served):
    with unharmed(served):
        slow = SlowBodies(served.port, 50)
        abuse(served, 300, slow, seed=1)
        slow.close()


@pytest.mark.exhaustive
def test_thousands_of_abusive_connections(served):
    with unharmed(served):
        slow = SlowBodies(served.port, 200)
        abuse(served, 5000, slow, seed=2)
        assert {*map(tuple, map(statuses, slow.received()))} == {(408,)}
        slow.close()


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit of another process")
def test_more_connections_than_files_are_closed_without_a_log(directories):
    import resource

    served = ServerProcess("-m", str(directories["bert"]))
    try:
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        idle = [socket.create_connection(("127.0.0.1", served.port), timeout=20) for _ in range(100)]
        for connection in idle[-40:]:
            with suppress(ConnectionError):
                assert connection.recv(1) == b""  # closed by the server
        for connection in idle:
            connection.close()
        assert served.post("/embed", inputs="a").status_code == 200
    finally:
        served.end()
    assert len(served.log) <= 1


@pytest.mark.exhaustive
def test_a_connection_without_a_head_is_closed(served):
    for data in (b"", HEAD):
        with socket.create_connection(("127.0.0.1", served.port), timeout=120) as connection:
            connection.sendall(data)
            assert connection.recv(1) == b""
