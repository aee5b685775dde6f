"""Strict JSON: refuse what Python's parser accepts, and pydantic does not see in the parsed body."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cloze.serving.schema import batch_texts

_MAX_KEYS = 64
"""Of an object; no route has as many. Each unknown key would become an error message."""


class StrictRoute(APIRoute):
    """A route that parses the bodies of its requests with `parse_json`, and knows the server's limit."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of FastAPI for a request that parses its own body."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            batch_texts.set(request.app.state.limits.batch_texts)  # of this request's task
            return await handler(_StrictRequest(request.scope, request.receive))

        return handle


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return parse_json(await self.body())
        except ValueError as error:
            raise HTTPException(422, f"body: {error}") from error


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON body.

    Raises:
        ValueError: the body is not UTF-8 or not JSON, repeats a key, has too many keys, or is nested too deep.
    """
    text = body.decode("utf-8")  # Python's parser would accept UTF-16, too
    try:
        return json.loads(text, object_pairs_hook=_check_object)
    except RecursionError:
        raise ValueError("lists and objects are nested too deep") from None


def _check_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("an object has a key twice")
    if len(table) > _MAX_KEYS:
        raise ValueError(f"an object has {len(table):,} keys, more than {_MAX_KEYS}")
    return table
