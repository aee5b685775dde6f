"""Routes of the explorer page; `explorer_views` computes most of them.

Routes under `/explore` serve only the page and may change with it.
"""

import asyncio
import inspect
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cloze.explorer.text_window import join_scores, max_window_tokens, text_window
from cloze.inference.text_predictors import span_questions
from cloze.serving.limits import MAX_TURN_CHARACTERS
from cloze.serving.native import run_predictor
from cloze.serving.queue import Queue
from cloze.serving.routes import GetRoute, Route, ServerState, Verb, as_list, estimate_tokens, in_one_turn
from cloze.serving.schema import TOO_LONG, Many, ModelRequest, NonBlankText, Text, Texts
from cloze.serving.served_model import ServedModel
from cloze.tasks.texts import LabeledText

_TOP_K = 5


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


class OneTurnRequest(ModelRequest):
    """Few characters, since all are read in one turn."""

    @model_validator(mode="after")
    def _check_length(self) -> Self:
        texts = (text for name, value in self if name != "model" for text in as_list(value))
        if (number := sum(map(len, texts))) > MAX_TURN_CHARACTERS:
            what = "{number} characters, at most {limit} are read. Give fewer or shorter sentences."
            raise PydanticCustomError(TOO_LONG, what, {"number": number, "limit": MAX_TURN_CHARACTERS})
        return self


class GuessRequest(OneTurnRequest):
    """Texts with [MASK], and words to rank among all tokens at the first of each."""

    texts: Many[NonBlankText]
    words: list[NonBlankText]


class SpanRequest(ModelRequest):
    """A question about a text."""

    question: NonBlankText
    context: Text


class WordRequest(OneTurnRequest):
    """A word and sentences that contain it."""

    word: Text
    sentences: Texts


async def span(served: ServedModel, request: SpanRequest, queue: Queue) -> dict[str, Any]:
    """Return the start and end logits of every token."""
    questions = span_questions([(request.question, request.context)])
    join = partial(join_scores, served.tokenizer)
    (scores,) = await run_predictor(served, queue, questions, decode=lambda _, *windows: join(*windows))
    return dict(scores)


def read(served: ServedModel, request: TextRequest) -> dict[str, Any]:
    """Return how much of a text and its pair a classifier reads: windows, and characters of each."""
    predictor, texts = served.predictor, (request.text, request.pair)
    features = predictor.features(LabeledText(*texts))
    characters = [len(text or "") for text in texts]
    if any(feature.is_truncated for feature in features):
        encoding = served.tokenizer.encode(*texts, max_length=predictor.max_seq_length)
        places = list(zip(encoding.sequence_ids, encoding.offsets, strict=True))
        characters = [max((end for sequence, (_, end) in places if sequence == n), default=0) for n in (0, 1)]
    return {"windows": len(features), "characters": characters}


def guess(served: ServedModel, request: GuessRequest) -> dict[str, Any]:
    """Return the candidates for the first [MASK] of each text, and the rank and the probability of words there.

    A word of several tokens, or of unknown ones, has neither.
    """
    tokenizer, fill_mask = served.tokenizer, served.fill_mask
    tokens, mask = tokenizer.tokens, tokenizer.special_token("mask")
    guesses = []
    for text in request.texts:
        probabilities_V = fill_mask.probabilities(text)[0]
        ids = tokenizer.encode(text).input_ids
        words, place = [], ids.index(tokenizer.mask_id)
        for word in request.words:
            filled = tokenizer.encode(text.replace(mask, word, 1)).input_ids
            of_word = filled[place : place + len(filled) - len(ids) + 1]
            is_ranked = len(of_word) == 1 and of_word[0] != tokenizer.unknown_id
            probability = float(probabilities_V[of_word[0]]) if is_ranked else None
            rank = 1 + int((probabilities_V > probability).sum()) if is_ranked else None
            words.append({"tokens": [tokens[i] for i in of_word], "rank": rank, "probability": probability})
        best = np.argsort(-probabilities_V, kind="stable")[:_TOP_K]
        candidates = [{"token": tokens[i], "probability": float(probabilities_V[i])} for i in best]
        guesses.append({"candidates": candidates, "words": words})
    return {"vocab_size": len(tokens), "texts": guesses}


def word(served: ServedModel, request: WordRequest) -> dict[str, Any]:
    """Return the vectors of a word in each layer, in two dimensions, and their cosines."""
    from cloze.serving import explorer_views  # needs torch: a graph answers without

    return explorer_views.word(served, request.word, request.sentences)


def _view(name: str) -> Verb:
    """Return the verb that hands the part of a text that is shown to a function of `explorer_views`."""

    async def verb(served: ServedModel, request: TextRequest, queue: Queue) -> Any:
        from cloze.serving import explorer_views  # needs torch

        text, pair, limit = request.text, request.pair, max_window_tokens(served.model.encoder)
        show_part = partial(text_window, served.tokenizer, text, pair, start=request.start, max_tokens=limit)
        window = await queue.run(show_part, tokens=estimate_tokens(text, pair), thread="texts")
        options = dict(request.model_dump(exclude={*TextRequest.model_fields}))
        show = partial(getattr(explorer_views, name), served, window, **options)
        if inspect.iscoroutinefunction(show.func):
            return await show(queue=queue)
        return await queue.run(show, tokens=len(window.encoding))

    return verb


async def evaluation(server: ServerState) -> dict[str, str | None]:
    """Return the name and the content of the file of an evaluation, which is read again each time."""
    file = server.evaluation
    if file is None:
        return {"name": None, "content": None}
    return {"name": file.name, "content": await asyncio.to_thread(file.read_text, "utf-8", "replace")}


async def lessons(server: ServerState) -> Mapping[str, Any]:
    """Return the lessons and the glossary."""
    return server.lessons


ROUTES = (
    GetRoute("/explore/evaluation", evaluation),
    GetRoute("/explore/lessons", lessons),
    Route("/explore/guess", "fill", in_one_turn(guess), GuessRequest),
    Route("/explore/input", "encode", _view("embeddings"), TextRequest),
    Route("/explore/map", "encode", _view("model_map"), TextRequest),
    Route("/explore/inside", "encode", _view("attention"), TextRequest),
    Route("/explore/row", "encode", _view("head"), HeadRequest),
    Route("/explore/layers", "encode", _view("layers"), TokenRequest),
    Route("/explore/ablation", "encode", _view("ablation"), AblationRequest),
    Route("/explore/word", "encode", in_one_turn(word), WordRequest),
    Route("/explore/read", "predict", in_one_turn(read, "texts"), TextRequest),
    Route("/explore/span", "answer", span, SpanRequest),
)
