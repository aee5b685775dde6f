"""Routes of classifiers and rankers: labels as in text-embeddings-inference, rankings also as in Cohere's API.

Source: text-embeddings-inference 1.9 docs/openapi.json; Cohere's API reference, rerank v2.
"""

from typing import Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cloze.errors import InputError
from cloze.serving.batcher import Batcher
from cloze.serving.pipelines import ClassificationParameters
from cloze.serving.routes import Route, estimate_tokens, run_predictions, text_examples
from cloze.serving.schema import (
    Many,
    ModelRequest,
    NonBlankText,
    ResponseModel,
    StrictModel,
    Text,
    Texts,
    TextsOrPairsRequest,
    TruncationOptions,
)
from cloze.serving.served_model import ServedModel
from cloze.serving.windowed_inference import WindowedLogits, WindowedPredictions
from cloze.tasks.answers.label_set import LabelSet
from cloze.tasks.arrays import sigmoid, softmax


class PredictRequest(TextsOrPairsRequest, TruncationOptions):
    """Texts or pairs to classify."""

    parameters: ClassificationParameters | None = None
    """Parameters of Hugging Face's pipelines; the response to one text is then a list of lists, as of a pipeline."""
    raw_scores: bool | None = False
    """Return logits instead of probabilities, or of the number of a regression."""
    top_k: int | None = Field(default=None, ge=1)
    """Maximum number of labels; by default all."""


class LabelScore(ResponseModel):
    """A label and its score."""

    label: str
    """The name of the class."""
    score: float
    """Its probability, or its logit."""
    threshold: float | None = None
    """A model of any number of labels predicts those of higher probability than theirs."""


async def predict(served: ServedModel, request: PredictRequest, batcher: Batcher) -> list[Any]:
    """Return the labels of each text or pair with their probabilities, the most probable first, or its score."""
    parameters = request.parameters or ClassificationParameters()
    function = parameters.function_to_apply
    if request.raw_scores and function not in (None, "none"):
        what = f"raw_scores and function_to_apply {function!r} exclude each other"
        raise InputError(what, where="parameters")
    scores = await _scores(served, request.input_list, batcher, request, function=function)
    limits = [n for n in (request.top_k, parameters.top_k, batcher.limits.classes) if n is not None]
    labels = [_label_scores(served, row)[: min(limits, default=None)] for row in scores]
    answer = None if served.task is None else served.task.answer
    if isinstance(answer, LabelSet) and not (request.raw_scores or request.parameters):
        for row in labels:
            row[:] = [{**entry, "threshold": answer.threshold(entry["label"])} for entry in row]
    return labels[0] if request.is_one and request.parameters is None else labels


class Document(StrictModel):
    """A passage."""

    text: Text
    """Its text."""


Documents: TypeAlias = Many[Text | Document]


class RankingRequest(ModelRequest, TruncationOptions):
    """A query, and how passages are ranked."""

    query: NonBlankText
    """The search query."""
    raw_scores: bool | None = False
    """Return logits instead of probabilities, or of the number of a regression."""
    top_n: int | None = Field(default=None, ge=1)
    """Maximum number of passages; by default all."""
    return_documents: bool | None = False
    """Whether the response includes the text of each document."""


class DocumentsRequest(RankingRequest):
    """A query and passages, in the format of Cohere, Jina and vLLM."""

    documents: Documents
    """The passages, as texts or objects."""


class RerankRequest(RankingRequest):
    """A query and passages: `texts` as for text-embeddings-inference, or `documents` as for /v2/rerank."""

    texts: Texts | None = None
    """The passages; the response is a list."""
    documents: Documents | None = None
    """The passages; the response has the form of /v2/rerank."""
    return_text: bool | None = False
    """Whether the response includes each text."""

    @model_validator(mode="after")
    def _check_passages(self) -> Self:
        if (self.texts is None) == (self.documents is None):
            raise PydanticCustomError("passages", "give either texts or documents")
        return self


