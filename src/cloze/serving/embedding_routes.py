"""The routes of text-embeddings-inference, and OpenAI's: vectors, labels, ranks, pieces.

Source: text-embeddings-inference 1.9 docs/openapi.json; OpenAI's API reference, embeddings.
"""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter
from starlette.responses import Response

from cloze.errors import InputError
from cloze.inference.embed import Vectors
from cloze.serving import schema
from cloze.serving.errors import documented
from cloze.serving.models import ServedModel
from cloze.serving.service import Service, example, listed, respond
from cloze.tasks.multi_label import LabelSet
from cloze.tasks.sequence_classification import Prediction
from cloze.text.tokenizer import Tokenizer


def embedding_routes(service: Service) -> APIRouter:
    """Return the routes that other servers have, too."""
    router = APIRouter(responses=documented())
    _add_vectors(router, service)
    _add_scores(router, service)
    _add_pieces(router, service)
    return router


def _add_vectors(router: APIRouter, service: Service) -> None:
    @router.post("/embed", response_model=list[list[float]])
    async def embed(request: schema.EmbedRequest) -> Response:
        """Return a vector for each text."""
        served = service.find(request.model, "embed")
        _check_dimensions(served, request.dimensions)
        texts: list[str | list[int]] = listed(request.inputs)
        await service.refuse_long(served.refuse_cut_texts, listed(request.inputs), truncate=request.truncate)
        found = await service.batched(served.embed, texts, [[text] for text in texts])
        vectors = _shortened(np.stack([each.vector for each in found]), request.dimensions)
        return respond(vectors if request.normalize is False else _normalized(vectors))

    @router.post("/embed_all", response_model=list[list[list[float]]])
    async def embed_all(request: schema.EmbedAllRequest) -> Response:
        """Return a vector for each token of each text, [CLS] and [SEP] included."""
        served = service.find(request.model, "embed")
        texts = listed(request.inputs)
        await service.refuse_long(served.refuse_cut_texts, texts, truncate=request.truncate)
        return respond(await service.batched(served.embedder.embed_tokens, texts, [[text] for text in texts]))

    @router.post("/similarity", response_model=list[float])
    async def similarity(request: schema.SimilarityRequest) -> Response:
        """Return the cosine of the text's vector and that of each sentence."""
        served = service.find(request.model, "embed")
        compared = [request.inputs.source_sentence, *request.inputs.sentences]
        truncate = request.parameters.truncate if request.parameters else True
        await service.refuse_long(served.refuse_cut_texts, compared, truncate=truncate)
        texts: list[str | list[int]] = [*compared]
        found = await service.batched(served.embed, texts, [[text] for text in texts])
        vectors = _normalized(np.stack([each.vector for each in found]))
        return respond(vectors[1:] @ vectors[0])

    @router.post("/v1/embeddings", response_model=schema.OpenAIAnswer)
    async def openai_embeddings(request: schema.OpenAIRequest) -> Response:
        """Return a vector of length 1 for each text or list of token ids."""
        served = service.find(request.model, "embed")
        _check_dimensions(served, request.dimensions)
        asked = request.input
        inputs = [asked] if isinstance(asked, str) or isinstance(asked[0], int) else asked
        found = await service.batched(served.embed, inputs, [[each] for each in inputs])
        vectors = _normalized(_shortened(np.stack([each.vector for each in found]), request.dimensions))
        tokens = sum(each.num_tokens for each in found)
        as_base64 = request.encoding_format == "base64"
        return respond(
            {
                "object": "list",
                "model": served.name,
                "data": [
                    {"object": "embedding", "index": i, "embedding": _base64(own) if as_base64 else own}
                    for i, own in enumerate(vectors)
                ],
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )


def _add_scores(router: APIRouter, service: Service) -> None:
    @router.post("/predict", response_model=list[schema.LabelScore] | list[list[schema.LabelScore]])
    async def predict(request: schema.PredictRequest) -> Response:
        """Return the labels of each text or pair with their probabilities, the likeliest first."""
        served = service.find(request.model, "predict")
        given: Any = request.inputs
        is_one = isinstance(given, str) or (len(given) == 2 and isinstance(given[0], str))
        examples = [example(each) for each in ([given] if is_one else given)]
        texts = [(each.text, each.pair) for each in examples]
        await service.refuse_long(served.refuse_cut_examples, examples, truncate=request.truncate)
        predictions = await service.in_windows(served.predictions, examples, texts)
        found = [_labels(prediction) for prediction in predictions]
        return respond(found[0] if is_one else found)

    @router.post("/rerank", response_model=list[schema.Ranked])
    async def rerank(request: schema.RerankRequest) -> Response:
        """Return the passages in the order in which they fit the query."""
        served = service.find(request.model, "rerank")
        pairs: list[tuple[str, str | None]] = [(request.query, text) for text in request.texts]
        examples = [example([request.query, text]) for text in request.texts]
        await service.refuse_long(served.refuse_cut_examples, examples, truncate=request.truncate)
        scores = await service.in_windows(served.predictions, examples, pairs)
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        texts = request.texts if request.return_text else None
        return respond(
            [{"index": i, "score": scores[i], **({} if texts is None else {"text": texts[i]})} for i in order]
        )


def _add_pieces(router: APIRouter, service: Service) -> None:
    @router.post("/tokenize", response_model=list[list[schema.Token]])
    async def tokenize(request: schema.TokenizeRequest) -> Response:
        """Return the pieces of each text."""
        tokenizer = service.find(request.model, "embed").tokenizer
        with_specials = request.add_special_tokens is not False
        texts = listed(request.inputs)
        return respond(
            await service.engine.run(
                lambda: [_tokens(tokenizer, text, with_specials=with_specials) for text in texts]
            )
        )

    @router.post("/decode", response_model=list[str])
    async def decode(request: schema.DecodeRequest) -> Response:
        """Return the text of each list of ids."""
        tokenizer = service.find(request.model, "embed").tokenizer
        ids: Any = request.ids
        lists: list[list[int]] = ids if isinstance(ids[0], list) else [ids]
        left_out = _specials(tokenizer) if request.skip_special_tokens is not False else frozenset()

        def decoded() -> list[str]:
            if any(i >= tokenizer.vocab_size for own in lists for i in own):
                raise InputError(f"an id is not in 0..{tokenizer.vocab_size - 1}", where="ids")
            return [tokenizer.decode([i for i in own if i not in left_out]) for own in lists]

        return respond(await service.engine.run(decoded))


def _check_dimensions(served: ServedModel, dimensions: int | None) -> None:
    if dimensions is not None and dimensions > served.embedder.width:
        what = f"{dimensions}, the vectors of {served.name!r} have {served.embedder.width}"
        raise InputError(what, where="dimensions")


def _shortened(vectors: Vectors, dimensions: int | None) -> Vectors:
    return vectors if dimensions is None else np.ascontiguousarray(vectors[:, :dimensions])


def _normalized(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    normalized: npt.NDArray[np.float32] = vectors / np.maximum(lengths, np.float32(1e-12))
    return normalized


def _base64(vector: Vectors) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _labels(prediction: Prediction | LabelSet | float) -> list[dict[str, Any]]:
    """Return labels with their scores, the highest first; of a regression its one score."""
    if isinstance(prediction, float):
        return [{"label": "score", "score": prediction}]
    ranked = sorted(prediction.probabilities.items(), key=lambda item: -item[1])
    return [{"label": label, "score": score} for label, score in ranked]


def _specials(tokenizer: Tokenizer) -> frozenset[int]:
    return frozenset(
        (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    )


def _tokens(tokenizer: Tokenizer, text: str, *, with_specials: bool) -> Sequence[dict[str, Any]]:
    encoding = tokenizer.encode(text)
    pieces = list(zip(encoding.input_ids, encoding.tokens, encoding.offsets, strict=True))
    specials = _specials(tokenizer)
    return [
        {
            "id": token_id,
            "text": token,
            "special": token_id in specials,
            "start": start if start < stop else None,
            "stop": stop if start < stop else None,
        }
        for token_id, token, (start, stop) in (pieces if with_specials else pieces[1:-1])
    ]
