"""Middleware that checks every request before a route sees it (host, key, queue and size), measures and logs it."""

import asyncio
import hmac
import logging
import re
import uuid
from collections.abc import Callable, Collection
from dataclasses import asdict
from importlib.metadata import version
from time import perf_counter

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HTTPRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cloze.serving.errors import error_response
from cloze.serving.json_log import REQUESTS
from cloze.serving.queue import Overloaded, Queue, Request, ShuttingDown, current_request

_PUBLIC_PATHS = ("/", "/docs", "/health", "/favicon.ico")
_PUBLIC_PREFIXES = ("/page/", "/docs/")  # static files; the pages themselves ask for the key
_REQUEST_ID = re.compile("[!-~]{1,128}")
_CLIENT_CLOSED = 499  # nginx's code for a client that disconnects before the response
_NOT_LOGGED = ("number", "turn_tokens")
"""Fields of a request that only the queue needs."""
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Requests by model, route and status, their tokens and times, the length of the queue, and the process."""

    def __init__(self, queue: Queue, routes: Collection[str]) -> None:
        """Count the requests of `routes` apart; all others share a label, so that memory stays bounded."""
        registry = self._registry = CollectorRegistry()
        self._routes = frozenset(routes)
        self._requests = Counter(
            "cloze_requests", "Requests answered", ("model", "route", "status"), registry=registry
        )
        self._tokens = Counter("cloze_tokens", "Tokens that the model read", ("model",), registry=registry)
        self._seconds, self._queue_seconds, self._compute_seconds = (
            Histogram(f"cloze_{name}_seconds", text, (label,), buckets=_SECONDS, registry=registry)
            for name, text, label in (
                ("request", "From the head of a request to its answer", "route"),
                ("queue", "Time in which a request waited for other requests", "model"),
                ("compute", "Time of the batches of a request in the model", "model"),
            )
        )
        self.in_progress = Gauge("cloze_requests_in_progress", "Requests in progress", registry=registry)
        Info("cloze_build", "Version of cloze", registry=registry).info({"version": version("cloze-bert")})
        ProcessCollector(registry=registry)
        for name, text, value in (
            ("cloze_waiting_requests", "Requests that wait for the model", lambda: queue.waiting_requests),
            ("cloze_waiting_tokens", "Their tokens, estimated", lambda: queue.waiting_tokens),
            ("cloze_batches", "Times that the model was run", lambda: queue.batches),
        ):
            Gauge(name, text, registry=registry).set_function(value)

    def count(self, scope: Scope, request: Request, status: int, seconds: float) -> None:
        """Record and log an answered request."""
        route = scope["path"] if scope["path"] in self._routes else "other"
        self._requests.labels(request.model, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if request.model:
            self._tokens.labels(request.model).inc(request.tokens)
            self._queue_seconds.labels(request.model).observe(request.queue_seconds)
            self._compute_seconds.labels(request.model).observe(request.compute_seconds)
        if REQUESTS.isEnabledFor(logging.INFO):
            row = {"method": scope["method"], "route": route, "status": status, "seconds": seconds}
            row |= {name: value for name, value in asdict(request).items() if name not in _NOT_LOGGED}
            REQUESTS.info("request", extra={"fields": row})

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class RequestMiddleware:
    """Refuse bad requests as early and cheaply as possible, cancel abandoned ones, and count all."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        queue: Queue,
        metrics: Metrics,
        api_keys: Callable[[], Collection[str]] | None,
        hosts: Collection[str] | None,
    ) -> None:
        self._app = app
        self._queue = queue
        self._metrics = metrics
        self._api_keys = api_keys
        self._hosts = None if hosts is None else {f"[{h}]" if ":" in h else h.lower() for h in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, has_started = perf_counter(), 500, False
        sent_id = Headers(scope=scope).get("x-request-id", "")
        request = Request(sent_id if _REQUEST_ID.fullmatch(sent_id) else uuid.uuid4().hex)
        current_request.set(request)

        async def send_counted(message: Message) -> None:
            nonlocal status, has_started
            if message["type"] == "http.response.start":
                status, has_started = message["status"], True
                MutableHeaders(scope=message).update(_measured_headers(request, perf_counter() - start))
            await send(message)

        try:
            with self._metrics.in_progress.track_inprogress():
                await self._handle(scope, receive, send_counted)
        except ClientDisconnect:
            status = _CLIENT_CLOSED
        except HTTPException as error:
            await _respond(error, scope, receive, send_counted)
        except asyncio.CancelledError:  # the server stops, and its time to drain is over
            if self._queue.is_alive or has_started:
                raise
            await _respond(ShuttingDown(), scope, receive, send_counted)
        finally:
            self._metrics.count(scope, request, status, perf_counter() - start)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._check_head(scope, Headers(scope=scope))
        if scope["method"] == "POST":
            body = await self._read(scope, receive)
            await _run_until_disconnect(self._app, scope, body, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check_head(self, scope: Scope, headers: Headers) -> None:
        """Refuse a request by its method, path and headers."""
        path = scope["path"]
        host = re.sub(":[0-9]*$", "", headers.get("host", "localhost")).lower()  # HTTP/1.0 needs none
        if self._hosts is not None and host not in self._hosts:
            # DNS rebinding: a web page of another site whose name resolves to this machine
            what = f"the Host {host!r} is not accepted: use localhost, or serve with --allowed-host NAME"
            raise HTTPException(421, what)
        is_public = path in _PUBLIC_PATHS or path.startswith(_PUBLIC_PREFIXES)
        if self._api_keys is not None and not (is_public and scope["method"] != "POST"):
            scheme, _, key = headers.get("authorization", "").partition(" ")
            right = [hmac.compare_digest(key.strip().encode(), k.encode()) for k in self._api_keys()]
            if scheme.lower() != "bearer" or not any(right):
                what = "give the key of this server: Authorization: Bearer KEY"
                raise HTTPException(401, what, {"WWW-Authenticate": "Bearer"})
        if "transfer-encoding" in headers and "content-length" in headers:
            # a proxy may take the other one for the end of the body, and what follows for another client's request
            what = "both Content-Length and Transfer-Encoding"
            raise HTTPException(400, what, {"Connection": "close"})
        if scope["method"] != "POST":
            return
        if not self._queue.is_alive:
            raise ShuttingDown
        if self._queue.is_full:
            raise Overloaded
        length = headers.get("content-length", "0")
        self._check_size(int(length) if length.isdecimal() else 0)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" or headers.get("content-encoding", "identity").lower() != "identity":
            what = "the body is not plain JSON: send Content-Type: application/json, uncompressed"
            raise HTTPException(415, what)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body; the Content-Length header is not trusted."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._queue.limits.body_seconds):
                async for part in HTTPRequest(scope, receive).stream():
                    body += part
                    self._check_size(len(body))
        except TimeoutError:
            what = f"the request did not arrive within {self._queue.limits.body_seconds:g} seconds"
            raise HTTPException(408, what) from None
        return bytes(body)

    def _check_size(self, num_bytes: int) -> None:
        if num_bytes > self._queue.limits.body_bytes:
            what = f"the body has more than {self._queue.limits.body_bytes:,} bytes"
            raise HTTPException(413, what, {"Connection": "close"})


def _measured_headers(request: Request, seconds: float) -> dict[str, str]:
    """Return the ID of a request and, if a model answers, its measurements under text-embeddings-inference's names."""
    headers = {"x-request-id": request.id}
    if request.truncated_texts:
        headers["x-truncated-texts"] = str(request.truncated_texts)
    if request.model:
        times = {
            "compute": seconds,
            "total": seconds,
            "tokenization": request.tokenization_seconds,
            "queue": request.queue_seconds,
            "inference": request.compute_seconds,
        }
        headers |= {f"x-{name}-time": str(round(1000 * value)) for name, value in times.items()}
        headers["x-compute-tokens"] = str(request.tokens)
    return headers


async def _run_until_disconnect(
    app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send
) -> None:
    """Run an application on a body that was read; cancel it if the client disconnects."""

    async def replay() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    watching = asyncio.create_task(wait_for_disconnect())
    handling = asyncio.ensure_future(app(scope, replay, send))
    try:
        await asyncio.wait((watching, handling), return_when=asyncio.FIRST_COMPLETED)
        if not handling.done():
            raise ClientDisconnect
        handling.result()
    finally:
        watching.cancel()
        handling.cancel()


async def _respond(error: HTTPException, scope: Scope, receive: Receive, send: Send) -> None:
    response = error_response(scope["path"], error.status_code, error.detail, error.headers)
    await response(scope, receive, send)
