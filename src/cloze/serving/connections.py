"""Connections of clients: at most so many at a time, each with a limited time to send the head of a request."""

import asyncio
import errno
import logging
import sys
from collections.abc import Mapping
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_LOG = logging.getLogger("uvicorn.error")
_HEAD_SECONDS = 10.0
_MAX_CONNECTIONS = 4096
_DEFAULT_FILES = 256


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 that closes connections above the maximum, and those that send no complete head in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or close it if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > max_connections():
            transport.abort()
            return
        self._deadline = self.loop.call_later(_HEAD_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        """Handle data; a complete head ends the time limit, and the middleware limits that of the body."""
        super().data_received(data)
        if self.cycle is not None and self._deadline is not None:
            self._deadline.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)


def max_connections() -> int:
    """Return how many connections leave half of this process's file descriptors for everything else."""
    if sys.platform == "win32":
        return _DEFAULT_FILES
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MAX_CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(_MAX_CONNECTIONS, files // 2))


class OncePerMessage(logging.Filter):
    """Passes each message once: a client could fill a disk with lines about its bad requests."""

    def __init__(self) -> None:
        super().__init__()
        self._messages: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record has a new message, or one with a traceback."""
        message = str(record.msg)
        is_new = record.exc_info is not None or message not in self._messages
        self._messages.add(message)
        return is_new


def log_lack_of_files_once(loop: asyncio.AbstractEventLoop) -> None:
    """Report once that connections cannot be accepted for lack of file descriptors; asyncio does so for each try."""
    is_reported = False

    def handle(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        nonlocal is_reported
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(dict(context))
        elif not is_reported:
            is_reported = True
            _LOG.warning("out of file descriptors: new connections wait; raise the limit of open files")

    loop.set_exception_handler(handle)
