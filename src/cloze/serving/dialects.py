"""Dialects: how the answers of a verb are written, and how other servers' requests are read.

A dialect is two functions, the request in and the answer out; the verbs are those of `native`.

Source: OpenAI's API reference, embeddings; Cohere's API reference, embed and rerank v2; huggingface_hub 1.31
inference/_generated/types and transformers pipelines, for requests with `parameters`.
"""

import base64
from itertools import starmap
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from cloze.inference.pretrained_heads import Candidate
from cloze.serving.native import Embedded, Masks, answer, embed, fill, predict, rank, tag
from cloze.serving.queue import current_request
from cloze.serving.routes import Dialect, Route, as_list
from cloze.serving.schema import (
    AnsweredQuestion,
    AnswerParameters,
    AnswerRequest,
    Document,
    DocumentsRequest,
    EmbedRequest,
    FillRequest,
    LabelScore,
    Many,
    ModelRequest,
    NonBlankText,
    PredictRequest,
    RankedText,
    RerankRequest,
    ResponseModel,
    TagRequest,
    TextsOrIds,
)
from cloze.serving.served_model import ServedModel
from cloze.tasks.answers.label_set import LabelSet
from cloze.tasks.answers.span import Answer, SpanPrediction
from cloze.tasks.answers.tags import PredictedEntity
from cloze.tokenization.tokenizer import Tokenizer

# text-embeddings-inference and OpenAI: vectors


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


def openai_embeddings(served: ServedModel, request: OpenAIRequest, embedded: Embedded) -> dict[str, Any]:
    """Return a vector of length 1 for each text or list of token ids."""
    rows = enumerate(_written(embedded, request.encoding_format or "float"))
    return {
        "object": "list",
        "model": served.name,
        "data": [{"object": "embedding", "index": i, "embedding": row} for i, row in rows],
        "usage": dict.fromkeys(("prompt_tokens", "total_tokens"), embedded.num_tokens),
    }


def _written(embedded: Embedded, kind: str) -> list[Any]:
    vectors = list(embedded.vectors)
    if kind == "float":
        return vectors
    return [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]


# Cohere: vectors


class CohereEmbedRequest(ModelRequest):
    """Texts to embed, in the format of Cohere's clients."""

    texts: Many[NonBlankText]
    """The texts."""
    input_type: Literal["search_query", "search_document", "classification", "clustering"] | None = None
    """A query or a document gets the model's prompt of the name query or document, if it has one."""
    embedding_types: Annotated[list[Literal["float", "base64"]], Field(min_length=1)] | None = None
    """Numbers, the default, or base64 of their bytes, or both."""
    output_dimension: int | None = Field(default=None, ge=1)
    """Number of leading dimensions of each vector to keep."""
    truncate: Literal["NONE", "START", "END"] | None = "END"
    """Where tokens of longer texts are dropped; with NONE they are refused."""


class CohereAnswer(ResponseModel):
    """Vectors by their type."""

    id: str
    """The ID of the request."""
    response_type: Literal["embeddings_by_type"]
    """The kind of response."""
    embeddings: dict[Literal["float", "base64"], list[list[float] | str]]
    """A vector for each text, as numbers or as base64 of their bytes (float32, little-endian)."""
    texts: list[str]
    """The texts."""
    meta: dict[Literal["billed_units"], dict[Literal["input_tokens"], int]]
    """The number of tokens of the texts, [CLS] and [SEP] included."""


def _read_cohere(served: ServedModel, request: CohereEmbedRequest) -> EmbedRequest:
    prompt = {"search_query": "query", "search_document": "document"}.get(request.input_type or "")
    texts: list[str | list[int]] = [*request.texts]
    return EmbedRequest(
        inputs=texts,
        dimensions=request.output_dimension,
        truncate=request.truncate != "NONE",
        truncation_direction="left" if request.truncate == "START" else "right",
        prompt_name=prompt if prompt in served.embedder.stored.prompts else None,
    )


def cohere_embeddings(_: ServedModel, request: CohereEmbedRequest, embedded: Embedded) -> dict[str, Any]:
    """Return a vector of length 1 for each text, in the format of Cohere."""
    return {
        "id": current_request.get().id,
        "response_type": "embeddings_by_type",
        "embeddings": {kind: _written(embedded, kind) for kind in request.embedding_types or ["float"]},
        "texts": request.texts,
        "meta": {"billed_units": {"input_tokens": embedded.num_tokens}},
    }


# text-embeddings-inference and Cohere: rankings


class RankedDocument(ResponseModel):
    """A passage, by its index in the request, and its relevance to the query."""

    index: int
    """Which of the documents, counted from 0."""
    relevance_score: float
    """Its relevance: a probability, a logit, or the number of a regression."""
    document: Document | None = None
    """The document, with `return_documents`."""


