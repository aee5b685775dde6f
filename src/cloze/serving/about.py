"""What the server says of itself: /info, /health, /metrics."""

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from cloze.serving.engine import Engine
from cloze.serving.errors import documented, refusal
from cloze.serving.limits import MOST_CHARACTERS, MOST_INPUTS, Limits
from cloze.serving.metrics import CONTENT_TYPE, Metrics
from cloze.serving.models import ServedModel

VERSION = version("cloze-bert")


def about(models: Mapping[str, ServedModel], engine: Engine, limits: Limits, metrics: Metrics) -> APIRouter:
    """Return the routes that compute nothing."""
    router = APIRouter()
    info_of_all = _info(models, limits)

    @router.get("/info")
    async def info() -> dict[str, Any]:
        """Return which models are served, what each can do, and the limits."""
        return info_of_all

    @router.get("/health", response_class=Response, responses=documented(503))
    async def health() -> Response:
        """Return 200 where requests are answered."""
        if engine.is_alive:
            return Response(status_code=200)
        return refusal(503, "the server is being stopped", "Unhealthy")

    @router.get("/metrics", response_class=PlainTextResponse)
    async def prometheus() -> Response:
        """Return counters for Prometheus."""
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return router


def _info(models: Mapping[str, ServedModel], limits: Limits) -> dict[str, Any]:
    """Return what text-embeddings-inference says of its model, here the default one, and all of ours."""
    default = next(iter(models.values()))
    return {
        "model_id": default.name,
        "model_sha": None,
        "model_dtype": "float32",
        "model_type": {"embedding": {"pooling": default.embedder.pooling}},
        "max_concurrent_requests": limits.waiting_requests,
        "max_input_length": default.embedder.max_seq_length,
        "max_batch_tokens": limits.batch_tokens,
        "max_batch_requests": None,
        "max_client_batch_size": MOST_INPUTS,
        "auto_truncate": True,
        "tokenization_workers": 1,
        "version": VERSION,
        "limits": {"inputs": MOST_INPUTS, "characters": MOST_CHARACTERS, **asdict(limits)},
        "models": [_described(model) for model in models.values()],
    }


def _described(model: ServedModel) -> dict[str, Any]:
    config = model.config
    return {
        "name": model.name,
        "abilities": model.abilities,
        "task": None if model.task is None else model.task.name,
        "labels": [] if model.task is None else list(model.task.class_names),
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_position_embeddings,
    }
