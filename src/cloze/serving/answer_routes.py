"""The routes that no other server has: masked words, next sentence, entities, answers, choices, reasons."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from cloze.errors import InputError
from cloze.inference.explain import STEPS, Explaining, Explanation
from cloze.serving import schema
from cloze.serving.computations import IntegratedGradients
from cloze.serving.errors import documented
from cloze.serving.limits import MOST_CANDIDATES
from cloze.serving.models import ServedModel
from cloze.serving.service import Service, example, listed, respond
from cloze.tasks.answers import Answer
from cloze.tasks.contexts import Paragraph
from cloze.tasks.multiple_choice import Question
from cloze.tasks.span import SpanPrediction, SpanQuestion
from cloze.tasks.texts import LabelledText
from cloze.text.pieces import MASK


def answer_routes(service: Service) -> APIRouter:
    """Return the routes of what a BERT is pre-trained and fine-tuned for."""
    router = APIRouter(responses=documented())
    _add_pretrained(router, service)
    _add_finetuned(router, service)
    return router


def _add_pretrained(router: APIRouter, service: Service) -> None:
    @router.post("/fill", response_model=list[list[list[schema.FilledPiece]]])
    async def fill(request: schema.FillRequest) -> Response:
        """Return the likeliest pieces for each [MASK] of each text."""
        served = service.find(request.model, "fill")
        texts = listed(request.inputs)
        candidates = request.top_k * sum(text.count(MASK) for text in texts)
        if candidates > MOST_CANDIDATES:
            what = f"{candidates:,} candidates are asked for, {MOST_CANDIDATES:,} at most are given"
            raise InputError(what, where="inputs", remedy="Ask for fewer texts, blanks or top_k")
        asked = [(text, request.top_k) for text in texts]
        return respond(await service.batched(served.fill, asked, [[text] for text in texts]))

    @router.post("/next-sentence", response_model=list[float])
    async def next_sentence(request: schema.NextSentenceRequest) -> Response:
        """Return how likely the second sentence of each pair is to follow the first."""
        served = service.find(request.model, "next-sentence")
        given: Any = request.inputs
        pairs = [(a, b) for a, b in ([given] if isinstance(given[0], str) else given)]
        return respond(await service.batched(served.follows, pairs, pairs))


def _add_finetuned(router: APIRouter, service: Service) -> None:
    @router.post("/tag", response_model=list[list[schema.Entity]])
    async def tag(request: schema.TagRequest) -> Response:
        """Return the entities of each text, of any length, with their place in characters."""
        served = service.find(request.model, "tag")
        texts = listed(request.inputs)
        found = await service.in_windows(served.entities, texts, [[text] for text in texts])
        return respond(found)

    @router.post("/answer", response_model=list[schema.AnsweredQuestion])
    async def answer(request: schema.AnswerRequest) -> Response:
        """Return the answer to each question, with its place in the text, and the candidates."""
        served = service.find(request.model, "answer")
        asked = listed(request.inputs)
        paragraphs = {each.context: Paragraph(each.context) for each in asked}
        examples = [
            SpanQuestion(str(number), each.question, paragraphs[each.context])
            for number, each in enumerate(asked)
        ]
        reads = [(each.question, each.context) for each in asked]
        predictions = await service.in_windows(served.predictions, examples, reads)
        threshold = getattr(served.task, "null_threshold", None)
        return respond([_answered(each, request.n_best, threshold) for each in predictions])

    @router.post("/choose", response_model=list[schema.Chosen])
    async def choose(request: schema.ChooseRequest) -> Response:
        """Return how each beginning goes on."""
        served = service.find(request.model, "choose")
        asked = listed(request.inputs)
        examples = [Question(each.prompt, tuple(each.choices), None, "inputs") for each in asked]
        reads = [[text for choice in each.choices for text in (each.prompt, choice)] for each in asked]
        found = await service.in_windows(served.predictions, examples, reads)
        return respond(
            [served.task.to_json(each, choice) for each, choice in zip(examples, found, strict=True)]
        )

    @router.post("/explain", response_model=list[schema.ExplanationBody])
    async def explain(request: schema.ExplainRequest) -> Response:
        """Return what each word adds to what is predicted, by integrated gradients."""
        served = service.find(request.model, "explain")
        examples = [example(each) for each in listed(request.inputs)]
        async with service.engine.deadline():
            return respond([await _explain(service, served, each) for each in examples])


async def _explain(service: Service, served: ServedModel, asked: LabelledText) -> Explanation:
    """Explain a prediction, in turns with all else that is asked."""
    reads = (asked.text, asked.pair)
    (prediction,) = await service.in_windows(served.predictions, [asked], [reads])
    predictor = served.predictor
    assert predictor is not None
    explaining = await service.engine.run(lambda: Explaining.begin(predictor, asked, prediction))
    for steps in STEPS:
        (found,) = await service.in_windows(IntegratedGradients(steps), [explaining.line], [reads * steps])
        if found.has_converged:
            break
    return explaining.explanation(found, steps)


def _answered(prediction: SpanPrediction, n_best: int, threshold: float | None) -> dict[str, Any]:
    answer = _candidate(prediction.answer)
    return {
        "answer": answer.pop("text"),
        **answer,
        "candidates": [_candidate(each) for each in prediction.candidates[:n_best]],
        "null_odds": prediction.null_odds,
        "null_threshold": threshold,
    }


def _candidate(answer: Answer) -> dict[str, Any]:
    place = answer.excerpt
    return {
        "text": answer.text,
        "start": None if place is None else place.start,
        "end": None if place is None else place.end,
        "probability": answer.probability,
    }
