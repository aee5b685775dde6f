"""Error responses: `{"error": …, "error_type": …}`, in one line.

The status codes and types are those of text-embeddings-inference where it has them.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from cloze.errors import ClozeError
from cloze.serving.batcher import ComputationFailed, DeadlineExceeded, Overloaded
from cloze.serving.limits import MAX_CHARACTERS, MAX_INPUTS

ErrorType: TypeAlias = Literal[
    "Validation", "Empty", "Overloaded", "Backend", "Timeout", "Unhealthy", "Unauthorized", "NotFound"
]

_MAX_MESSAGE_CHARACTERS = 500
_RETRY_SECONDS = 1


class ErrorBody(BaseModel):
    """The reason why a request failed."""

    error: str
    error_type: ErrorType


_ERRORS: dict[int, tuple[ErrorType, str]] = {
    400: ("Empty", "No input"),
    401: ("Unauthorized", "No key, or a wrong one"),
    408: ("Timeout", "The request did not arrive in time"),
    413: ("Validation", "Larger than the limits in /info"),
    415: ("Validation", "Not JSON"),
    422: ("Validation", "Not a valid request for this route"),
    424: ("Backend", "The computation failed"),
    429: ("Overloaded", "Too many requests are queued: try again later"),
    503: ("Unhealthy", "The server is shutting down"),
    504: ("Timeout", "The request waited too long"),
}
"""Documented status codes, with their types and descriptions."""


class Refused(Exception):  # noqa: N818 (nothing is wrong but the request)
    """A request that gets an error response before a route sees it."""

    def __init__(self, response: Response) -> None:
        self.response = response


def documented_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of error responses; by default of all."""
    return {status: {"model": ErrorBody, "description": _ERRORS[status][1]} for status in statuses or _ERRORS}


def error_response(status: int, error: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error response."""
    line = " ".join(error.split())[:_MAX_MESSAGE_CHARACTERS]
    kind = "NotFound" if status in (404, 405) else _ERRORS.get(status, ("Validation",))[0]
    body = json.dumps({"error": line, "error_type": kind})
    return Response(body, status, headers, media_type="application/json")


def overloaded() -> Response:
    """Return the response to requests that find the queue full."""
    what = "too many requests are queued: try again later"
    return error_response(429, what, {"Retry-After": str(_RETRY_SECONDS)})


def shutting_down() -> Response:
    """Return the response to requests that arrive while the server stops."""
    return error_response(503, "the server is shutting down")


def add_error_handlers(app: FastAPI) -> None:
    """Convert the exceptions of an application's routes to error responses."""
    responses: dict[type[Exception], Callable[[Any], Response]] = {
        RequestValidationError: lambda error: _invalid(error.errors()),
        HTTPException: lambda error: error_response(error.status_code, str(error.detail), error.headers),
        ClozeError: lambda error: error_response(422, str(error)),
        Overloaded: lambda _: overloaded(),
        DeadlineExceeded: lambda _: error_response(504, "the request waited too long for the model"),
        ComputationFailed: lambda error: error_response(424, f"the computation failed: {error}"),
    }

    def handler(respond: Callable[[Any], Response]) -> Callable[[Request, Exception], Awaitable[Response]]:
        async def handle(_: Request, error: Exception) -> Response:
            return respond(error)

        return handle

    for error, respond in responses.items():
        app.add_exception_handler(error, handler(respond))


def _invalid(errors: Sequence[Any]) -> Response:
    """Return one of several validation errors; for a union the branch that matched furthest."""
    for error in errors:
        context = error.get("ctx", {})
        if context.get("max_length") in (MAX_INPUTS, MAX_CHARACTERS):
            return error_response(413, _message(error))
        if error["type"] == "too_short" and not context["actual_length"]:
            return error_response(400, _message(error))
    deepest = max(errors, key=lambda error: len(error["loc"]))
    return error_response(422, _message(deepest))


def _message(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"][1:] if "[" not in str(part)) or "body"
    return f"{place}: {error['msg']}"
