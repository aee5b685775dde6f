"""Requests of the explorer page."""

from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cloze.explorer.text_window import TextWindow, max_window_tokens, text_window
from cloze.serving.limits import MAX_WORD_CHARACTERS
from cloze.serving.schema import TOO_LONG, Many, ModelRequest, NonBlankText, Text, Texts
from cloze.serving.served_model import ServedModel


class TextRequest(ModelRequest):
    """A text, or a pair of texts."""

    text: NonBlankText
    pair: Text | None = None
    start: int | None = Field(default=None, ge=0)
    """Where a window on a text that is too long to be shown begins; None shows its first [MASK]."""


class HeadRequest(TextRequest):
    """A token of a text and an attention head, counted from 0."""

    layer: int = Field(ge=0)
    head: int = Field(ge=0)
    token: int = Field(ge=0)


class TokenRequest(TextRequest):
    """A token of a text, counted from 0; None takes the first [MASK], or else the token in the middle."""

    token: int | None = Field(default=None, ge=0)


class AblationRequest(TokenRequest):
    """Attention heads to switch off, and the token to mask in a text without [MASK]."""

    heads: list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]] | None = None
    """Layer and head of each, counted from 0, all off together; None switches each head of the model off alone."""


class GuessRequest(ModelRequest):
    """Texts with [MASK], and words to rank among all tokens at the first of each."""

    texts: Many[NonBlankText]
    words: list[NonBlankText]


class SpanRequest(ModelRequest):
    """A question about a text."""

    question: NonBlankText
    context: Text


class WordRequest(ModelRequest):
    """A word and sentences that contain it, which are read in one turn."""

    word: Text
    sentences: Texts

    @model_validator(mode="after")
    def _check_length(self) -> Self:
        number = len(self.word) + sum(map(len, self.sentences))
        if number > MAX_WORD_CHARACTERS:
            what = "{number} characters, at most {limit} are read. Give fewer or shorter sentences."
            raise PydanticCustomError(TOO_LONG, what, {"number": number, "limit": MAX_WORD_CHARACTERS})
        return self


def window_of(served: ServedModel, request: TextRequest) -> TextWindow:
    """Return the part of the text that is shown."""
    limit = max_window_tokens(served.encoder)
    return text_window(served.tokenizer, request.text, request.pair, start=request.start, max_tokens=limit)
