"""The explorer page and its routes: attention, one head's computation, a word in context, answer spans.

The page is static files of this package. Routes under `/explore` serve only the page and may change with it.
"""

import base64
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from fastapi import APIRouter, HTTPException, Response
from pydantic import Field
from torch import Tensor

from cloze.errors import InputError
from cloze.inference.encoder_internals import (
    LayerAttention,
    attention_map,
    attention_row,
    input_embeddings,
)
from cloze.inference.layer_trace import LayerSteps, TokenTrace, trace_masked_lm, trace_token
from cloze.inference.next_sentence import IS_NEXT
from cloze.inference.word_in_context import word_in_context
from cloze.serving.batcher import Batcher
from cloze.serving.routes import Route, estimate_tokens, in_one_turn
from cloze.serving.schema import ModelRequest, NonBlankText, Text, Texts
from cloze.serving.served_model import ServedModel
from cloze.serving.windowed_inference import WindowedSpanScores

PAGE = Path(__file__).with_name("page")
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' blob:; "  # a picture is saved as PNG from a blob
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
MAX_OCCURRENCES = 64
"""Of a word; the response grows with their square."""
MAX_WEIGHTS = 1 << 20
"""Attention weights in a response, 4 bytes each."""
_FIRST_DIMENSIONS = 8
_TOP_K = 5
_DIGITS = 6


class TextRequest(ModelRequest):
    """A text, or a pair of texts."""

    text: NonBlankText
    pair: Text | None = None


class RowRequest(TextRequest):
    """A token of a text and an attention head, counted from 0."""

    layer: int = Field(ge=0)
    head: int = Field(ge=0)
    token: int = Field(ge=0)


class TokenRequest(TextRequest):
    """A token of a text, counted from 0; None takes the first [MASK], or else the token in the middle."""

    token: int | None = Field(default=None, ge=0)


class SpanRequest(ModelRequest):
    """A question about a text."""

    question: NonBlankText
    context: Text


class WordRequest(ModelRequest):
    """A word and sentences that contain it."""

    word: Text
    sentences: Texts


async def _span(served: ServedModel, request: SpanRequest, batcher: Batcher) -> dict[str, Any]:
    """Return the start and end logits of every token."""
    inputs = (request.question, request.context)
    computation = WindowedSpanScores(served.finetuned)
    (scores,) = await batcher.run_windowed(computation, [inputs], tokens=[estimate_tokens(*inputs)])
    names = ("offsets", "start_logits", "end_logits", "null_score")
    return {"tokens": scores.tokens, **{name: getattr(scores, name) for name in names}}


def page_routes() -> APIRouter:
    """Return the routes of the page's files."""
    router = APIRouter(include_in_schema=False)
    files = {path.name: path.read_bytes() for path in PAGE.iterdir() if path.suffix in MEDIA_TYPES}

    def page_file(name: str) -> Response:
        return Response(files[name], media_type=MEDIA_TYPES[Path(name).suffix], headers=HEADERS)

    @router.get("/")
    def index() -> Response:
        return page_file("index.html")

    @router.get("/page/{name}")
    def file(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "the page has no such file")
        return page_file(name)

    return router


def describe_encoder(
    served: ServedModel, request: TextRequest, *, max_weights: int = MAX_WEIGHTS
) -> dict[str, Any]:
    """Return the input embeddings and the attention weights of every head, at most `max_weights` of these."""
    model, tokenizer, config = served.encoder, served.tokenizer, served.config
    encoding = tokenizer.encode(request.text, request.pair)
    heads = config.num_hidden_layers * config.num_attention_heads
    if heads * len(encoding) ** 2 > max_weights:
        limit = int((max_weights / heads) ** 0.5)
        what = f"{len(encoding)} tokens, at most {limit} can be shown for all {heads} heads"
        raise InputError(what, where="text", remedy="Give a shorter text")
    layers = attention_map(model, tokenizer, request.text, request.pair).layers
    embeddings = input_embeddings(model, encoding)
    weights = torch.stack([layer.weights for layer in layers]).numpy().astype("<f4")
    return {
        "tokens": encoding.tokens,
        "input_ids": encoding.input_ids,
        "token_type_ids": encoding.token_type_ids,
        "embeddings": {
            name: {
                "norms": _rounded(vectors_TD.norm(dim=-1)),
                "first": _rounded(vectors_TD[:, :_FIRST_DIMENSIONS]),
            }
            for name in ("word", "segment", "position", "normalized")
            for vectors_TD in [getattr(embeddings, name)]
        },
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "weights": base64.b64encode(weights.tobytes()).decode(),
    }


def _describe_row(served: ServedModel, request: RowRequest) -> dict[str, Any]:
    """Return one head's computation for one token."""
    attention = attention_map(served.encoder, served.tokenizer, request.text, request.pair)
    for name, number, count in (
        ("layer", request.layer, len(attention.layers)),
        ("head", request.head, len(attention.layers[0].query)),
        ("token", request.token, len(attention.tokens)),
    ):
        if number >= count:
            raise InputError(f"{number} is not in 0..{count - 1}", where=name)
    row = attention_row(attention.layers[request.layer], head=request.head, token=request.token)
    return {field.name: _rounded(getattr(row, field.name)) for field in fields(row)}


