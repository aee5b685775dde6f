"""The FastAPI application: middleware, routes, and the queue that they share."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from cloze.serving import dialects, explorer_routes, info_routes, native
from cloze.serving.connections import log_lack_of_files_once
from cloze.serving.errors import add_error_handlers
from cloze.serving.info_routes import VERSION
from cloze.serving.limits import Limits
from cloze.serving.metrics import Metrics
from cloze.serving.middleware import RequestMiddleware
from cloze.serving.queue import Queue
from cloze.serving.routes import SERVER_TAG, GetRoute, Route, ServerState, StrictRoute, add_routes
from cloze.serving.served_model import ABILITIES, ServedModel
from cloze.serving.static_files import static_routes

ROUTES: tuple[Route | GetRoute, ...] = (
    *info_routes.ROUTES,
    *native.ROUTES,
    *dialects.ROUTES,
    *explorer_routes.ROUTES,
)


def create_app(
    models: Mapping[str, ServedModel],
    limits: Limits,
    *,
    threads: int = 1,
    api_key: str | None = None,
    hosts: Collection[str] | None = None,
    evaluation: Path | None = None,
) -> FastAPI:
    """Return an application that serves models.

    Args:
        models: by the names that requests use, the default first.
        threads: of torch, in the thread that computes.
        api_key: required of requests; None admits everybody.
        hosts: accepted values of the Host header; None accepts any.
        evaluation: file of `cloze evaluate` that the page opens.
    """
    queue = Queue(limits, threads=threads)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        log_lack_of_files_once(asyncio.get_running_loop())
        yield
        queue.close()

    app = FastAPI(
        title="cloze",
        description="BERT models over HTTP.",
        openapi_tags=[
            {"name": SERVER_TAG, "description": "Models, limits, health."},
            *({"name": name, "description": ability.remedy} for name, ability in ABILITIES.items()),
        ],
        version=VERSION,
        lifespan=lifespan,
        redoc_url=None,
        docs_url=None,  # its files would come from another host: /docs is a page of cloze
    )
    app.router.route_class = StrictRoute
    app.state.queue, app.state.limits = queue, limits
    metrics = Metrics(queue)
    server = ServerState(
        models,
        limits,
        queue,
        metrics,
        started=int(time.time()),
        requires_key=api_key is not None,
        evaluation=evaluation,
    )
    add_routes(app, ROUTES, server)
    app.router.routes.extend(static_routes())
    add_error_handlers(app)
    app.add_middleware(
        RequestMiddleware, queue=queue, limits=limits, metrics=metrics, api_key=api_key, hosts=hosts
    )
    return app
