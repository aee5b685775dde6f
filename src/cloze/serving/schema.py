"""Types that the requests of several routes share, checked and documented by pydantic.

An unknown key is refused. Keys that clients of other servers always send are accepted where they change nothing.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from cloze.serving.limits import MAX_CHARACTERS, MAX_INPUTS

Text: TypeAlias = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Texts: TypeAlias = Annotated[list[Text], Field(min_length=1, max_length=MAX_INPUTS)]
TextOrPair: TypeAlias = Annotated[list[Text], Field(min_length=1, max_length=2)]
# fail_fast: an error for each of a million wrong numbers would take seconds
Ids: TypeAlias = Annotated[
    list[Annotated[int, Field(ge=0)]],
    Field(min_length=1, max_length=MAX_CHARACTERS, fail_fast=True),
]
IdLists: TypeAlias = Annotated[list[Ids], Field(min_length=1, max_length=MAX_INPUTS, fail_fast=True)]


def _only_false(value: bool) -> bool:  # noqa: FBT001 (a validator of pydantic)
    if value:
        raise ValueError("only false is supported")
    return value


# not Literal[False], which accepts 0.0
OnlyFalse: TypeAlias = Annotated[
    bool, AfterValidator(_only_false), WithJsonSchema({"type": "boolean", "const": False})
]


class StrictModel(BaseModel):
    """A JSON object without unknown keys or converted types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ModelRequest(StrictModel):
    """The field that all requests share."""

    model: str | None = None
    """A name from /info; by default the first model that can answer."""


class TextsRequest(ModelRequest):
    """One text or several."""

    inputs: Text | Texts


class TruncationOptions(StrictModel):
    """How texts longer than the model's limit are handled."""

    truncate: bool | None = True
    """Truncate them; otherwise they are refused."""
    truncation_direction: Literal["Right", "right"] | None = None
    """The end of the text is dropped."""
