"""Requests and responses of cloze and of text-embeddings-inference, checked and documented by pydantic.

An unknown key is refused. Keys that clients of other servers always send are accepted where they change nothing.

Source: text-embeddings-inference 1.9 docs/openapi.json; huggingface_hub 1.31 inference/_generated/types.
"""

import unicodedata
from contextvars import ContextVar
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from cloze.serving.limits import MAX_CHARACTERS, Limits
from cloze.tokenization.tokenizer import TruncationSide

Input = TypeVar("Input")

Text: TypeAlias = Annotated[str, Field(max_length=MAX_CHARACTERS)]


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character: a model would answer from [CLS] and [SEP] alone."""
    beginning = text[:16]  # nearly always enough; the set of 2 MB takes 12 ms of the event loop
    return all(map(_is_invisible, beginning)) and all(map(_is_invisible, set(text)))


def _is_invisible(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) in ("Cc", "Cf")


def _check_not_blank(text: str) -> str:
    if is_blank(text):
        raise PydanticCustomError("empty_text", "the text is empty. Give a text.")
    return text


NonBlankText: TypeAlias = Annotated[Text, AfterValidator(_check_not_blank)]
TOO_LONG, TOO_MANY = "too_long_texts", "too_many_texts"
batch_texts: ContextVar[int] = ContextVar("batch_texts", default=Limits().max_batch_texts)
"""The server's maximum number of texts in a request, which FastAPI cannot hand to the types below."""


def _check_number(values: Any) -> Any:
    limit = batch_texts.get()
    if isinstance(values, list) and len(values) > limit:
        what = (
            "{number} are more than {limit}. Send several requests, or serve with --max-batch-texts {number}."
        )
        raise PydanticCustomError(TOO_MANY, what, {"number": len(values), "limit": limit})
    return values


def _lower(side: Any) -> Any:
    # generated clients fail with names of both cases
    return side.lower() if side in ("Left", "Right") else side


BatchLimit = BeforeValidator(_check_number)
"""Refuses a list with more texts than the server accepts in a request."""
Many: TypeAlias = Annotated[list[Input], Field(min_length=1), BatchLimit]
Texts: TypeAlias = Many[Text]
TextOrPair: TypeAlias = Annotated[list[Text], Field(min_length=1, max_length=2)]
# fail_fast: an error for each of a million wrong numbers would take seconds
Ids: TypeAlias = Annotated[
    list[Annotated[int, Field(ge=0)]],
    Field(min_length=1, max_length=MAX_CHARACTERS, fail_fast=True),
]
IdLists: TypeAlias = Annotated[list[Ids], Field(min_length=1, fail_fast=True), BatchLimit]
TextsOrIds: TypeAlias = NonBlankText | Ids | Many[NonBlankText | Ids]
"""A text, a list of token ids, or a list of either."""


class ResponseModel(BaseModel):
    """A JSON object; the docstrings of its fields are descriptions in the OpenAPI schema."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class StrictModel(ResponseModel):
    """A JSON object without unknown keys or converted types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ModelRequest(StrictModel):
    """The field that all requests share."""

    model: str | None = None
    """A name from /info; by default the first model that can answer."""


class TextsRequest(ModelRequest):
    """One text or several."""

    inputs: Text | Texts
    """A text, or a list."""


class TextsOrPairsRequest(ModelRequest):
    """One text; a list of two texts, which are a pair; or a list of lists of one or two texts."""

    inputs: Text | TextOrPair | Many[TextOrPair]
    """A text, a list of two texts, which are a pair, or a list of such lists."""

    @property
    def is_one(self) -> bool:
        """Whether it has one text or one pair instead of a list."""
        return isinstance(self.inputs, str) or (len(self.inputs) == 2 and isinstance(self.inputs[0], str))

    @property
    def input_list(self) -> Any:
        return [self.inputs] if self.is_one else self.inputs


class TruncationOptions(StrictModel):
    """How texts longer than the model's limit are handled."""

    truncate: bool | None = True
    """Truncate them; otherwise they are refused."""
    truncation_direction: Annotated[Literal["left", "right"], BeforeValidator(_lower)] | None = "right"
    """The side where tokens are dropped; text-embeddings-inference writes Left and Right."""

    @property
    def truncation_side(self) -> TruncationSide:
        """The direction in the words of transformers."""
        return self.truncation_direction or "right"


