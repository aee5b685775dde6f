"""Routes of the explorer page; `explorer_views` computes most of them.

Routes under `/explore` serve only the page and may change with it.
"""

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from cloze.explorer.text_window import join_scores, written_tokens
from cloze.inference.text_predictors import span_questions
from cloze.serving.explorer_requests import (
    AblationRequest,
    GuessRequest,
    HeadRequest,
    SpanRequest,
    TextRequest,
    TokenRequest,
    WordRequest,
)
from cloze.serving.native import run_predictor
from cloze.serving.queue import Queue
from cloze.serving.routes import GetRoute, Route, ServerState, Verb, in_one_turn
from cloze.serving.served_model import ServedModel
from cloze.tasks.texts import LabeledText

_TOP_K = 5


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


def _view(name: str) -> Verb:
    """Return the verb that runs a function of `explorer_views`, which imports torch: a graph does without."""

    async def verb(served: ServedModel, request: Any, queue: Queue) -> Any:
        from cloze.serving import explorer_views

        function = getattr(explorer_views, name)
        takes_turns = inspect.iscoroutinefunction(function)
        return await (function if takes_turns else in_one_turn(function))(served, request, queue)

    verb.__name__ = name
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
    Route("/explore/word", "encode", _view("word"), WordRequest),
    Route("/explore/read", "predict", in_one_turn(read, "texts"), TextRequest),
    Route("/explore/span", "answer", span, SpanRequest),
)
