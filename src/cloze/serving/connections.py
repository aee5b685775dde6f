"""Limits of client connections: their number, the time to send a request, and the time to read a response."""

import asyncio
import errno
import logging
import sys
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from cloze.serving.limits import Limits

_LOG = logging.getLogger("uvicorn.error")
_MAX_CONNECTIONS = 4096
_DEFAULT_FILES = 256


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 that closes connections above the maximum, and those that do not send or read in time.

    The time for a request starts with the connection, and after a response with what follows it: the next head, or the
    rest of a body that no response waited for. The middleware limits the other bodies.
    """

    limits: ClassVar[Limits]
    response_seconds: ClassVar = 60.0
    """Maximum time for a client to read a response."""
    response_bytes: ClassVar = 256_000_000
    """Maximum size of all unread responses; above it, the oldest is dropped."""
    unread: ClassVar[dict["LimitedProtocol", asyncio.TimerHandle]]
    """Connections whose clients have not read a response yet, with the ends of their time, the oldest first."""
    _idle: asyncio.TimerHandle | None = None
    """The end of the time for a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or close it if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > max_connections():
            transport.abort()
            return
        transport.set_write_buffer_limits(high=0)  # writing is paused until everything is read
        self._limit_request()

    def data_received(self, data: bytes) -> None:
        """Handle data; a complete head ends the time for a request."""
        super().data_received(data)
        self._limit_request()

    def pause_writing(self) -> None:
        """Limit the time in which the client reads a response, and the size of all responses that are not read."""
        super().pause_writing()
        self.unread[self] = self.loop.call_later(self.response_seconds, self._abort, "in time")
        num_bytes = sum(other.transport.get_write_buffer_size() for other in self.unread)
        for other in list(self.unread)[:-1]:  # this one alone may exceed the limit
            if num_bytes > self.response_bytes:
                num_bytes -= other.transport.get_write_buffer_size()
                other._abort("before others needed the memory")

    def resume_writing(self) -> None:
        super().resume_writing()
        if self in self.unread:
            self.unread.pop(self).cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.resume_writing()
        self._limit_request()

    def _limit_request(self) -> None:
        """Start the time for a request where none is handled, and end it where one is."""
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and not self.transport.is_closing():
            self._idle = self._idle or self.loop.call_later(self.limits.body_seconds, self.transport.close)
        elif self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _abort(self, reason: str) -> None:
        _LOG.warning("a client did not read its response %s: the connection is closed", reason)
        self.transport.abort()


def limited_protocol(limits: Limits) -> type[LimitedProtocol]:
    """Return the protocol of a server with these limits."""
    return type("LimitedProtocol", (LimitedProtocol,), {"limits": limits, "unread": {}})


def max_connections() -> int:
    """Return how many connections leave half of this process's file descriptors for everything else."""
    if sys.platform == "win32":
        return _DEFAULT_FILES
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MAX_CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(_MAX_CONNECTIONS, files // 2))


class OncePerMessage(logging.Filter):
    """Passes each message once: a client could fill a disk with lines about its bad requests.

    asyncio logs each try to accept a connection for which there is no file descriptor, with a traceback.
    """

    def __init__(self) -> None:
        super().__init__()
        self._messages: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            record.msg = "out of file descriptors: new connections wait; raise the limit of open files"
            record.exc_info = None
        message = str(record.msg)
        is_new = bool(record.exc_info) or message not in self._messages
        self._messages.add(message)
        return is_new
