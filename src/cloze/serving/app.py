"""The FastAPI application: middleware, routes, the files of the pages at / and /docs, and the queue that they share."""

import mimetypes
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette import routing
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from cloze.errors import ClozeError
from cloze.serving import dialects, explorer_routes, info_routes, native
from cloze.serving.errors import add_error_handlers
from cloze.serving.info_routes import VERSION
from cloze.serving.lessons import read_lessons
from cloze.serving.limits import Limits
from cloze.serving.middleware import Metrics, RequestMiddleware
from cloze.serving.queue import DeadlineExceeded, Queue
from cloze.serving.routes import SERVER_TAG, GetRoute, Route, ServerState, StrictRoute, add_routes
from cloze.serving.served_model import ABILITIES, ServedModel

ROUTES: tuple[Route | GetRoute, ...] = (
    *info_routes.ROUTES,
    *native.ROUTES,
    *dialects.ROUTES,
    *explorer_routes.ROUTES,
)

PAGE = Path(__file__).with_name("page")
DOCS_PAGE = Path(__file__).with_name("docs_page")
_TOKENS_PER_THREAD = 512
"""In a turn of a request on a CPU, which other requests wait for; 256 take 1.03 to 1.19 of its processor time."""
# the registry of Windows may have another type, which nosniff refuses
mimetypes.add_type("text/javascript", ".js")
_NOT_WARMED = ("explain",)
"""Abilities whose examples take seconds."""
_INDEXES = ("/", "/docs", "/docs/")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' blob:; "  # a picture is saved as PNG from a blob
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # ask whether the file has changed
}


def create_app(
    models: Mapping[str, ServedModel],
    limits: Limits,
    *,
    threads: int = 1,
    api_keys: Callable[[], Collection[str]] | None = None,
    hosts: Collection[str] | None = None,
    cors: Sequence[str] = (),
    evaluation: Path | None = None,
    lessons: Mapping[str, Any] | None = None,
) -> FastAPI:
    """Return an application that serves models.

    Args:
        models: by the names that requests use, the default first.
        threads: of torch, in the thread that computes.
        api_keys: returns the accepted keys; None accepts every request.
        hosts: accepted values of the Host header; None accepts any.
        cors: origins of other web pages that may send requests; * is every one.
        evaluation: file of `cloze evaluate` that the page opens.
        lessons: of the page, as `read_lessons` returns them; None has the bundled ones.
    """
    is_on_cpu = all(served.engine.device_type == "cpu" for served in models.values())
    queue = Queue(limits, threads=threads, turn_tokens=_TOKENS_PER_THREAD * threads if is_on_cpu else None)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        queue.close()

    app = FastAPI(
        title="cloze",
        description="BERT models over HTTP.",
        openapi_tags=[
            {"name": SERVER_TAG, "description": "Models, limits, health."},
            *({"name": name, "description": remedy} for name, (_, remedy) in ABILITIES.items()),
        ],
        version=VERSION,
        lifespan=lifespan,
        redoc_url=None,
        docs_url=None,  # its files would come from another host: /docs is a page of cloze
    )
    app.router.route_class = StrictRoute
    app.state.queue, app.state.models = queue, models
    metrics = Metrics(queue, {route.path for route in ROUTES})
    course = read_lessons() if lessons is None else lessons
    server = ServerState(models, queue, metrics, int(time.time()), api_keys is not None, evaluation, course)
    add_routes(app, ROUTES, server)
    page, docs = (GZipMiddleware(_StaticFiles(directory=folder)) for folder in (PAGE, DOCS_PAGE))
    app.router.routes += [routing.Route("/", page), routing.Route("/docs", docs)]
    app.router.routes += [routing.Mount("/page", page), routing.Mount("/docs", docs)]
    add_error_handlers(app)
    app.add_middleware(RequestMiddleware, queue=queue, metrics=metrics, api_keys=api_keys, hosts=hosts)
    if cors:
        allowed: dict[str, Any] = {"allow_methods": ["GET", "POST"], "allow_headers": ["*"]}
        app.add_middleware(CORSMiddleware, allow_origins=cors, **allowed, expose_headers=["*"])
    return app


async def warm_up(models: Mapping[str, ServedModel], queue: Queue) -> None:
    """Have each model answer the examples of the routes once: the first time takes up to ten times as long."""
    import_module("pyarrow")  # which tokenizing needs for more than 500 characters
    routes = [route for route in ROUTES if isinstance(route, Route) and route.example is not None]
    with suppress(DeadlineExceeded):
        async with queue.admit():
            for served, route in product(models.values(), routes):
                if route.ability in served.abilities and route.ability not in _NOT_WARMED:
                    with suppress(ClozeError):  # of a model of pairs, or with another mask
                        await route.answer(served, route.request.model_validate(route.example), queue)


class _StaticFiles(StaticFiles):
    def get_path(self, scope: Scope) -> str:
        return "index.html" if scope["path"] in _INDEXES else super().get_path(scope)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response