class RankedDocuments(ResponseModel):
    """The passages, the most relevant to the query first."""

    model: str
    """The model that answered."""
    results: list[RankedDocument]
    """The passages, the most relevant first."""


Ranking: TypeAlias = list[tuple[int, float]]


def rerank(served: ServedModel, request: RerankRequest, ranking: Ranking) -> Any:
    """Return the passages, the most relevant to the query first."""
    if (texts := request.texts) is None:
        return rerank_documents(served, request, ranking)
    return [
        {"index": i, "score": score, **({"text": texts[i]} if request.return_text else {})}
        for i, score in ranking
    ]


def rerank_documents(served: ServedModel, request: DocumentsRequest, ranking: Ranking) -> dict[str, Any]:
    """Return the passages, the most relevant to the query first, in the format of Cohere, Jina and vLLM."""
    texts = request.passages if request.return_documents else None
    results = [
        {"index": i, "relevance_score": score, **({} if texts is None else {"document": {"text": texts[i]}})}
        for i, score in ranking
    ]
    return {"model": served.name, "results": results}


# cloze and Hugging Face's pipelines: labels, words, entities, answers


def _labels(served: ServedModel, request: PredictRequest, rows: list[list[tuple[str, float]]]) -> list[Any]:
    answer = served.task.answer
    has_thresholds = isinstance(answer, LabelSet) and not (request.raw_scores or request.parameters)

    def written(label: str, score: float) -> dict[str, Any]:
        threshold = {"threshold": answer.threshold(label)} if has_thresholds else {}
        return {"label": label, "score": score, **threshold}

    labels = [list(starmap(written, row)) for row in rows]
    return labels[0] if request.is_one and request.parameters is None else labels


class FilledMask(ResponseModel):
    """A candidate, as Hugging Face's pipelines write it."""

    score: float
    """Its probability."""
    token: int
    """Its number in the vocabulary."""
    token_str: str
    """Its text."""
    sequence: str
    """The text with the candidate, without special tokens if there is one [MASK]."""


def _filled_masks(served: ServedModel, request: FillRequest, filled: list[Masks]) -> Any:
    tokenizer = served.tokenizer
    if request.parameters is None:
        return [[[Candidate(tokenizer.text_of(i), p) for i, p in mask] for mask in masks] for masks in filled]
    rows = zip(as_list(request.inputs), filled, strict=True)
    return _like(request.inputs, [_filled_mask(tokenizer, *row) for row in rows])


def _filled_mask(tokenizer: Tokenizer, text: str, masks: Masks) -> list[Any]:
    """Return the candidates for the [MASK] of a text, or a list for each of several.

    Source: transformers pipelines/fill_mask.py, FillMaskPipeline.postprocess.
    """
    ids = tokenizer.encode(text).input_ids
    places = [place for place, token_id in enumerate(ids) if token_id == tokenizer.mask_id]
    skipped = tokenizer.special_ids if len(places) == 1 else frozenset()

    def written(place: int, token_id: int, score: float) -> dict[str, Any]:
        filled = [i for i in (*ids[:place], token_id, *ids[place + 1 :]) if i not in skipped]
        texts = {"token_str": tokenizer.decode([token_id]), "sequence": tokenizer.decode(filled)}
        return {"score": score, "token": token_id, **texts}

    rows = [[written(place, *scored) for scored in mask] for place, mask in zip(places, masks, strict=True)]
    return rows[0] if len(rows) == 1 else rows


class ScoredSpan(ResponseModel):
    """A part of a text, as Hugging Face's pipelines write it."""

    score: float
    """Its probability; of an entity the product of the probabilities of its words' tags."""
    start: int
    """Its first character."""
    end: int
    """The character after its last."""


class TaggedEntity(ScoredSpan):
    """An entity, as Hugging Face's pipelines write it."""

    entity_group: str
    """Its type."""
    word: str
    """Its text."""


def _entities(_: ServedModel, request: TagRequest, tagged: list[list[PredictedEntity]]) -> Any:
    if request.parameters is None:
        return tagged
    ignored = request.parameters.ignore_labels or ()
    names = {"type": "entity_group", "probability": "score", "text": "word", "start": "start", "end": "end"}

    def written(entity: PredictedEntity) -> dict[str, Any]:
        return {theirs: getattr(entity, ours) for ours, theirs in names.items()}

    kept = ([entity for entity in of_text if entity.type not in ignored] for of_text in tagged)
    return _like(request.inputs, [list(map(written, entities)) for entities in kept])


class PipelineAnswer(ScoredSpan):
    """An answer, as Hugging Face's pipelines write it; empty, from 0 to 0, for "no answer"."""

    answer: str
    """The answer."""


