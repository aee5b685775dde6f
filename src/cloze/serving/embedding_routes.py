"""Routes of text-embeddings-inference and of OpenAI: vectors and tokens.

Source: text-embeddings-inference 1.9 docs/openapi.json; OpenAI's API reference, embeddings.
"""

import base64
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import orjson
from pydantic import Field

from cloze.errors import InputError
from cloze.inference.word_vectors import Vectors
from cloze.serving.batcher import Batcher
from cloze.serving.routes import (
    Route,
    as_list,
    count_truncated,
    estimate_tokens,
)
from cloze.serving.schema import (
    EmbeddingOptions,
    EmbeddingRequest,
    IdLists,
    Ids,
    Many,
    ModelRequest,
    NonBlankText,
    PromptOptions,
    ResponseModel,
    StrictModel,
    TextsOrIds,
    TextsRequest,
    to_list,
)
from cloze.serving.served_model import EmbeddedText, EmbeddingInput, ServedModel
from cloze.tasks.arrays import normalize
from cloze.tokenization.tokenizer import Tokenizer


class EmbedRequest(EmbeddingRequest):
    """Texts, or lists of token ids, to embed."""

    normalize: bool | None = True
    """Scale vectors to length 1."""
    dimensions: int | None = Field(default=None, ge=1)
    """Number of leading dimensions of each vector to keep."""
    encoding_format: Literal["float"] | None = None
    """Vectors are lists of numbers; /v1/embeddings also has base64."""


async def embed(served: ServedModel, request: EmbedRequest, batcher: Batcher) -> Vectors:
    """Return a vector for each text or list of token ids."""
    _check_dimensions(served, request.dimensions)
    vectors, _ = await _embed(served, request.input_list, batcher, request)
    vectors = np.ascontiguousarray(vectors[:, : request.dimensions])
    if request.normalize is False and served.embedder.normalize:
        what = f"the graph of {served.name!r} scales vectors to length 1"
        raise InputError(what, where="normalize", remedy="Leave it out, or serve the model itself")
    return vectors if request.normalize is False else normalize(vectors)


async def embed_all(served: ServedModel, request: EmbeddingRequest, batcher: Batcher) -> list[Vectors]:
    """Return a vector for each token of each text, [CLS] and [SEP] included."""
    embedded = await _run_embedding(served, request.input_list, batcher, request, served.embed_tokens)
    return [text.vectors for text in embedded]


class SimilarityInputs(StrictModel):
    """A text and the sentences to compare it with."""

    source_sentence: NonBlankText
    """The text to compare with."""
    sentences: Many[NonBlankText]
    """The texts that are compared with it."""


class SimilarityRequest(ModelRequest):
    """Texts to compare by the cosine of their vectors."""

    inputs: SimilarityInputs
    """A text and others."""
    parameters: EmbeddingOptions | None = None
    """How the texts are prepared."""


async def similarity(served: ServedModel, request: SimilarityRequest, batcher: Batcher) -> Vectors:
    """Return the cosine of the text's vector and that of each sentence."""
    texts: list[str | list[int]] = [request.inputs.source_sentence, *request.inputs.sentences]
    vectors, _ = await _embed(served, texts, batcher, request.parameters or EmbeddingOptions())
    vectors = normalize(vectors)
    cosines: Vectors = vectors[1:] @ vectors[0]
    return cosines


class OpenAIRequest(ModelRequest):
    """Texts or token ids to embed, in the format of OpenAI's clients."""

    input: TextsOrIds
    """A text, a list of token ids, or a list of either."""
    encoding_format: Literal["float", "base64"] | None = "float"
    """Numbers, or base64 of their bytes."""
    dimensions: int | None = Field(default=None, ge=1)
    """Number of leading dimensions of each vector to keep."""
    user: str | None = None
    """Accepted and not used."""


class OpenAIVector(ResponseModel):
    """A vector as numbers, or as base64 of their bytes (float32, little-endian)."""

    object: Literal["embedding"]
    """The kind of object."""
    index: int
    """Which of the inputs, counted from 0."""
    embedding: list[float] | str
    """The vector."""


class Usage(ResponseModel):
    """Number of tokens that were read."""

    prompt_tokens: int
    """Tokens of the inputs, [CLS] and [SEP] included."""
    total_tokens: int
    """The same."""


class OpenAIAnswer(ResponseModel):
    """Vectors."""

    object: Literal["list"]
    """The kind of object."""
    model: str
    """The model that answered."""
    data: list[OpenAIVector]
    """A vector for each input."""
    usage: Usage
    """The number of tokens of all inputs."""


async def openai_embeddings(served: ServedModel, request: OpenAIRequest, batcher: Batcher) -> dict[str, Any]:
    """Return a vector of length 1 for each text or list of token ids."""
    _check_dimensions(served, request.dimensions)
    vectors, num_tokens = await _embed(served, to_list(request.input), batcher, EmbeddingOptions())
    vectors = normalize(vectors[:, : request.dimensions])
    rows: list[Any] = list(vectors)
    if request.encoding_format == "base64":
        rows = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
    return {
        "object": "list",
        "model": served.name,
        "data": [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)],
        "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
    }


class TokenizeRequest(TextsRequest, PromptOptions):
    """Texts to tokenize."""

    add_special_tokens: bool | None = True
    """Whether the response includes [CLS] and [SEP]."""


