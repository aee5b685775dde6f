"""A route is one entry in a table: path, ability, handler, and the types of request and response.

The tables drive the application, the OpenAPI schema and the labels of the metrics.
"""

import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson
from fastapi import FastAPI, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cloze.serving.errors import documented_errors
from cloze.serving.middleware import Metrics
from cloze.serving.queue import Queue, current_request
from cloze.serving.schema import ModelRequest, batch_texts
from cloze.serving.served_model import ServedModel, find_model

SERVER_TAG = "server"
KEY = HTTPBearer(scheme_name="key", description="A line of the file of --api-key-file.", auto_error=False)
"""Documents the key, which the middleware has checked."""

Verb: TypeAlias = Callable[[ServedModel, Any, Queue], Awaitable[Any]]

_CHARACTERS_PER_TOKEN = 4  # roughly, in English
_SPECIAL_TOKENS = 2
_MAX_KEYS = 64
"""Of an object; no route has as many. Each unknown key would become an error message."""


class Dialect(NamedTuple):
    """How the answer of a verb becomes a response, and the request of another server one of the verb."""

    write: Callable[[ServedModel, Any, Any], Any] = lambda _, __, answer: answer
    """Converts an answer, given the request."""
    read: Callable[[ServedModel, Any], ModelRequest] = lambda _, request: request
    is_slow: bool = False
    """Whether `write` takes as long as tokenizing, and needs its thread."""


_OF_VERB = Dialect()


@dataclass(frozen=True, slots=True)
class Route:
    """A POST route that a model answers."""

    path: str
    ability: str
    """A key of `ABILITIES` that the model must have."""
    verb: Verb
    """Computes the answer to a request."""
    request: type[ModelRequest]
    response: Any = None
    """The type of the response in the OpenAPI schema; None leaves the route out of it."""
    example: Mapping[str, Any] | None = None
    """A request, for the OpenAPI schema and /docs."""
    dialect: Dialect = _OF_VERB

    @property
    def handler(self) -> Callable[..., Any]:
        """The function whose docstring is the description in the OpenAPI schema."""
        return self.dialect.write if self.dialect.write.__doc__ else self.verb

    async def answer(self, served: ServedModel, request: Any, queue: Queue) -> Any:
        """Return the response to a request."""
        write, read, is_slow = self.dialect
        answer = await self.verb(served, read(served, request), queue)
        if not is_slow:
            return write(served, request, answer)
        return await queue.run(lambda: write(served, request, answer), tokens=0, thread="texts")


@dataclass(frozen=True, slots=True)
class GetRoute:
    """A GET route, which computes nothing; HEAD is answered, too."""

    path: str
    handler: Callable[..., Awaitable[Any]]
    """Takes the server, and the parameters of the path; its docstring is the description in the OpenAPI schema."""
    response: Any = None
    """The type of the response in the OpenAPI schema; None leaves the route out of it."""
    response_class: type[Response] = JSONResponse
    errors: tuple[int, ...] = ()
    """Error status codes to list in the API documentation."""
    is_public: bool = False
    """Whether it needs no key."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The models and the queue that the routes of a server share."""

    models: Mapping[str, ServedModel]
    """By the names that requests use, the default first."""
    queue: Queue
    metrics: Metrics
    started: int
    """When it started, in seconds since 1970."""
    requires_key: bool
    evaluation: Path | None
    """File of `cloze evaluate` that the page opens."""
    lessons: Mapping[str, Any]
    """As `read_lessons` returns them."""


def add_routes(app: FastAPI, routes: Sequence[Route | GetRoute], server: ServerState) -> None:
    """Register routes with an application."""
    for route in routes:
        documented: dict[str, Any] = {
            "name": route.handler.__name__.strip("_"),
            "description": inspect.getdoc(route.handler),
            "response_model": route.response,
            "include_in_schema": route.response is not None,
        }
        if isinstance(route, Route):
            endpoint, method, errors = _endpoint(route, server), "POST", documented_errors(route.path)
            documented["tags"] = [route.ability]
            body = {"content": {"application/json": {"example": route.example}}}
            documented["openapi_extra"] = None if route.example is None else {"requestBody": body}
        else:
            endpoint, method = functools.partial(route.handler, server), "GET"
            errors = documented_errors(route.path, route.errors)
            documented |= {"response_class": route.response_class, "tags": [SERVER_TAG]}
            app.add_api_route(route.path, endpoint, methods=["HEAD"], include_in_schema=False)
        is_public = isinstance(route, GetRoute) and route.is_public
        app.add_api_route(
            route.path,
            endpoint,
            methods=[method],
            responses=errors,
            dependencies=[Security(KEY)] if server.requires_key and not is_public else None,
            **documented,
        )


def _endpoint(route: Route, server: ServerState) -> Callable[..., Any]:
    async def endpoint(request: Any) -> Response:
        served = find_model(server.models, request.model, route.ability, route=route.path)
        current_request.get().model = served.name
        async with server.queue.admit():
            return json_response(await route.answer(served, request, server.queue))

    endpoint.__annotations__["request"] = route.request  # FastAPI reads it to parse the body
    return endpoint


class StrictRoute(APIRoute):
    """A route of strict JSON, refusing what Python's parser accepts; it knows the server's limit of texts."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            batch_texts.set(request.app.state.queue.limits.max_batch_texts)  # of this request's task
            return await handler(_StrictRequest(request.scope, request.receive))

        return handle


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            # decoded here: Python's parser would accept UTF-16, too
            return json.loads((await self.body()).decode("utf-8"), object_pairs_hook=_check_object)
        except RecursionError:
            raise HTTPException(422, "body: lists and objects are nested too deep") from None
        except ValueError as error:
            raise HTTPException(422, f"body: {error}") from error


def _check_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("an object has a key twice")
    if len(table) > _MAX_KEYS:
        raise ValueError(f"an object has {len(table):,} keys, more than {_MAX_KEYS}")
    return table


def in_one_turn(
    compute: Callable[[ServedModel, Any], Any], thread: Literal["model", "texts"] = "model"
) -> Verb:
    """Return the verb that runs a function alone in a thread."""

    @functools.wraps(compute)
    async def verb(served: ServedModel, request: Any, queue: Queue) -> Any:
        tokens = estimate_tokens(*(value for _, value in request))
        return await queue.run(lambda: compute(served, request), tokens=tokens, thread=thread)

    return verb


def json_response(value: Any) -> Response:
    """Return a JSON response; NumPy numbers keep the digits of their own type."""
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


def as_list(inputs: Any) -> list[Any]:
    """Wrap a single input in a list."""
    return inputs if isinstance(inputs, list) else [inputs]


def estimate_tokens(*inputs: Any) -> int:
    """Estimate the number of tokens of texts, examples and token ids; counting them is work that has to queue."""
    return sum(map(_estimate_tokens, inputs))


def _estimate_tokens(value: Any) -> int:
    if isinstance(value, str):
        return _SPECIAL_TOKENS + len(value) // _CHARACTERS_PER_TOKEN
    if isinstance(value, list | tuple):
        are_ids = bool(value) and isinstance(value[0], int)
        return _SPECIAL_TOKENS + len(value) if are_ids else estimate_tokens(*value)
    return (
        estimate_tokens(*(getattr(value, item.name) for item in fields(value))) if is_dataclass(value) else 0
    )
