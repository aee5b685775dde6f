"""The explorer: a page to see BERT think, and what it asks beyond the public routes.

The page is plain files of this package; its routes under `/explore` serve it alone and may change with it.
"""

import base64
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch
from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import Field
from torch import Tensor

from cloze.errors import InputError
from cloze.inference.attention_map import attention_map
from cloze.inference.inside import attention_row, input_embeddings
from cloze.inference.word_in_context import word_in_context
from cloze.serving.models import ServedModel
from cloze.serving.schema import Asked, Text, Texts
from cloze.serving.service import Service
from cloze.serving.watch import new_rows

PAGE = Path(__file__).with_name("page")
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_MOST_OCCURRENCES = 64  # of a word; what is answered grows with their square
_MOST_WEIGHTS = 1 << 20  # numbers of an attention map, 4 bytes each
_FIRST_NUMBERS = 8
_DIGITS = 6


class InsideRequest(Asked):
    """A text, or a pair of texts."""

    text: Text
    pair: Text | None = None


class RowRequest(InsideRequest):
    """A piece of a text, seen by a head; all counted from 0."""

    layer: int = Field(ge=0)
    head: int = Field(ge=0)
    piece: int = Field(ge=0)


class SpanRequest(Asked):
    """A question on a text."""

    question: Text
    context: Text


class WordRequest(Asked):
    """A word and sentences that have it."""

    word: Text
    sentences: Texts


def explorer(service: Service, runs: Mapping[str, Path] | None = None) -> APIRouter:
    """Return the routes of the page.

    Args:
        service: what computes.
        runs: directories to watch, by the names that requests give them.
    """
    router = APIRouter(include_in_schema=False)
    _add_files(router)
    _add_views(router, service)
    _add_runs(router, runs or {})
    return router


def _add_files(router: APIRouter) -> None:
    files = {path.name: path.read_bytes() for path in PAGE.iterdir() if path.suffix in MEDIA_TYPES}

    def respond(name: str) -> Response:
        return Response(files[name], media_type=MEDIA_TYPES[Path(name).suffix], headers=HEADERS)

    @router.get("/")
    def index() -> Response:
        return respond("index.html")

    @router.get("/page/{name}")
    def file(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "the page has no such file")
        return respond(name)


def _add_views(router: APIRouter, service: Service) -> None:
    @router.post("/explore/inside")
    async def inside(request: InsideRequest) -> dict[str, Any]:
        served = service.find(request.model, "encode")
        return await service.engine.run(lambda: _inside(served, request))

    @router.post("/explore/row")
    async def row(request: RowRequest) -> dict[str, Any]:
        served = service.find(request.model, "encode")
        return await service.engine.run(lambda: _row(served, request))

    @router.post("/explore/word")
    async def word(request: WordRequest) -> dict[str, Any]:
        served = service.find(request.model, "encode")
        return await service.engine.run(lambda: _word(served, request))

    @router.post("/explore/span")
    async def span(request: SpanRequest) -> dict[str, Any]:
        served = service.find(request.model, "answer")
        asked = (request.question, request.context)
        (found,) = await service.in_windows(served.scores_of_pieces, [asked], [asked])
        return asdict(found)


def _add_runs(router: APIRouter, runs: Mapping[str, Path]) -> None:
    @router.get("/explore/runs")
    def names() -> list[str]:
        return list(runs)

    @router.get("/explore/runs/{name:path}")
    def rows(name: str, after: Annotated[str, Query(max_length=64)] = "") -> dict[str, Any]:
        if name not in runs:
            raise InputError(f"no run {name!r} is watched", where="name")
        return asdict(new_rows(runs[name], after))


def _inside(served: ServedModel, request: InsideRequest) -> dict[str, Any]:
    """Return how the input is built, and the weights of every head."""
    model, tokenizer = served.encoder, served.tokenizer
    encoding = tokenizer.encode(request.text, request.pair)
    config = model.config
    heads = config.num_hidden_layers * config.num_attention_heads
    if heads * len(encoding) ** 2 > _MOST_WEIGHTS:
        what = f"{len(encoding)} pieces; to look at all {heads} heads, {int((_MOST_WEIGHTS / heads) ** 0.5)} at most"
        raise InputError(what, where="text", remedy="Give a shorter text")
    found = attention_map(model, tokenizer, request.text, request.pair)
    embeddings = input_embeddings(model, encoding)
    weights = torch.stack([layer.weights for layer in found.layers]).numpy().astype("<f4")
    return {
        "tokens": encoding.tokens,
        "input_ids": encoding.input_ids,
        "token_type_ids": encoding.token_type_ids,
        "embeddings": {
            name: {
                "norms": _rounded(vectors_TD.norm(dim=-1)),
                "first": _rounded(vectors_TD[:, :_FIRST_NUMBERS]),
            }
            for name, vectors_TD in (
                ("word", embeddings.word),
                ("segment", embeddings.segment),
                ("position", embeddings.position),
                ("normalized", embeddings.normalized),
            )
        },
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "weights": base64.b64encode(weights.tobytes()).decode(),
    }


def _row(served: ServedModel, request: RowRequest) -> dict[str, Any]:
    """Return what a head does for a piece."""
    found = attention_map(served.encoder, served.tokenizer, request.text, request.pair)
    for name, number, count in (
        ("layer", request.layer, len(found.layers)),
        ("head", request.head, len(found.layers[0].query)),
        ("piece", request.piece, len(found.tokens)),
    ):
        if number >= count:
            raise InputError(f"{number} is not in 0..{count - 1}", where=name)
    row = attention_row(found.layers[request.layer], head=request.head, piece=request.piece)
    names = ("query", "key", "products", "scores", "weights", "value", "weighted", "context")
    return {name: _rounded(getattr(row, name)) for name in names}


def _word(served: ServedModel, request: WordRequest) -> dict[str, Any]:
    """Return where the vectors of a word lie in each layer, and how alike they are."""
    found = word_in_context(
        served.encoder, served.tokenizer, request.word, request.sentences, most=_MOST_OCCURRENCES
    )
    points, shares = found.plane()
    return {
        "occurrences": [
            {"sentence": place.sentence, "start": place.start, "end": place.end}
            for place in found.occurrences
        ],
        "points": _rounded(torch.from_numpy(points)),
        "shares": _rounded(torch.from_numpy(shares)),
        "cosines": _rounded(torch.from_numpy(found.cosines())),
    }


def _rounded(values: Tensor) -> Any:
    """Return numbers as lists, with the digits that float32 has."""
    scale = 10.0**_DIGITS
    return ((values.double() * scale).round() / scale).tolist()