class PromptOptions(StrictModel):
    """The prompt before a text."""

    prompt_name: str | None = None
    """Name of a prompt of the model; by default the model's default prompt."""


class EmbeddingOptions(TruncationOptions, PromptOptions):
    """How texts are prepared for their vectors."""


class EmbeddingRequest(ModelRequest, EmbeddingOptions):
    """Texts, or lists of token ids."""

    inputs: TextsOrIds
    """A text, a list of token ids, or a list of either."""

    @property
    def input_list(self) -> Any:
        is_one = isinstance(self.inputs, str) or isinstance(self.inputs[0], int)
        return [self.inputs] if is_one else self.inputs


class EmbedRequest(EmbeddingRequest):
    """Texts, or lists of token ids, to embed."""

    normalize: bool | None = True
    """Scale vectors to length 1."""
    dimensions: int | None = Field(default=None, ge=1)
    """Number of leading dimensions of each vector to keep."""
    encoding_format: Literal["float"] | None = None
    """Vectors are lists of numbers; /v1/embeddings also has base64."""


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


class SearchRequest(ModelRequest):
    """A question about the documents of the server."""

    query: NonBlankText
    """The question."""
    top_k: int = Field(default=10, ge=1, le=1000)
    """Number of passages."""
    rerank: bool = False
    """Have the served ranker order the nearest 50."""


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


class DecodeRequest(ModelRequest):
    """Token ids to convert to text."""

    ids: Ids | IdLists
    """A list of token ids, or several."""
    skip_special_tokens: bool | None = True
    """Leave out tokens such as [CLS]."""


class ClassificationParameters(StrictModel):
    """Parameters of `InferenceClient.text_classification`."""

    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = None
    """The function from logits to scores; by default that of the model's files."""
    top_k: int | None = Field(default=None, ge=1)
    """Maximum number of labels; by default all."""


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


class Document(StrictModel):
    """A passage."""

    text: Text
    """Its text."""


Documents: TypeAlias = Many[Text | Document]


class DocumentsRequest(ModelRequest, TruncationOptions):
    """A query and passages, in the format of Cohere, Jina and vLLM."""

    query: NonBlankText
    """The search query."""
    documents: Documents
    """The passages, as texts or objects."""
    raw_scores: bool | None = False
    """Return logits instead of probabilities, or of the number of a regression."""
    top_n: int | None = Field(default=None, ge=1)
    """Maximum number of passages; by default all."""
    return_documents: bool | None = False
    """Whether the response includes the text of each document."""

    @property
    def passages(self) -> list[str]:
        """The texts of the passages."""
        return [document if isinstance(document, str) else document.text for document in self.documents or []]


class RerankRequest(DocumentsRequest):
    """A query and passages: `texts` as for text-embeddings-inference, or `documents` as for /v2/rerank."""

    texts: Texts | None = None
    """The passages; the response is a list."""
    documents: Documents | None = None  # type: ignore[assignment]
    """The passages; the response has the form of /v2/rerank."""
    return_text: bool | None = False
    """Whether the response includes each text."""

    @model_validator(mode="after")
    def _check_passages(self) -> Self:
        if (self.texts is None) == (self.documents is None):
            raise PydanticCustomError("passages", "give either texts or documents")
        return self

    @property
    def passages(self) -> list[str]:
        """The texts of the passages."""
        return super().passages if self.texts is None else self.texts


class RankedText(ResponseModel):
    """A passage, by its index in the request, and its relevance to the query."""

    index: int
    """Which of the texts, counted from 0."""
    score: float
    """Its relevance: a probability, a logit, or the number of a regression."""
    text: str | None = None
    """Its text, with `return_text`."""


class FillParameters(StrictModel):
    """Parameters of `InferenceClient.fill_mask`."""

    top_k: int | None = Field(default=None, ge=1, le=1000)
    """Number of candidates for each [MASK]; defaults to the request's top_k."""
    targets: Texts | None = None
    """Tokens to choose from; by default the whole vocabulary."""


