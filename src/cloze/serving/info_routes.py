"""Routes that compute nothing: models, health, metrics.

Source: text-embeddings-inference 1.9 docs/openapi.json; OpenAI's API reference, models.
"""

from dataclasses import asdict
from importlib.metadata import version
from typing import Any, Literal

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from cloze.serving.limits import MAX_CHARACTERS
from cloze.serving.queue import ShuttingDown
from cloze.serving.routes import GetRoute, ServerState
from cloze.serving.schema import ResponseModel
from cloze.serving.served_model import ServedModel, UnknownModelError

VERSION = version("cloze-bert")


class OpenAIModel(ResponseModel):
    """A served model, as OpenAI's clients list it."""

    id: str
    """Its name in requests."""
    object: Literal["model"]
    """The kind of object."""
    created: int
    """When the server started, in seconds since 1970."""
    owned_by: str
    """Always cloze."""


class OpenAIModels(ResponseModel):
    """The served models."""

    object: Literal["list"]
    """The kind of object."""
    data: list[OpenAIModel]
    """The models, the default first."""


async def info(server: ServerState) -> dict[str, Any]:
    """Return the served models, their abilities, and the limits."""
    limits = server.queue.limits
    default = next(iter(server.models.values()))  # the fields of text-embeddings-inference are of this one
    if "predict" in default.abilities:
        head, names = default.predictor, {str(number): label for number, label in enumerate(default.labels)}
        kind = "classifier" if len(names) > 1 else "reranker"  # TEI's name of a classifier with one label
        about: dict[str, Any] = {
            "id2label": names,
            "label2id": {names[number]: int(number) for number in names},
        }
    else:
        head, kind = default.embedder, "embedding"
        about = {"pooling": None if head is None else head.output.pooling}
    return {
        "model_id": default.name,
        "model_sha": None,
        "model_dtype": default.engine.number_format,
        "model_type": {kind: about},
        "served_model_name": default.name,
        "max_concurrent_requests": limits.waiting_requests,
        "max_input_length": default.model.config.max_position_embeddings
        if head is None
        else head.max_seq_length,
        "max_batch_tokens": limits.batch_tokens,
        "max_batch_requests": None,
        "max_client_batch_size": limits.max_batch_texts,
        "auto_truncate": True,
        "tokenization_workers": 1,
        "version": VERSION,
        "sha": None,
        "docker_label": None,
        "limits": {"characters": MAX_CHARACTERS, **asdict(limits)},
        "models": [_model_info(model) for model in server.models.values()],
    }


async def health(server: ServerState) -> Response:
    """Return 200 while the server accepts requests, and 503 while a computation takes longer than requests may wait."""
    if not server.queue.is_alive or server.queue.is_leaving:
        raise ShuttingDown
    if server.queue.is_stuck:
        raise HTTPException(503, "a computation takes longer than deadline_seconds")
    return Response()


async def prometheus(server: ServerState) -> Response:
    """Return counters for Prometheus."""
    return Response(server.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def openai_models(server: ServerState) -> dict[str, Any]:
    """Return the served models in the format of OpenAI, the default first."""
    return {"object": "list", "data": [await openai_model(server, name) for name in server.models]}


async def openai_model(server: ServerState, model: str) -> dict[str, Any]:
    """Return one of the served models in the format of OpenAI."""
    if model not in server.models:
        raise UnknownModelError(model, server.models)
    return {"id": model, "object": "model", "created": server.started, "owned_by": "cloze"}


ROUTES = (
    GetRoute("/info", info, dict[str, Any]),
    GetRoute("/health", health, Any, Response, errors=(503,), is_public=True),
    GetRoute("/metrics", prometheus, str, PlainTextResponse),
    GetRoute("/v1/models", openai_models, OpenAIModels),
    GetRoute("/v1/models/{model}", openai_model, OpenAIModel, errors=(404, 422)),
)


def _model_info(model: ServedModel) -> dict[str, Any]:
    config, task = model.model.config, model.task
    sizes = (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "vocab_size",
        "max_position_embeddings",
    )
    return {
        "name": model.name,
        "abilities": model.abilities,
        "engine": "onnxruntime" if model.model.is_graph else "torch",
        "number_format": model.engine.number_format,
        "is_sentence_encoder": model.is_sentence_encoder,
        "task": None if task is None else task.name,
        "reads_pairs": None if model.predictor is None else model.predictor.reads_pairs,
        "labels": [] if task is None else list(task.answer.class_names),
        "mask_token": model.tokenizer.special_token("mask") if "fill" in model.abilities else None,
        **{name: getattr(config, name) for name in sizes},
    }
