"""What requests say and what answers say, checked and documented by pydantic.

A key that no route reads is refused; those that clients of others send as a matter of course are taken where they
change nothing.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from cloze.serving.limits import MOST_CHARACTERS, MOST_INPUTS

Text: TypeAlias = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Texts: TypeAlias = Annotated[list[Text], Field(min_length=1, max_length=MOST_INPUTS)]
Pair: TypeAlias = Annotated[list[Text], Field(min_length=2, max_length=2)]
TextOrPair: TypeAlias = Annotated[list[Text], Field(min_length=1, max_length=2)]
# an error for each of a million wrong numbers would take the server seconds
Ids: TypeAlias = Annotated[
    list[Annotated[int, Field(ge=0)]],
    Field(min_length=1, max_length=MOST_CHARACTERS, fail_fast=True),
]
IdLists: TypeAlias = Annotated[list[Ids], Field(min_length=1, max_length=MOST_INPUTS, fail_fast=True)]
Scores: TypeAlias = list[float]


def _only_false(value: bool) -> bool:  # noqa: FBT001 (what a request says)
    if value:
        raise ValueError("only false is answered")
    return value


# not Literal[False], which takes 0.0 for it
OnlyFalse: TypeAlias = Annotated[
    bool, AfterValidator(_only_false), WithJsonSchema({"type": "boolean", "const": False})
]


class Asked(BaseModel):
    """What all requests have."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    model: str | None = None
    """One that /info names; without it, the first that can answer."""


class Cut(BaseModel):
    """What is said of texts that are too long."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    truncate: bool | None = True
    """Cut them; otherwise they are refused."""
    truncation_direction: Literal["Right", "right"] | None = None
    """They lose their end."""


class EmbedRequest(Asked, Cut):
    """Texts that want a vector each."""

    inputs: Text | Texts
    normalize: bool | None = True
    """Bring vectors to length 1."""
    dimensions: int | None = Field(default=None, ge=1)
    """Keep so many numbers of each vector, from the first."""


class EmbedAllRequest(Asked, Cut):
    """Texts that want a vector for each token."""

    inputs: Text | Texts


class SimilarityInputs(BaseModel):
    """A text and those that it is compared with."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source_sentence: Text
    sentences: Texts


class SimilarityRequest(Asked):
    """Texts whose vectors are compared, by their cosine."""

    inputs: SimilarityInputs
    parameters: Cut | None = None


class PredictRequest(Asked, Cut):
    """A text; a list of two, which are a pair; or a list of such lists, or of one text and such lists."""

    inputs: Text | TextOrPair | Annotated[list[TextOrPair], Field(min_length=1, max_length=MOST_INPUTS)]
    raw_scores: OnlyFalse | None = None
    """Scores are probabilities, or of a regression what it says."""


class RerankRequest(Asked, Cut):
    """A query and passages."""

    query: Text
    texts: Texts
    raw_scores: OnlyFalse | None = None
    return_text: bool | None = False


class TokenizeRequest(Asked):
    """Texts that want to be cut into pieces."""

    inputs: Text | Texts
    add_special_tokens: bool | None = True


class DecodeRequest(Asked):
    """Ids that want to be text."""

    ids: Ids | IdLists
    skip_special_tokens: bool | None = True


class OpenAIRequest(Asked):
    """Texts or token ids that want a vector each, as OpenAI's clients ask for them."""

    input: Text | Texts | Ids | IdLists
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = Field(default=None, ge=1)
    user: str | None = None


class FillRequest(Asked):
    """Texts with [MASK]s."""

    inputs: Text | Texts
    top_k: int = Field(default=5, ge=1, le=1000)


class NextSentenceRequest(Asked):
    """Pairs of sentences."""

    inputs: Pair | Annotated[list[Pair], Field(min_length=1, max_length=MOST_INPUTS)]


class TagRequest(Asked):
    """Texts of any length."""

    inputs: Text | Texts


class AskedQuestion(BaseModel):
    """A question, and a text of any length that may answer it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: Text
    context: Text


class AnswerRequest(Asked):
    """Questions."""

    inputs: AskedQuestion | Annotated[list[AskedQuestion], Field(min_length=1, max_length=MOST_INPUTS)]
    n_best: int = Field(default=20, ge=1, le=20)
    """Candidates at most."""


class Beginning(BaseModel):
    """A beginning, and how it may go on."""

    model_config = ConfigDict(extra="forbid", strict=True)

    prompt: Text
    choices: Annotated[list[Text], Field(min_length=2, max_length=MOST_INPUTS)]


class ChooseRequest(Asked):
    """Beginnings."""

    inputs: Beginning | Annotated[list[Beginning], Field(min_length=1, max_length=MOST_INPUTS)]


class ExplainRequest(Asked):
    """Texts or pairs whose prediction wants reasons."""

    inputs: Text | Annotated[list[Text | TextOrPair], Field(min_length=1, max_length=MOST_INPUTS)]


class LabelScore(BaseModel):
    """A label, and what the model gives it."""

    label: str
    score: float


class Ranked(BaseModel):
    """A passage, by its place in the request, and how well it fits the query."""

    index: int
    score: float
    text: str | None = None


class Token(BaseModel):
    """A piece of a text: characters `start` to `stop`, or none where it is special."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


class OpenAIVector(BaseModel):
    """A vector: numbers, or their bytes (float32, little-endian) in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class OpenAIAnswer(BaseModel):
    """Vectors."""

    object: Literal["list"]
    model: str
    data: list[OpenAIVector]
    usage: Usage


class FilledPiece(BaseModel):
    """A candidate for a [MASK]."""

    token: str
    probability: float


class Entity(BaseModel):
    """An entity in a text: characters `start` to before `end`."""

    type: str
    text: str
    start: int
    end: int
    probability: float


class Candidate(BaseModel):
    """An answer; "" with no place says that the text holds none."""

    text: str
    start: int | None
    end: int | None
    probability: float


class AnsweredQuestion(BaseModel):
    """The answer, and the candidates it was chosen from.

    Where a text may hold no answer: `null_odds`, how much more the model says for none than for the best one, and the
    stored threshold over which there is none.
    """

    answer: str
    start: int | None
    end: int | None
    probability: float
    candidates: list[Candidate]
    null_odds: float | None = None
    null_threshold: float | None = None


class Chosen(BaseModel):
    """The likeliest choice, counted from 0."""

    choice: int
    text: str
    probability: float
    probabilities: list[float]


class ExplainedWordBody(BaseModel):
    """A word of the text (A) or of its pair (B), and what it adds to the output."""

    word: str
    segment: str
    start: int
    end: int
    attribution: float


class ExplanationBody(BaseModel):
    """Why a text got its prediction: attributions and gap sum to `output - baseline_output`."""

    explained: str
    output: float
    baseline: str
    baseline_output: float
    convergence_gap: float
    steps: int
    words: list[ExplainedWordBody]