class FillRequest(TextsRequest):
    """Texts with [MASK] tokens."""

    top_k: int = Field(default=5, ge=1, le=1000)
    """Number of candidates for each [MASK]."""
    long_texts: Literal["windows"] | None = None
    """Read as much of a text as fits around each [MASK]; null refuses one that is too long."""
    parameters: FillParameters | None = None
    """Parameters of Hugging Face's pipelines; a request with them gets the response of a pipeline."""


Pair = Annotated[list[NonBlankText], Field(min_length=2, max_length=2)]


class NextSentenceRequest(ModelRequest):
    """Pairs of sentences."""

    inputs: Pair | Many[Pair]
    """Two sentences, or a list of such pairs."""


class TagParameters(StrictModel):
    """Parameters of `InferenceClient.token_classification`."""

    aggregation_strategy: Literal["simple", "first"] | None = None
    """Both are the same here: a word has the tag of its first token, and the words of an entity are joined."""
    ignore_labels: list[Text] | None = None
    """Types of entities to leave out."""


class TagRequest(TextsRequest):
    """Texts whose entities to find."""

    parameters: TagParameters | None = None
    """Parameters of Hugging Face's pipelines; a request with them gets the response of a pipeline."""


class QuestionInput(StrictModel):
    """A question, and a text of any length that may contain the answer."""

    question: NonBlankText
    """The question."""
    context: Text
    """The text that may contain the answer."""


class AnswerParameters(StrictModel):
    """Parameters of `InferenceClient.question_answering`."""

    top_k: int | None = Field(default=None, ge=1, le=20)
    """Maximum number of answers; more than one are a list."""
    handle_impossible_answer: bool | None = None
    """Whether the answer may be empty, if the model was trained with unanswerable questions."""
    max_answer_len: int | None = Field(default=None, ge=1)
    """Maximum number of tokens of an answer; by default the model's."""
    max_question_len: int | None = Field(default=None, ge=1)
    """Maximum number of tokens of a question, which is truncated; by default the model's."""
    max_seq_len: int | None = Field(default=None, ge=8)
    """Maximum number of tokens of a window with its question; by default the model's."""
    align_to_words: Literal[True] | None = None
    """Answers are whole words."""


class AnswerRequest(ModelRequest):
    """Questions."""

    inputs: QuestionInput | Many[QuestionInput]
    """A question, or a list."""
    n_best: int = Field(default=20, ge=1, le=20)
    """Maximum number of candidates."""
    parameters: AnswerParameters | None = None
    """Parameters of Hugging Face's pipelines; a request with them gets the response of a pipeline."""


class ProbableSpan(ResponseModel):
    """A part of the context; without offsets for "no answer"."""

    start: int | None
    """Its first character in the context."""
    end: int | None
    """The character after its last."""
    probability: float
    """A softmax over the candidates."""


class AnswerCandidate(ProbableSpan):
    """A possible answer; empty for "no answer"."""

    text: str
    """The answer."""


class AnsweredQuestion(ProbableSpan):
    """The answer, and the candidates it was chosen from.

    `null_odds` is the score of "no answer" minus that of the best answer; above `null_threshold` the answer is empty.
    Both are null for models that always answer.
    """

    answer: str
    """The answer; empty if the model finds no answer."""
    candidates: list[AnswerCandidate]
    """The best answers, the best first."""
    null_odds: float | None = None
    """The score of "no answer" minus that of the best answer; null if the model always answers."""
    null_threshold: float | None = None
    """Above these odds the answer is empty; null if the model always answers."""


class ChoiceInput(StrictModel):
    """A beginning and its possible continuations."""

    prompt: Text
    """The beginning."""
    choices: Annotated[list[Text], Field(min_length=2), BatchLimit]
    """Its possible continuations."""


class ChooseRequest(ModelRequest):
    """Multiple-choice questions."""

    inputs: ChoiceInput | Many[ChoiceInput]
    """A question, or a list."""


class ChoiceOutput(ResponseModel):
    """The most probable choice, counted from 0."""

    choice: int
    """Which of the choices, counted from 0."""
    text: str
    """Its text."""
    probability: float
    """Its probability."""
    probabilities: list[float]
    """The probability of each choice."""


class ExplainRequest(TextsOrPairsRequest):
    """Texts or pairs whose classification is explained."""

    label: str | None = None
    """The label whose logit is explained; by default the most probable one of each text."""