class Token(ResponseModel):
    """A token: characters `start` to `stop` (exclusive) of the text; null for special tokens."""

    id: int
    """Its number in the vocabulary."""
    text: str
    """Its text in the vocabulary."""
    special: bool
    """Whether it is one such as [CLS]."""
    start: int | None
    """Its first character."""
    stop: int | None
    """The character after its last."""


async def tokenize(served: ServedModel, request: TokenizeRequest, batcher: Batcher) -> list[orjson.Fragment]:
    """Return the tokens of each text."""
    prompt = served.prompt(request.prompt_name) if request.prompt_name is not None else ""
    texts = [prompt + text for text in as_list(request.inputs)]
    ends = slice(None) if request.add_special_tokens is not False else slice(1, -1)

    def tokenize_all(texts: list[str]) -> list[orjson.Fragment]:
        return [_tokens_to_json(served.tokenizer, text, ends) for text in texts]

    return await batcher.run_batched(tokenize_all, texts, tokens=list(map(estimate_tokens, texts)))


def _tokens_to_json(tokenizer: Tokenizer, text: str, ends: slice) -> orjson.Fragment:
    """Return the tokens of a text as JSON, which takes less memory."""
    encoding, special_ids = tokenizer.encode(text), tokenizer.special_ids
    tokens = list(
        zip(encoding.input_ids, encoding.tokens, encoding.sequence_ids, encoding.offsets, strict=True)
    )
    rows = [
        {
            "id": token_id,
            "text": token,
            "special": token_id in special_ids,
            "start": None if sequence is None else start,
            "stop": None if sequence is None else stop,
        }
        for token_id, token, sequence, (start, stop) in tokens[ends]
    ]
    return orjson.Fragment(orjson.dumps(rows))


class DecodeRequest(ModelRequest):
    """Token ids to convert to text."""

    ids: Ids | IdLists
    """A list of token ids, or several."""
    skip_special_tokens: bool | None = True
    """Leave out tokens such as [CLS]."""


async def decode(served: ServedModel, request: DecodeRequest, batcher: Batcher) -> list[str]:
    """Return the text of each list of token ids."""
    tokenizer, ids = served.tokenizer, request.ids
    lists: Any = ids if isinstance(ids[0], list) else [ids]
    skipped = tokenizer.special_ids if request.skip_special_tokens is not False else frozenset()

    def decode_all(lists: list[list[int]]) -> list[str]:
        if max(map(max, lists)) >= tokenizer.vocab_size:
            raise InputError(f"an id is not in 0..{tokenizer.vocab_size - 1}", where="ids")
        return [tokenizer.decode([i for i in ids if i not in skipped]) for ids in lists]

    return await batcher.run_batched(decode_all, lists, tokens=list(map(estimate_tokens, lists)))


async def _embed(
    served: ServedModel, values: list[str | list[int]], batcher: Batcher, options: EmbeddingOptions
) -> tuple[Vectors, int]:
    """Return a vector for each text or list of ids, [N, D], and the number of tokens that were read."""
    embedded = await _run_embedding(served, values, batcher, options, served.embed)
    return np.stack([text.vectors for text in embedded]), sum(text.num_tokens for text in embedded)


async def _run_embedding(
    served: ServedModel,
    values: list[str | list[int]],
    batcher: Batcher,
    options: EmbeddingOptions,
    embed: Callable[[list[EmbeddingInput]], list[EmbeddedText]],
) -> list[EmbeddedText]:
    prompt, side = served.prompt(options.prompt_name), options.truncation_side
    truncates = options.truncate is not False
    inputs = [EmbeddingInput(value, prompt, side, truncates=truncates) for value in values]
    embedded = await batcher.run_batched(embed, inputs, tokens=list(map(estimate_tokens, values)))
    count_truncated(text.is_truncated for text in embedded)
    return embedded


def _check_dimensions(served: ServedModel, dimensions: int | None) -> None:
    if dimensions is not None and dimensions > served.embedder.width:
        what = (
            f"{dimensions} is more than the width of the vectors of {served.name!r}, {served.embedder.width}"
        )
        raise InputError(what, where="dimensions")


ROUTES = (
    Route(
        "/embed",
        "embed",
        embed,
        EmbedRequest,
        list[list[float]],
        example={"inputs": ["The river has burst its bank.", "The bank raised its rates."]},
    ),
    Route(
        "/embed_all",
        "embed",
        embed_all,
        EmbeddingRequest,
        list[list[list[float]]],
        example={"inputs": "The river has burst its bank."},
    ),
    Route(
        "/similarity",
        "embed",
        similarity,
        SimilarityRequest,
        list[float],
        example={
            "inputs": {
                "source_sentence": "The river rose.",
                "sentences": ["The water was high.", "The bank closed."],
            }
        },
    ),
    Route(
        "/v1/embeddings",
        "embed",
        openai_embeddings,
        OpenAIRequest,
        OpenAIAnswer,
        example={"input": "The river has burst its bank.", "encoding_format": "base64"},
    ),
    Route(
        "/embeddings",
        "embed",
        openai_embeddings,
        OpenAIRequest,
        OpenAIAnswer,
        example={"input": "The river has burst its bank."},
    ),
    Route(
        "/tokenize",
        "tokenize",
        tokenize,
        TokenizeRequest,
        list[list[Token]],
        example={"inputs": "The river has burst."},
    ),
    Route(
        "/decode",
        "tokenize",
        decode,
        DecodeRequest,
        list[str],
        example={"ids": [2, 8, 9, 3]},
    ),
)
