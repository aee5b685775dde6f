"""The door: what every request passes before a route sees it. Whatever is refused here has cost next to nothing."""

import asyncio
import hmac
from collections.abc import Collection
from time import perf_counter
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cloze.serving.engine import Engine
from cloze.serving.errors import overloaded, refusal
from cloze.serving.limits import Limits
from cloze.serving.metrics import Metrics
from cloze.serving.strict_json import check_json

_OPEN = ("/", "/health", "/favicon.ico")
_GONE = 499  # as nginx counts who has left before the answer
_OPEN_FOLDER = "/page/"  # files of the package; the page asks for the key itself


class _ClientGone(Exception):  # noqa: N818 (nothing is wrong)
    """Nobody waits for the answer any more."""


class Door:
    """Checks the key, the room in the queue, and size and form of the body; counts what comes and goes."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        engine: Engine,
        limits: Limits,
        metrics: Metrics,
        api_key: str | None,
        hosts: Collection[str] | None,
    ) -> None:
        self._app = app
        self._engine = engine
        self._limits = limits
        self._metrics = metrics
        self._api_key = None if api_key is None else api_key.encode()
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, has_begun = perf_counter(), 500, False

        async def send_counted(message: Message) -> None:
            nonlocal status, has_begun
            if message["type"] == "http.response.start":
                status, has_begun = message["status"], True
            await send(message)

        try:
            await self._answer(scope, receive, send_counted)
        except _ClientGone:
            status = _GONE
        except asyncio.CancelledError:  # the time is over in which the server answers before it stops
            if self._engine.is_alive or has_begun:
                raise
            await _being_stopped()(scope, receive, send_counted)
        finally:
            self._metrics.count(scope["path"], status, perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        answer = self._refuse_unread(scope, headers)
        if answer is None and scope["method"] == "POST":
            body = await self._read(receive)
            answer = body if isinstance(body, Response) else self._refuse_body(body)
            if answer is None and isinstance(body, bytes):
                await _answer_unless_gone(self._app, scope, body, receive, send)
                return
        await (answer or self._app)(scope, receive, send)

    def _refuse_unread(self, scope: Scope, headers: Headers) -> Response | None:
        """Say what speaks against a request by its head alone."""
        path = scope["path"]
        host = _host_of(headers)
        if self._hosts is not None and host and host not in self._hosts:
            # a web page of another site whose name was made to lead here would else be let in as our own
            what = f"asked for as {host}: say localhost, or serve with --host or --api-key-file"
            return refusal(421, what, "Validation")
        if self._api_key is not None and path not in _OPEN and not path.startswith(_OPEN_FOLDER):
            scheme, _, key = headers.get("authorization", "").partition(" ")
            is_right = hmac.compare_digest(key.strip().encode(), self._api_key)
            if scheme.lower() != "bearer" or not is_right:
                what = "give the key of this server: Authorization: Bearer KEY"
                return refusal(401, what, "Unauthorized", {"WWW-Authenticate": "Bearer"})
        if scope["method"] != "POST":
            return None
        if not self._engine.is_alive:
            return _being_stopped()
        if self._engine.is_full:
            return overloaded()
        said = headers.get("content-length", "0")
        if said.isdecimal() and int(said) > self._limits.body_bytes:
            return self._too_large()
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return refusal(415, "the body is not JSON: send Content-Type: application/json", "Validation")
        return None

    async def _read(self, receive: Receive) -> bytes | Response:
        """Return the body; what the request says of its length is not relied on."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientGone
                    part = message.get("body", b"")
                    size += len(part)
                    if size > self._limits.body_bytes:
                        return self._too_large()
                    parts.append(part)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            return refusal(408, f"no whole request in {self._limits.body_seconds:g} seconds", "Timeout")

    def _refuse_body(self, body: bytes) -> Response | None:
        try:
            check_json(body, depth=self._limits.json_depth)
        except ValueError as error:
            what = (
                "half a character (a lone surrogate)" if isinstance(error, UnicodeEncodeError) else str(error)
            )
            return refusal(422, f"body: {what}", "Validation")
        return None

    def _too_large(self) -> Response:
        what = f"a body of more than {self._limits.body_bytes:,} bytes"
        return refusal(413, what, "Validation", {"Connection": "close"})


def _being_stopped() -> Response:
    return refusal(503, "the server is being stopped", "Unhealthy")


def _host_of(headers: Headers) -> str:
    """Return what a request calls this host, without the port."""
    try:
        return urlsplit(f"//{headers.get('host', '')}").hostname or ""
    except ValueError:  # brackets that do not close
        return ""


async def _answer_unless_gone(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """Have a request answered whose body has been read; where the client goes away, the answer is given up."""
    answering = asyncio.current_task()
    assert answering is not None
    is_read = is_gone = False

    async def replay() -> Message:
        nonlocal is_read
        if is_read:
            return await asyncio.shield(watching)
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def watch() -> Message:
        nonlocal is_gone
        while (message := await receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        answering.cancel()
        return message

    watching = asyncio.create_task(watch())
    try:
        await app(scope, replay, send)
    except asyncio.CancelledError:
        if not is_gone:
            raise
        answering.uncancel()
        raise _ClientGone from None
    finally:
        watching.cancel()
