"""Error responses: `{"error": …, "error_type": …}`, in one line, or under /v1 as OpenAI's clients read them.

The status codes and types are those of text-embeddings-inference where it has them.

Source: OpenAI's API reference, errors.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from cloze.errors import ClozeError, RunError
from cloze.serving.limits import MAX_CHARACTERS
from cloze.serving.schema import TOO_LONG, TOO_MANY, ResponseModel
from cloze.serving.served_model import UnknownModelError

ErrorType: TypeAlias = Literal[
    "Validation", "Empty", "Overloaded", "Backend", "Timeout", "Unhealthy", "Unauthorized", "NotFound"
]

OPENAI_PREFIX = "/v1/"
_MAX_MESSAGE_CHARACTERS = 500


class ErrorBody(ResponseModel):
    """The reason why a request failed."""

    error: str
    """The error and its remedy, in one line."""
    error_type: ErrorType
    """The kind of error, as text-embeddings-inference names it."""


class OpenAIError(ResponseModel):
    """The reason why a request failed, with the fields of OpenAI."""

    message: str
    """The error and its remedy, in one line."""
    type: str
    """The kind of error, as OpenAI names it."""
    param: str | None
    """Always null: the message names the field."""
    code: ErrorType | Literal["model_not_found"]
    """The kind of error, as on all other routes but for an unknown model."""


class OpenAIErrorBody(ResponseModel):
    """The body of an error under /v1."""

    error: OpenAIError
    """The error."""


_ERRORS: dict[int, tuple[ErrorType, str]] = {
    400: ("Empty", "No input"),
    401: ("Unauthorized", "No key, or a wrong one"),
    404: ("NotFound", "Not served"),
    408: ("Timeout", "The request did not arrive in time"),
    413: ("Validation", "Larger than the limits in /info"),
    415: ("Validation", "Not JSON"),
    422: ("Validation", "Not a valid request for this route"),
    424: ("Backend", "The computation failed"),
    429: ("Overloaded", "Too many requests are queued: try again later"),
    503: ("Unhealthy", "The server is shutting down, or a computation is stuck"),
    504: ("Timeout", "The request waited too long"),
}
"""Documented status codes, with their types and descriptions."""

_OPENAI_TYPES = {401: "authentication_error", 424: "server_error", 429: "rate_limit_error"}
_FIRST_SERVER_ERROR = 500


def documented_errors(path: str, statuses: Iterable[int] = tuple(_ERRORS)) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of the error responses of a path; under /v1 an unknown model is 404."""
    is_openai = path.startswith(OPENAI_PREFIX)
    body, shown = (OpenAIErrorBody, statuses) if is_openai else (ErrorBody, {*statuses} - {404})
    return {status: {"model": body, "description": _ERRORS[status][1]} for status in sorted(shown)}


def error_response(
    path: str, status: int, error: str, headers: Mapping[str, str] | None = None, *, is_of_model: bool = False
) -> Response:
    """Return an error in the form that the clients of the requested path read."""
    message = " ".join(error.split())[:_MAX_MESSAGE_CHARACTERS]
    kind: ErrorType = "NotFound" if status in (404, 405) else _ERRORS.get(status, ("Validation",))[0]
    body: BaseModel = ErrorBody(error=message, error_type=kind)
    if path.startswith(OPENAI_PREFIX):
        default = "invalid_request_error" if status < _FIRST_SERVER_ERROR else "server_error"
        openai_type = _OPENAI_TYPES.get(status, default)
        code = "model_not_found" if is_of_model else kind
        status = 404 if is_of_model else status
        body = OpenAIErrorBody(error=OpenAIError(message=message, type=openai_type, param=None, code=code))
    return Response(json.dumps(body.model_dump()), status, headers, media_type="application/json")


def add_error_handlers(app: FastAPI) -> None:
    """Convert the exceptions of an application's routes to error responses."""

    async def invalid(request: Request, error: Any) -> Response:
        status, message = _validation_error(error.errors(), error.body)
        return error_response(request.url.path, status, message)

    async def refused(request: Request, error: Any) -> Response:
        return error_response(request.url.path, error.status_code, error.detail, error.headers)

    async def failed(request: Request, error: Exception) -> Response:
        status, what = (424, "the computation failed: ") if isinstance(error, RunError) else (422, "")
        is_of_model = isinstance(error, UnknownModelError)
        return error_response(request.url.path, status, f"{what}{error}", is_of_model=is_of_model)

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(ClozeError, failed)


def _validation_error(errors: Sequence[Any], body: Any) -> tuple[int, str]:
    """Return the status and the message of one of several errors; for a union the branch that matched furthest."""
    for error in errors:
        context = error.get("ctx", {})
        if error["type"] in (TOO_MANY, TOO_LONG) or context.get("max_length") == MAX_CHARACTERS:
            return 413, _message(error, body)
        if error["type"] == "too_short" and not context["actual_length"]:
            return 400, _message(error, body)
    return 422, _message(max(errors, key=lambda error: len(error["loc"])), body)


def _message(error: Any, body: Any) -> str:
    location = error["loc"][1:]
    place = []
    for part in location:  # pydantic also names the branches of unions, which no request has
        if (isinstance(body, dict) and part in body) or (isinstance(body, list) and isinstance(part, int)):
            place.append(str(part))
            body = body[part]
    if error["type"] == "missing":
        place += location[-1:]
    return f"{'.'.join(place) or 'body'}: {error['msg']}"
