"""Routes of the explorer page; `explorer_views` computes most of them.

Routes under `/explore` serve only the page and may change with it.
"""

import asyncio
from typing import Any

from cloze.explorer.text_window import join_scores, view_masking, written_tokens
from cloze.inference.text_predictors import span_questions
from cloze.serving.explorer_requests import (
    AblationRequest,
    HeadRequest,
    MaskingRequest,
    SpanRequest,
    TextRequest,
    TokenRequest,
    WordRequest,
    window_of,
)
from cloze.serving.native import run_predictor
from cloze.serving.queue import Queue
from cloze.serving.routes import GetRoute, Route, ServerState, Verb, in_one_turn
from cloze.serving.served_model import ServedModel
from cloze.tasks.texts import LabeledText


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


def masking(served: ServedModel, request: MaskingRequest) -> dict[str, Any]:
    """Return a text as pre-training masks it, and the random numbers that it draws."""
    return view_masking(served.tokenizer, window_of(served, request), seed=request.seed)


def _view(name: str) -> Verb:
    """Return the verb that runs a function of `explorer_views`, which imports torch: a graph does without."""

    def compute(served: ServedModel, request: Any) -> dict[str, Any]:
        from cloze.serving import explorer_views

        shown: dict[str, Any] = getattr(explorer_views, name)(served, request)
        return shown

    return in_one_turn(compute)


async def evaluation(server: ServerState) -> dict[str, str | None]:
    """Return the name and the content of the file of an evaluation, which is read again each time."""
    file = server.evaluation
    if file is None:
        return {"name": None, "content": None}
    return {"name": file.name, "content": await asyncio.to_thread(file.read_text, "utf-8", "replace")}


ROUTES = (
    GetRoute("/explore/evaluation", evaluation),
    Route("/explore/input", "encode", _view("embeddings"), TextRequest),
    Route("/explore/masking", "encode", in_one_turn(masking, "texts"), MaskingRequest),
    Route("/explore/inside", "encode", _view("attention"), TextRequest),
    Route("/explore/row", "encode", _view("head"), HeadRequest),
    Route("/explore/layers", "encode", _view("layers"), TokenRequest),
    Route("/explore/ablation", "encode", _view("ablation"), AblationRequest),
    Route("/explore/word", "encode", _view("word"), WordRequest),
    Route("/explore/read", "predict", in_one_turn(read, "texts"), TextRequest),
    Route("/explore/span", "answer", span, SpanRequest),
)
