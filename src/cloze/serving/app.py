"""The application: the door, the routes, and the engine behind them."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from cloze.serving.about import VERSION, about
from cloze.serving.answer_routes import answer_routes
from cloze.serving.door import Door
from cloze.serving.embedding_routes import embedding_routes
from cloze.serving.engine import Engine
from cloze.serving.errors import add_error_handlers
from cloze.serving.explorer import explorer
from cloze.serving.limits import Limits
from cloze.serving.metrics import Metrics
from cloze.serving.models import ServedModel
from cloze.serving.service import Service


def create_app(
    models: Mapping[str, ServedModel],
    limits: Limits,
    *,
    threads: int = 1,
    api_key: str | None = None,
    runs: Mapping[str, Path] | None = None,
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """Return an application that serves models.

    Args:
        models: by the names that requests give them, the default one first.
        limits: what it takes.
        threads: of the computation.
        api_key: what requests have to know; None lets everybody in.
        runs: directories of runs that the page may watch, by their names.
        hosts: what requests may call this host; None is anything.
    """
    engine = Engine(limits, threads=threads)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        engine.close()

    app = FastAPI(
        title="cloze",
        description="All that a BERT answers.",
        version=VERSION,
        lifespan=lifespan,
        redoc_url=None,
        docs_url=None,  # its files would come from another host
    )
    metrics = Metrics(engine)
    app.state.engine = engine
    app.include_router(about(models, engine, limits, metrics))
    service = Service(models, engine)
    app.include_router(embedding_routes(service))
    app.include_router(answer_routes(service))
    app.include_router(explorer(service, runs))
    add_error_handlers(app)
    metrics.name_routes(app.openapi()["paths"])
    app.add_middleware(Door, engine=engine, limits=limits, metrics=metrics, api_key=api_key, hosts=hosts)
    return app
