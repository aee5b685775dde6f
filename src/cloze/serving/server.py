"""Run the server: bind the address, load the models, listen, and stop on SIGTERM or Ctrl-C."""

import asyncio
import gc
import logging
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.config import LOGGING_CONFIG

from cloze.arguments import check_paths
from cloze.errors import InputError, RunError
from cloze.hub import parse_hub_name
from cloze.model_paths import is_graph
from cloze.process import compute_threads, set_compute_threads
from cloze.serving.app import warm_up
from cloze.serving.connections import OncePerMessage, limited_protocol
from cloze.serving.limits import Limits
from cloze.serving.queue import Queue

_MAX_PORT = 65_535
_MAX_KEY_LINE = 8_194  # a key of 8,192 characters and its line end
_EVALUATION_ENDINGS = (".jsonl", ".ndjson", ".csv", ".tsv")
_BACKLOG = 128  # connections that wait to be accepted
_LAST_BATCH_SECONDS = 2.0
_SWITCH_SECONDS = (
    0.0005  # Python's 0.005, waited for two other threads, double the slowest responses of the event loop
)
_EXIT_INTERRUPTED = 130


def set_threads(threads: int | None, directories: Iterable[Path]) -> int:
    """Set the threads of an operation, None for the usual number, and return their number."""
    threads = threads or compute_threads()
    set_compute_threads(threads)
    if not all(map(is_graph, directories)):
        import torch

        # Threads of OpenMP that this thread starts would stay beside those of the queue, and where there are more
        # threads than cores, all of them sleep between operations: a short text would take up to twice as long.
        torch.set_num_threads(1)
    return threads