class RankedText(ResponseModel):
    """A passage, by its index in the request, and its relevance to the query."""

    index: int
    """Which of the texts, counted from 0."""
    score: float
    """Its relevance: a probability, a logit, or the number of a regression."""
    text: str | None = None
    """Its text, with `return_text`."""


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


async def rerank(served: ServedModel, request: RerankRequest, batcher: Batcher) -> Any:
    """Return the passages, the most relevant to the query first."""
    if request.documents is not None:
        return await _rank_documents(served, request, request.documents, batcher)
    texts = request.texts or []
    return [
        {"index": i, "score": score, **({"text": texts[i]} if request.return_text else {})}
        for i, score in await _rank(served, request, texts, batcher)
    ]


async def rerank_documents(
    served: ServedModel, request: DocumentsRequest, batcher: Batcher
) -> dict[str, Any]:
    """Return the passages, the most relevant to the query first, in the format of Cohere, Jina and vLLM."""
    return await _rank_documents(served, request, request.documents, batcher)


async def _rank_documents(
    served: ServedModel, request: RankingRequest, documents: list[str | Document], batcher: Batcher
) -> dict[str, Any]:
    texts = [document if isinstance(document, str) else document.text for document in documents]
    results = [
        {
            "index": i,
            "relevance_score": score,
            **({"document": {"text": texts[i]}} if request.return_documents else {}),
        }
        for i, score in await _rank(served, request, texts, batcher)
    ]
    return {"model": served.name, "results": results}


async def _rank(
    served: ServedModel, request: RankingRequest, texts: list[str], batcher: Batcher
) -> list[tuple[int, float]]:
    """Return the indices and scores of the `top_n` best passages, the best first."""
    pairs = [[request.query, text] for text in texts]
    scores = [row[0] for row in await _scores(served, pairs, batcher, request)]
    return sorted(enumerate(scores), key=lambda entry: -entry[1])[: request.top_n]


async def _scores(
    served: ServedModel,
    inputs: list[Any],
    batcher: Batcher,
    request: PredictRequest | RankingRequest,
    *,
    function: Literal["sigmoid", "softmax", "none"] | None = None,
) -> list[list[float]]:
    """Return the scores of each text or pair in the order of the model's classes: probabilities, or logits."""
    examples = text_examples(inputs)
    tokens = [estimate_tokens(example.text, example.pair) for example in examples]
    if request.truncate is False:
        await batcher.run_batched(served.check_example_lengths, examples, tokens=tokens)
    returns_logits = request.raw_scores or function is not None
    compute = WindowedLogits if returns_logits else WindowedPredictions
    computation = compute(served.finetuned, request.truncation_side)
    predictions = await run_predictions(computation, examples, batcher, tokens=tokens)
    if returns_logits:
        functions = {"sigmoid": sigmoid, "softmax": softmax}
        scores = functions.get(function or "none")
        return predictions if scores is None else [scores(row).tolist() for row in predictions]
    return [
        [prediction] if isinstance(prediction, float) else list(prediction.probabilities.values())
        for prediction in predictions
    ]


def _label_scores(served: ServedModel, scores: list[float]) -> list[dict[str, Any]]:
    """Return labels with their scores, the highest first."""
    labels = served.labels[-len(scores) :]  # a ranker of two classes has one score, of the second
    labeled = zip(labels, scores, strict=True)
    return [{"label": label, "score": score} for label, score in sorted(labeled, key=lambda item: -item[1])]


ROUTES: tuple[Route, ...] = (
    Route(
        "/predict",
        "predict",
        predict,
        PredictRequest,
        list[LabelScore] | list[list[LabelScore]],
        example={"inputs": "A film to remember."},
    ),
    Route(
        "/rerank",
        "rerank",
        rerank,
        RerankRequest,
        list[RankedText] | RankedDocuments,
        example={
            "query": "How high is the river?",
            "texts": ["The river stands at two metres.", "The bank is closed."],
        },
    ),
    Route(
        "/v2/rerank",
        "rerank",
        rerank_documents,
        DocumentsRequest,
        RankedDocuments,
        example={
            "query": "How high is the river?",
            "documents": ["It stands at two metres.", "It is closed."],
            "top_n": 1,
        },
    ),
)
