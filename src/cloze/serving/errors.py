"""What a server says when it does not answer: `{"error": …, "error_type": …}`, in one line.

The codes and types are those of text-embeddings-inference where it has them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from cloze.errors import ClozeError
from cloze.serving.engine import ComputationFailed, DeadlineExceeded, Overloaded
from cloze.serving.limits import MOST_CHARACTERS, MOST_INPUTS

ErrorType: TypeAlias = Literal[
    "Validation", "Empty", "Overloaded", "Backend", "Timeout", "Unhealthy", "Unauthorized", "NotFound"
]

_MOST_SHOWN = 500
_RETRY_SECONDS = 1


class ErrorBody(BaseModel):
    """Why there is no answer."""

    error: str
    error_type: ErrorType


_MEANINGS = {
    400: "No input",
    401: "No key, or a wrong one",
    408: "The request did not arrive in time",
    413: "Larger than the limits that /info states",
    415: "Not JSON",
    422: "Not what the route takes",
    424: "The computation failed",
    429: "Too many requests wait: come again",
    503: "The server is being stopped",
    504: "The request waited too long",
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what the OpenAPI description says of refusals, all of them where none is named."""
    return {
        status: {"model": ErrorBody, "description": _MEANINGS[status]} for status in statuses or _MEANINGS
    }


def refusal(
    status: int, error: str, error_type: ErrorType, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an answer that is none."""
    line = " ".join(error.split())[:_MOST_SHOWN]
    return Response(
        json.dumps({"error": line, "error_type": error_type}), status, headers, media_type="application/json"
    )


def overloaded() -> Response:
    """Return the answer to who comes when the queue is full."""
    what = "too many requests wait for the model: come again"
    return refusal(429, what, "Overloaded", {"Retry-After": str(_RETRY_SECONDS)})


def add_error_handlers(app: FastAPI) -> None:
    """Have an application tell errors of its routes in our form."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _invalid(error.errors())

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        kind: ErrorType = "NotFound" if error.status_code in (404, 405) else "Validation"
        return refusal(error.status_code, str(error.detail), kind, error.headers)

    @app.exception_handler(ClozeError)
    async def wrong_input(_: Request, error: ClozeError) -> Response:
        return refusal(422, str(error), "Validation")

    @app.exception_handler(Overloaded)
    async def full(_: Request, __: Overloaded) -> Response:
        return overloaded()

    @app.exception_handler(DeadlineExceeded)
    async def late(_: Request, __: DeadlineExceeded) -> Response:
        return refusal(504, "the request waited too long for the model", "Timeout")

    @app.exception_handler(ComputationFailed)
    async def failed(_: Request, error: ComputationFailed) -> Response:
        return refusal(424, f"the computation failed: {error}", "Backend")


def _invalid(errors: Sequence[Any]) -> Response:
    """Tell what is wrong with a request; of the branches of a union the one that came nearest."""
    for error in errors:
        context = error.get("ctx", {})
        if context.get("max_length") in (MOST_INPUTS, MOST_CHARACTERS):
            return refusal(413, _line(error), "Validation")
        if error["type"] == "too_short" and not context["actual_length"]:
            return refusal(400, _line(error), "Empty")
    deepest = max(errors, key=lambda error: len(error["loc"]))
    return refusal(422, _line(deepest), "Validation")


def _line(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"][1:] if "[" not in str(part)) or "body"
    return f"{place}: {error['msg']}"
