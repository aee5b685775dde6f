"""Types that the requests of several routes share, checked and documented by pydantic.

An unknown key is refused. Keys that clients of other servers always send are accepted where they change nothing.
"""

import unicodedata
from contextvars import ContextVar
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from cloze.serving.limits import MAX_CHARACTERS, Limits
from cloze.tokenization.tokenizer import TruncationSide

Input = TypeVar("Input")

Text: TypeAlias = Annotated[str, Field(max_length=MAX_CHARACTERS)]


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character: a model would answer from [CLS] and [SEP] alone."""
    return all(c.isspace() or unicodedata.category(c) in ("Cc", "Cf") for c in set(text))


def _check_not_blank(text: str) -> str:
    if is_blank(text):
        raise PydanticCustomError("empty_text", "the text is empty. Give a text.")
    return text


NonBlankText: TypeAlias = Annotated[Text, AfterValidator(_check_not_blank)]
TOO_LONG, TOO_MANY = "too_long_texts", "too_many_texts"
batch_texts: ContextVar[int] = ContextVar("batch_texts", default=Limits().batch_texts)
"""The server's maximum number of texts in a request, which FastAPI cannot hand to the types below."""


def _check_number(values: Any) -> Any:
    limit = batch_texts.get()
    if isinstance(values, list) and len(values) > limit:
        what = (
            "{number} are more than {limit}. Send several requests, or serve with --max-batch-texts {number}."
        )
        raise PydanticCustomError(TOO_MANY, what, {"number": len(values), "limit": limit})
    return values


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


def to_list(inputs: Any) -> list[str | list[int]]:
    """Return `TextsOrIds` as a list of inputs."""
    return [inputs] if isinstance(inputs, str) or isinstance(inputs[0], int) else inputs


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
    truncation_direction: Literal["Left", "Right", "left", "right"] | None = "Right"
    """The side where tokens are dropped."""

    @property
    def truncation_side(self) -> TruncationSide:
        """The direction in the words of transformers."""
        return "left" if self.truncation_direction in ("Left", "left") else "right"


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
    def input_list(self) -> list[str | list[int]]:
        return to_list(self.inputs)
