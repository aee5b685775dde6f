"""The FastAPI application: middleware, routes, and the batcher that they share."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.routing import APIRoute

from cloze.serving import embedding_routes, explorer_routes, task_routes
from cloze.serving.batcher import Batcher
from cloze.serving.connections import log_lack_of_files_once
from cloze.serving.default_route import default_routes
from cloze.serving.errors import add_error_handlers
from cloze.serving.info_routes import VERSION, info_routes
from cloze.serving.limits import Limits
from cloze.serving.metrics import Metrics
from cloze.serving.middleware import RequestMiddleware
from cloze.serving.routes import add_routes
from cloze.serving.served_model import ServedModel
from cloze.serving.strict_json import StrictRoute

ROUTES = (*embedding_routes.ROUTES, *task_routes.ROUTES, *explorer_routes.ROUTES)


def create_app(
    models: Mapping[str, ServedModel],
    limits: Limits,
    *,
    threads: int = 1,
    api_key: str | None = None,
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """Return an application that serves models.

    Args:
        models: by the names that requests use, the default first.
        limits: of requests and of the queue.
        threads: of torch, in the thread that computes.
        api_key: required of requests; None admits everybody.
        hosts: accepted values of the Host header; None accepts any.
    """
    batcher = Batcher(limits, threads=threads)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        log_lack_of_files_once(asyncio.get_running_loop())
        yield
        batcher.close()

    app = FastAPI(
        title="cloze",
        description="BERT models over HTTP.",
        version=VERSION,
        lifespan=lifespan,
        redoc_url=None,
        docs_url=None,  # its files would come from another host
    )
    app.router.route_class = StrictRoute
    app.state.batcher = batcher
    metrics = Metrics(batcher)
    info = info_routes(models, batcher, limits, metrics)
    app.include_router(info)
    add_routes(app, (*ROUTES, *default_routes(models)), models, batcher)
    app.include_router(explorer_routes.page_routes())
    add_error_handlers(app)
    # app.routes has those of an included router only once a request needs them
    documented = (route for route in (*info.routes, *app.routes) if isinstance(route, APIRoute))
    metrics.name_routes({route.path for route in documented if route.include_in_schema})
    app.add_middleware(
        RequestMiddleware, batcher=batcher, limits=limits, metrics=metrics, api_key=api_key, hosts=hosts
    )
    return app
