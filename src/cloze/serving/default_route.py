"""The routes whose meaning depends on the first model: POST / and /vertex, as in text-embeddings-inference.

Source: text-embeddings-inference 1.9 router/src/http/server.rs.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from cloze.serving import classification_routes, embedding_routes
from cloze.serving.batcher import Batcher
from cloze.serving.routes import Route
from cloze.serving.schema import Many, ModelRequest
from cloze.serving.served_model import ServedModel

ModelKind: TypeAlias = Literal["embedding", "classifier", "reranker"]

_PATHS = {"/embed": "embedding", "/predict": "classifier", "/rerank": "reranker"}
_ROUTE_OF_KIND = {
    _PATHS[route.path]: route
    for route in (*embedding_routes.ROUTES, *classification_routes.ROUTES)
    if route.path in _PATHS
}


def model_kind(served: ServedModel) -> ModelKind:
    """Return what text-embeddings-inference calls a model: a classifier with one label is a reranker."""
    if "predict" not in served.abilities:
        return "embedding"
    return "classifier" if len(served.labels) > 1 else "reranker"


def default_routes(models: Mapping[str, ServedModel]) -> tuple[Route, Route]:
    """Return `POST /`, which is /embed, /predict or /rerank of the first model, and /vertex."""
    default = _ROUTE_OF_KIND[model_kind(next(iter(models.values())))]
    return replace(default, path="/"), Route("/vertex", default.ability, _vertex, VertexRequest)


class VertexRequest(ModelRequest):
    """Requests to the model, each as its route takes it."""

    instances: Many[dict[str, Any]]
    parameters: None = None


async def _vertex(served: ServedModel, request: VertexRequest, batcher: Batcher) -> dict[str, Any]:
    """Answer each request by /embed, /predict or /rerank, whichever the model has."""
    kind = model_kind(served)
    predictions = []
    for number, instance in enumerate(request.instances):
        is_labeled = kind == "reranker" and "query" not in instance
        route = _ROUTE_OF_KIND["classifier" if is_labeled else kind]
        try:
            inner = route.request.model_validate(instance)
        except ValidationError as error:
            place = ("body", "instances", number)
            errors = [{**entry, "loc": (*place, *entry["loc"])} for entry in error.errors()]
            raise RequestValidationError(errors) from error
        predictions.append(await route.handler(served, inner, batcher))
    return {"predictions": predictions}