def describe_layers(served: ServedModel, request: TokenRequest) -> dict[str, Any]:
    """Return one token's vectors at every step, its attention, and what the heads of pre-training read from them."""
    encoder, tokenizer, text, pair = served.encoder, served.tokenizer, request.text, request.pair
    attention = attention_map(encoder, tokenizer, text, pair)
    trace = trace_token(encoder, tokenizer, text, pair, token=request.token)
    embeddings = input_embeddings(encoder, tokenizer.encode(text, pair))
    parts = ("word", "segment", "position", "normalized")
    return {
        "tokens": trace.tokens,
        "token_type_ids": trace.token_type_ids,
        "token": trace.token,
        "token_id": trace.input_ids[trace.token],
        "heads": served.config.num_attention_heads,
        "input": {name: _describe_vector(getattr(embeddings, name)[trace.token]) for name in parts},
        "layers": [
            {
                "steps": {
                    **_describe_projections(layer_attention, trace.token),
                    **{step.name: _describe_vector(getattr(layer, step.name)) for step in fields(LayerSteps)},
                },
                "scores": _rounded(layer_attention.scores[:, trace.token]),
                "weights": _rounded(layer_attention.weights[:, trace.token]),
                "movements": _rounded(movements_T),
            }
            for layer, layer_attention, movements_T in zip(
                trace.layers, attention.layers, trace.movements, strict=True
            )
        ],
        "masked_lm": _describe_masked_lm(served, trace),
        "pooler": _describe_pooler(served, trace),
    }


def _describe_projections(attention: LayerAttention, token: int) -> dict[str, Any]:
    """Return a token's query, key and value, those of all heads side by side."""
    return {
        name: _describe_vector(getattr(attention, name)[:, token].flatten())
        for name in ("query", "key", "value")
    }


def _describe_masked_lm(served: ServedModel, trace: TokenTrace) -> dict[str, Any] | None:
    """Return what the MLM head reads from the token after each layer, or None if the model has no such head."""
    if served.fill_mask is None:
        return None
    word_embeddings = served.encoder.embeddings.word_embeddings.weight
    model: Any = served.fill_mask.module
    read = trace_masked_lm(
        model.masked_lm, word_embeddings, served.tokenizer, trace.hidden_states, top_k=_TOP_K
    )
    return {
        "transformed": _describe_vector(read.transformed),
        "logits": _rounded(torch.tensor(read.logits)),
        "candidates": [[asdict(candidate) for candidate in layer] for layer in read.candidates],
    }


def _describe_pooler(served: ServedModel, trace: TokenTrace) -> dict[str, Any] | None:
    """Return the pooler's output and the next-sentence logits, or None if the model has no such head."""
    if served.next_sentence is None:
        return None
    model: Any = served.next_sentence.module
    layer = model.next_sentence
    with torch.inference_mode():
        logits = layer(trace.pooled.to(layer.weight.device, layer.weight.dtype)).float()
    return {
        "pooled": _describe_vector(trace.pooled),
        "logits": _rounded(logits.cpu()),
        "is_next": _rounded(logits.softmax(-1)[IS_NEXT].cpu()),
    }


def _describe_vector(vector: Tensor) -> dict[str, Any]:
    """Return the length of a vector, and its numbers as float32 in base64."""
    values = vector.numpy().astype("<f4")
    return {"norm": _rounded(vector.norm()), "values": base64.b64encode(values.tobytes()).decode()}


def _describe_word(served: ServedModel, request: WordRequest) -> dict[str, Any]:
    """Return the vectors of a word in each layer, in two dimensions, and their cosines."""
    encoder, tokenizer, sentences = served.encoder, served.tokenizer, request.sentences
    word = word_in_context(encoder, tokenizer, request.word, sentences, max_occurrences=MAX_OCCURRENCES)
    points, shares = word.project_to_plane()
    return {
        "occurrences": [asdict(occurrence) for occurrence in word.occurrences],
        "points": _rounded(torch.from_numpy(points)),
        "shares": _rounded(torch.from_numpy(shares)),
        "cosines": _rounded(torch.from_numpy(word.cosines())),
    }


def _rounded(values: Tensor) -> Any:
    """Return nested lists of numbers, rounded to the digits of float32."""
    scale = 10.0**_DIGITS
    return ((values.double() * scale).round() / scale).tolist()


ROUTES = (
    Route("/explore/inside", "encode", in_one_turn(describe_encoder), TextRequest),
    Route("/explore/row", "encode", in_one_turn(_describe_row), RowRequest),
    Route("/explore/layers", "encode", in_one_turn(describe_layers), TokenRequest),
    Route("/explore/word", "encode", in_one_turn(_describe_word), WordRequest),
    Route("/explore/span", "answer", _span, SpanRequest),
)
