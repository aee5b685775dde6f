"""Routes of the explorer page: attention, one head's computation, a word in context, answer spans.

Routes under `/explore` serve only the page and may change with it.
"""

import asyncio
from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cloze.explorer.masking_draws import view_masking
from cloze.explorer.span_scores import join_scores
from cloze.explorer.text_window import TextWindow, max_window_tokens, text_window, written_tokens
from cloze.inference.text_predictors import span_questions
from cloze.serving.limits import MAX_WORD_CHARACTERS
from cloze.serving.native import run_predictor
from cloze.serving.queue import Queue
from cloze.serving.routes import GetRoute, Route, ServerState, in_one_turn
from cloze.serving.schema import TOO_LONG, ModelRequest, NonBlankText, Text, Texts
from cloze.serving.served_model import ServedModel
from cloze.tasks.texts import LabeledText


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

    heads: list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]]
    """Layer and head of each, counted from 0."""


class MaskingRequest(TextRequest):
    """A text to mask."""

    seed: int = Field(default=0, ge=0, lt=2**53)  # a number of JavaScript
    """Of the random numbers."""


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


async def span(served: ServedModel, request: SpanRequest, queue: Queue) -> dict[str, Any]:
    """Return the start and end logits of every token."""
    (scores,) = await run_predictor(
        served,
        queue,
        span_questions([(request.question, request.context)]),
        decode=lambda _, *windows: join_scores(served.tokenizer, *windows),
    )
    names = ("offsets", "start_logits", "end_logits", "null_score")
    texts = [request.context] * len(scores.tokens)
    written = written_tokens(served.tokenizer, scores.tokens, scores.offsets, texts)
    return {"tokens": written, **{name: getattr(scores, name) for name in names}}


def read(served: ServedModel, request: TextRequest) -> dict[str, Any]:
    """Return how much of a text and its pair a classifier reads: windows, and characters of each."""
    predictor, texts = served.finetuned, (request.text, request.pair)
    features = predictor.features(LabeledText(*texts))
    characters = [len(text or "") for text in texts]
    if any(feature.is_truncated for feature in features):
        encoding = served.tokenizer.encode(*texts, max_length=predictor.max_seq_length)
        places = list(zip(encoding.sequence_ids, encoding.offsets, strict=True))
        characters = [max((end for sequence, (_, end) in places if sequence == n), default=0) for n in (0, 1)]
    return {"windows": len(features), "characters": characters}


def window(served: ServedModel, request: TextRequest) -> TextWindow:
    """Return the part of the text that is shown."""
    limit = max_window_tokens(served.encoder)
    return text_window(served.tokenizer, request.text, request.pair, start=request.start, max_tokens=limit)


def embeddings(served: ServedModel, request: TextRequest) -> dict[str, Any]:
    """Return the tokens and their input embeddings."""
    from cloze.explorer.views import view_input  # imports torch, which an exported graph does without

    return view_input(served.encoder, served.tokenizer, window(served, request))


def masking(served: ServedModel, request: MaskingRequest) -> dict[str, Any]:
    """Return a text as pre-training masks it, and the random numbers that it draws."""
    return view_masking(served.tokenizer, window(served, request), seed=request.seed)


def attention(served: ServedModel, request: TextRequest) -> dict[str, Any]:
    """Return the input embeddings and the attention weights of every head."""
    from cloze.explorer.views import view_attention

    return view_attention(served.encoder, served.tokenizer, window(served, request))


def head(served: ServedModel, request: HeadRequest) -> dict[str, Any]:
    """Return one head's computation for one token."""
    from cloze.explorer.encoder_internals import attention_map
    from cloze.explorer.views import view_head

    text = window(served, request).text
    attention = attention_map(served.encoder, served.tokenizer, text, request.pair)
    return view_head(attention, layer=request.layer, head=request.head, token=request.token)


def layers(served: ServedModel, request: TokenRequest) -> dict[str, Any]:
    """Return one token's vectors at every step of every layer."""
    from cloze.explorer.views import view_layers

    return view_layers(
        served.encoder,
        served.tokenizer,
        window(served, request),
        token=request.token,
        fill_mask=served.fill_mask,
        next_sentence=served.next_sentence,
    )


def ablation(served: ServedModel, request: AblationRequest) -> dict[str, Any]:
    """Return the model's answers with all attention heads and without some."""
    from cloze.explorer.views import view_ablation

    return view_ablation(
        served.encoder,
        served.tokenizer,
        window(served, request),
        heads=[(layer, head) for layer, head in request.heads],
        token=request.token,
        fill_mask=served.fill_mask,
        next_sentence=served.next_sentence,
        classifier=served.predictor if "predict" in served.abilities else None,
    )


def word(served: ServedModel, request: WordRequest) -> dict[str, Any]:
    """Return the vectors of a word in each layer."""
    from cloze.explorer.views import view_word

    return view_word(served.encoder, served.tokenizer, request.word, request.sentences)


async def evaluation(server: ServerState) -> dict[str, str | None]:
    """Return the name and the content of the file of an evaluation, which is read again each time."""
    file = server.evaluation
    if file is None:
        return {"name": None, "content": None}
    return {"name": file.name, "content": await asyncio.to_thread(file.read_text, "utf-8", "replace")}


ROUTES = (
    GetRoute("/explore/evaluation", evaluation),
    Route("/explore/input", "encode", in_one_turn(embeddings), TextRequest),
    Route("/explore/masking", "encode", in_one_turn(masking, "texts"), MaskingRequest),
    Route("/explore/inside", "encode", in_one_turn(attention), TextRequest),
    Route("/explore/row", "encode", in_one_turn(head), HeadRequest),
    Route("/explore/layers", "encode", in_one_turn(layers), TokenRequest),
    Route("/explore/ablation", "encode", in_one_turn(ablation), AblationRequest),
    Route("/explore/word", "encode", in_one_turn(word), WordRequest),
    Route("/explore/read", "predict", in_one_turn(read, "texts"), TextRequest),
    Route("/explore/span", "answer", span, SpanRequest),
)