def _answers(served: ServedModel, request: AnswerRequest, predictions: list[SpanPrediction]) -> Any:
    if request.parameters is not None:
        return _like(request.inputs, [_pipeline_answers(best, request.parameters) for best in predictions])
    threshold = served.task.settings.get("null_threshold")
    return [
        {
            **_span(prediction, text="answer"),
            "candidates": [_span(candidate) for candidate in prediction.candidates[: request.n_best]],
            "null_odds": prediction.null_odds,
            "null_threshold": threshold,
        }
        for prediction in predictions
    ]


def _span(answer: Answer, text: str = "text") -> dict[str, Any]:
    names = {text: "text", "start": "start", "end": "end", "probability": "probability"}
    return {ours: getattr(answer, theirs) for ours, theirs in names.items()}


def _pipeline_answers(prediction: SpanPrediction, parameters: AnswerParameters) -> Any:
    """Return the answer, or a list of the `top_k` answers if they are more than one."""
    best: list[Answer] = [answer for answer in prediction.candidates if answer.text] or [prediction]
    if parameters.handle_impossible_answer:
        best = [prediction, *(other for other in prediction.candidates if other.text != prediction.text)]
    top_k = parameters.top_k or 1
    elements = [
        {"answer": span.text, "score": span.probability, "start": span.start or 0, "end": span.end or 0}
        for span in best[:top_k]
    ]
    return elements if top_k > 1 else elements[0]


def _like(inputs: Any, answers: list[Any]) -> Any:
    """Return a list of answers for a list of inputs, and one for one."""
    return answers if isinstance(inputs, list) else answers[0]


# A pipeline returns one answer for one input, and for a text with one [MASK] one list of candidates.
Labels: TypeAlias = list[LabelScore] | list[list[LabelScore]]
Fillings: TypeAlias = (
    list[list[list[Candidate]]] | list[FilledMask] | list[list[FilledMask]] | list[list[list[FilledMask]]]
)
Entities: TypeAlias = list[list[PredictedEntity]] | list[TaggedEntity] | list[list[TaggedEntity]]
Answers: TypeAlias = (
    list[AnsweredQuestion] | PipelineAnswer | list[PipelineAnswer] | list[list[PipelineAnswer]]
)
_RIVER, _QUERY = "The river has burst its bank.", "How high is the river?"
_FILM = {"inputs": "A film to remember."}
_EMBED = {"inputs": [_RIVER, "The bank raised its rates."]}
_FILL = {"inputs": "The capital of France is [MASK].", "top_k": 3}
_TEXTS = {"query": _QUERY, "texts": ["The river stands at two metres.", "The bank is closed."]}
_DOCUMENTS = {"query": _QUERY, "documents": ["It stands at two metres.", "It is closed."], "top_n": 1}
_BORN = "Ada Lovelace was born in London."
_ANSWER = {"inputs": {"question": "Where was she born?", "context": _BORN}}
_BASE64 = {"input": _RIVER, "encoding_format": "base64"}
_DOCUMENT = {"texts": [_RIVER], "input_type": "search_document"}
_TEI = Dialect(lambda _, __, answer: answer.vectors)
_OPENAI = Dialect(
    openai_embeddings, lambda _, sent: EmbedRequest(inputs=sent.input, dimensions=sent.dimensions)
)
_COHERE, _V2 = Dialect(cohere_embeddings, _read_cohere), Dialect(rerank_documents)
ROUTES = (
    Route("/embed", "embed", embed, EmbedRequest, list[list[float]], _EMBED, _TEI),
    Route("/v1/embeddings", "embed", embed, OpenAIRequest, OpenAIAnswer, _BASE64, _OPENAI),
    Route("/embeddings", "embed", embed, OpenAIRequest, OpenAIAnswer, {"input": _RIVER}, _OPENAI),
    Route("/v2/embed", "embed", embed, CohereEmbedRequest, CohereAnswer, _DOCUMENT, _COHERE),
    Route("/predict", "predict", predict, PredictRequest, Labels, _FILM, Dialect(_labels)),
    Route(
        "/rerank", "rerank", rank, RerankRequest, list[RankedText] | RankedDocuments, _TEXTS, Dialect(rerank)
    ),
    Route("/v2/rerank", "rerank", rank, DocumentsRequest, RankedDocuments, _DOCUMENTS, _V2),
    Route("/fill", "fill", fill, FillRequest, Fillings, _FILL, Dialect(_filled_masks, is_slow=True)),
    Route("/tag", "tag", tag, TagRequest, Entities, {"inputs": _BORN}, Dialect(_entities)),
    Route("/answer", "answer", answer, AnswerRequest, Answers, _ANSWER, Dialect(_answers)),
)
