"""Routes that compute nothing: /info, /health, /metrics."""

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from cloze.serving.batcher import Batcher
from cloze.serving.default_route import ModelKind, model_kind
from cloze.serving.errors import documented_errors, shutting_down
from cloze.serving.limits import MAX_CHARACTERS, MAX_INPUTS, Limits
from cloze.serving.metrics import CONTENT_TYPE, Metrics
from cloze.serving.served_model import ServedModel

VERSION = version("cloze-bert")


def info_routes(
    models: Mapping[str, ServedModel], batcher: Batcher, limits: Limits, metrics: Metrics
) -> APIRouter:
    """Return the routes about the server itself."""
    router = APIRouter()
    server_info = _server_info(models, limits)

    @router.get("/info")
    async def info() -> dict[str, Any]:
        """Return the served models, their abilities, and the limits."""
        return server_info

    @router.get("/health", response_class=Response, responses=documented_errors(503))
    async def health() -> Response:
        """Return 200 while the server accepts requests."""
        return Response(status_code=200) if batcher.is_alive else shutting_down()

    @router.get("/metrics", response_class=PlainTextResponse)
    async def prometheus() -> Response:
        """Return counters for Prometheus."""
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return router


def _server_info(models: Mapping[str, ServedModel], limits: Limits) -> dict[str, Any]:
    """Return the fields of text-embeddings-inference, for the default model, and those of cloze, for all models."""
    default = next(iter(models.values()))
    kind = model_kind(default)
    return {
        "model_id": default.name,
        "model_sha": None,
        "model_dtype": default.number_format,
        "model_type": {kind: _kind_info(default, kind)},
        "served_model_name": default.name,
        "max_concurrent_requests": limits.waiting_requests,
        "max_input_length": _max_input_length(default, kind),
        "max_batch_tokens": limits.batch_tokens,
        "max_batch_requests": None,
        "max_client_batch_size": MAX_INPUTS,
        "auto_truncate": True,
        "tokenization_workers": 1,
        "version": VERSION,
        "sha": None,
        "docker_label": None,
        "limits": {"inputs": MAX_INPUTS, "characters": MAX_CHARACTERS, **asdict(limits)},
        "models": [_model_info(model) for model in models.values()],
    }


def _max_input_length(served: ServedModel, kind: ModelKind) -> int:
    head = served.vectors if kind == "embedding" else served.finetuned
    return served.max_positions if head is None else head.max_seq_length


def _kind_info(served: ServedModel, kind: ModelKind) -> dict[str, Any]:
    if kind == "embedding":
        return {"pooling": None if served.vectors is None else served.vectors.pooling}
    numbers = list(enumerate(served.labels))
    return {
        "id2label": {str(number): label for number, label in numbers},
        "label2id": {label: number for number, label in numbers},
    }


def _model_info(model: ServedModel) -> dict[str, Any]:
    config = model.config
    return {
        "name": model.name,
        "abilities": model.abilities,
        "task": None if model.task is None else model.task.name,
        "reads_pairs": None if model.predictor is None else model.predictor.reads_pairs,
        "labels": [] if model.task is None else list(model.task.class_names),
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_position_embeddings,
    }
