"""Connections over sockets: Host headers, bodies without end, and clients that do not read."""

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from clients import listening
from held_queue import PATIENCE, wait_for

from cloze.serving.app import create_app
from cloze.serving.connections import LimitedProtocol, limited_protocol, max_connections
from cloze.serving.limits import Limits
from cloze.serving.served_model import ServedModel

pytestmark = pytest.mark.protected

NUM_BYTES = 20_000_000
"""Of a response: more than the system takes from a server whose client does not read."""


@contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", httpx.URL(address).port), timeout=PATIENCE) as connection:
        yield connection


def receive_all(connection: socket.socket) -> bytes:
    """Return what is received until the server closes the connection."""
    received = bytearray()
    while part := connection.recv(1 << 20):
        received += part
    return bytes(received)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LocalHost:8080", 200),
        ("127.0.0.1:", 200),
        ("[::1]:8080", 200),
        (None, 200),  # no browser leaves it out
        ("", 421),
        (":80", 421),
        ("::1", 421),
        ("[::1", 421),
        ("evil.com]", 421),
        ("[evil.com", 421),
        ("[evil.com]", 421),
        ("user@localhost", 421),
        ("localhost:80:80", 421),
        ("localhost:80@evil.com", 421),
        ("localhost/", 421),
        ("localhost.evil.com", 421),
    ],
)
def test_a_host_is_accepted_only_if_it_is_this_one(local, host, status):
    version = "1.0" if host is None else "1.1"
    line = "" if host is None else f"Host: {host}\r\n"
    with connected(local) as connection:
        connection.sendall(f"GET /info HTTP/{version}\r\n{line}Connection: close\r\n\r\n".encode())
        received = receive_all(connection)
    assert received.startswith(f"HTTP/1.1 {status} ".encode())
    told = b"is not accepted: use localhost, or serve with --allowed-host NAME"
    assert (told in received) == (status == 421)


@pytest.fixture(scope="module")
def local(models: Mapping[str, ServedModel]) -> Iterator[str]:
    with listening(create_app(models, Limits(), hosts={"localhost", "127.0.0.1", "::1"})) as address:
        yield address


@pytest.fixture(scope="module")
def impatient(models: Mapping[str, ServedModel]) -> Iterator[str]:
    limits = Limits(body_seconds=0.2)
    with listening(create_app(models, limits), limited_protocol(limits)) as address:
        yield address


@pytest.mark.parametrize(("files", "connections"), [(200, 100), (1, 1), (100_000, 4096)])
def test_connections_leave_half_of_the_file_descriptors(files, connections, monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (files, files))
    assert max_connections() == connections


def test_default_times_are_the_documented_ones():
    limits = Limits()
    assert (limits.body_seconds, LimitedProtocol.response_seconds, limits.drain_seconds) == (10, 60, 10)
    assert limits.keep_alive == 75


def send_until_ended(connection: socket.socket, data: bytes) -> None:
    """Send data again and again until the server closes the connection."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            connection.sendall(data)
        except ConnectionError:
            return
        time.sleep(0.01)
    raise AssertionError("the connection is not closed")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("body", ["Transfer-Encoding: chunked", f"Content-Length: {10**15}"])
def test_a_body_without_end_is_ended(impatient, method, body):
    with connected(impatient) as connection:
        connection.sendall(f"{method} /info HTTP/1.1\r\nHost: localhost\r\n{body}\r\n\r\n".encode())
        send_until_ended(connection, b"1\r\na\r\n")
    assert httpx.get(f"{impatient}/health").status_code == 200


def test_a_second_head_has_limited_time_too(impatient):
    with connected(impatient) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nX: ")
        send_until_ended(connection, b"a")


async def answer_much(scope: Any, receive: Any, send: Any) -> None:
    """An application whose responses have `NUM_BYTES`."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": bytes(NUM_BYTES)})


def ask(connection: socket.socket) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


def unread(http: type[LimitedProtocol]) -> int:
    """Return the number of responses that are not read yet."""
    return len(http.unread)


def test_a_response_that_is_not_read_in_time_is_dropped():
    http = limited_protocol(Limits())
    http.response_seconds = 0.2
    with listening(answer_much, http) as address, connected(address) as connection:
        ask(connection)
        wait_for(lambda: unread(http) == 1)
        wait_for(lambda: unread(http) == 0)
        assert len(receive_all(connection)) < NUM_BYTES


def test_the_oldest_responses_are_dropped_where_all_are_too_large():
    http = limited_protocol(Limits())
    http.response_bytes = NUM_BYTES // 2
    with listening(answer_much, http) as address, connected(address) as first, connected(address) as second:
        ask(first)
        wait_for(lambda: unread(http) == 1)
        ask(second)
        assert len(receive_all(second)) > NUM_BYTES, "one alone may exceed the limit"
        assert len(receive_all(first)) < NUM_BYTES