def run(app: FastAPI, listening: socket.socket, limits: Limits, *, tell: Callable[[str], None]) -> None:
    """Answer until SIGTERM or Ctrl-C; open requests are answered first.

    If a batch is still being computed two seconds after the last response, the process ends.

    Args:
        tell: called with the address once the server answers.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    config = uvicorn.Config(
        app,
        # of h11: httptools, which is faster, reads heads of any length into memory
        http=limited_protocol(limits),
        backlog=_BACKLOG,
        ws="none",
        loop="asyncio",  # uvloop prints a traceback when a client disconnects
        access_log=False,
        log_config=None if logging.getLogger().handlers else LOGGING_CONFIG,  # handlers of --log json
        log_level="warning",
        server_header=False,
        timeout_keep_alive=limits.keep_alive,
        timeout_graceful_shutdown=limits.drain_seconds,
    )
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(OncePerMessage())
    server = _Server(config, app.state.queue)
    # Set before uvicorn does, so that no signal is lost. A handler that raises would not do: an exception in a
    # finalizer, and the collection below runs many, is dropped.
    signal.signal(signal.SIGTERM, server.handle_exit)
    asyncio.run(warm_up(app.state.models, app.state.queue))
    # The models stay; scanning them again and again would stop all requests for 0.1 s and more
    gc.collect()
    gc.freeze()
    listen(listening)
    address, bound_port = listening.getsockname()[:2]
    tell(f"http://{f'[{address}]' if ':' in address else address}:{bound_port}")
    exit_code = _EXIT_INTERRUPTED
    try:
        server.run(sockets=[listening])
        exit_code = 0
    finally:
        app.state.queue.close()
        if not app.state.queue.wait(_LAST_BATCH_SECONDS):
            # the interpreter would abort when the thread returns to it from native code
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(exit_code)


class _Server(uvicorn.Server):
    """A server that answers for a delay after a signal to stop, and then refuses new requests."""

    def __init__(self, config: uvicorn.Config, queue: Queue) -> None:
        super().__init__(config)
        self._queue = queue
        self._end = 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._queue.is_leaving = True
        if not self._queue.limits.shutdown_delay:
            self._queue.stop()
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Return whether the server stops now."""
        if not await super().on_tick(counter):
            return False
        self._end = self._end or time.monotonic() + self._queue.limits.shutdown_delay
        return self.force_exit or time.monotonic() >= self._end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; after a second Ctrl-C uvicorn leaves the application running, and prints a traceback of it."""
        self._queue.stop()
        await super().shutdown(sockets)
        if self.force_exit:
            await self.lifespan.shutdown()


def check_local(host: str) -> None:
    """Refuse an address that other machines reach, as does an empty one; `bind` refuses unknown names."""
    if not host.strip():
        raise InputError("the address is empty", where="host", remedy="Give an address, such as 127.0.0.1")
    with suppress(OSError):
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
        if not all(ip_address(address).is_loopback for address in addresses):
            what = f"{host} is open to other machines, and no key is required"
            remedy = "Give `api_key_file=FILE`, or `open` to answer every machine"
            raise InputError(what, where="host", remedy=remedy)


def bind(host: str, port: int) -> socket.socket:
    """Reserve an address without listening on it, so that errors appear before models are loaded."""
    if not 0 <= port <= _MAX_PORT:
        raise InputError(f"{port} is not in 0..{_MAX_PORT}", where="port")
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with _close_on_error(bound, f"{host}:{port}"):
        bound.bind((host, port))
    return bound


def listen(bound: socket.socket) -> None:
    """Start to accept connections."""
    with _close_on_error(bound, "{}:{}".format(*bound.getsockname()[:2])):
        bound.listen(_BACKLOG)
    # Connections inherit it. Otherwise a body waits until its head is acknowledged, which clients delay by 40 ms;
    # asyncio sets it only on sockets that name their protocol.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@contextmanager
def _close_on_error(bound: socket.socket, address: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        bound.close()
        what = f"cannot listen on {address}: {error}"
        raise RunError(what, remedy="Give another `port` or `host`") from error


class KeyFile:
    """The API keys in a file, one a line, which is read again when it changes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._state, self._keys = self._stat(), self._read()

    def __call__(self) -> frozenset[str]:
        """Return the keys; an invalid file changes nothing."""
        if (state := self._stat()) != self._state:
            self._state = state
            try:
                self._keys = self._read()
            except InputError as error:
                logging.getLogger(__name__).warning("the keys stay as they were: %s", error)
        return self._keys

    def _stat(self) -> tuple[int, ...]:
        with suppress(OSError):
            status = self._file.stat()
            return status.st_mtime_ns, status.st_ino, status.st_size
        return ()

    def _read(self) -> frozenset[str]:
        keys = set[str]()
        try:
            with self._file.open(encoding="latin-1") as stream:
                lines = iter(partial(stream.readline, _MAX_KEY_LINE), "")  # /dev/zero has one without end
                for number, line in enumerate(lines, 1):
                    if key := line.strip():
                        keys.add(self._check(key, number))
        except OSError as error:
            raise InputError(error.strerror or str(error), where=self._file) from error
        if not keys:
            self._check("", 1)
        return frozenset(keys)

    def _check(self, key: str, number: int) -> str:
        if not re.fullmatch("[!-~]{16,8192}", key):
            what = f"line {number} has not 16 to 8,192 printable ASCII characters without a space"
            raise InputError(what, where=self._file, remedy="Make a key with: openssl rand -hex 32")
        return key


def check_evaluation(file: Path) -> Path:
    """Return a file of `cloze evaluate` that the page can read: JSON lines or a table of text."""
    if not file.is_file():
        raise InputError("no such file", where=file, remedy="Write it with cloze evaluate -o")
    if file.suffix.lower() not in _EVALUATION_ENDINGS:
        what, endings = "the page does not read this format", ", ".join(_EVALUATION_ENDINGS)
        raise InputError(what, where=file, remedy=f"Write it with an ending of {endings}")
    return file


def parse_names(arguments: Sequence[str], argument: str) -> dict[str, Path]:
    """Return directories by their names, from NAME=DIR, or DIR, whose name is the default; a path may contain "="."""
    directories: dict[str, Path] = {}
    for text in map(str, check_paths(arguments, argument)):
        name, equals, path = ("", "", "") if Path(text).exists() else text.partition("=")
        hub_name = parse_hub_name(path if equals else text)
        directory = Path(path if equals else text)
        default = directory.resolve().name if hub_name is None else Path(hub_name.repo).name
        if equals and not (name and path):
            raise InputError(f"{text!r} lacks a name or a directory", where=argument, remedy="Write NAME=DIR")
        name = name if equals else default
        if name in directories:
            raise InputError(f"the name {name!r} is used twice", where=argument, remedy="Write NAME=DIR")
        directories[name] = directory
    return directories
