"""Routes of cloze alone: masked words, next sentence, entities, answers, choices, explanations."""

from typing import Annotated, Any, Literal

from pydantic import Field

from cloze.errors import InputError
from cloze.inference.explain import ExplainConfig, Explanation, PendingExplanation
from cloze.inference.fill_mask import Candidate
from cloze.inference.sentence_scorer import SentenceScore
from cloze.inference.text_predictors import span_questions
from cloze.serving.batcher import Batcher
from cloze.serving.limits import MAX_CANDIDATES
from cloze.serving.pipelines import (
    AnswerParameters,
    FilledMask,
    FillParameters,
    PipelineAnswer,
    TaggedEntity,
    TagParameters,
    filled_masks,
    pipeline_answers,
    tagged_entities,
    with_parameters,
)
from cloze.serving.routes import (
    Route,
    as_list,
    estimate_tokens,
    run_predictions,
    text_examples,
)
from cloze.serving.schema import (
    BatchLimit,
    Many,
    ModelRequest,
    NonBlankText,
    ResponseModel,
    StrictModel,
    Text,
    TextsOrPairsRequest,
    TextsRequest,
)
from cloze.serving.served_model import ServedModel
from cloze.serving.windowed_inference import (
    FillInput,
    WindowedCandidates,
    WindowedEntities,
    WindowedGradients,
    WindowedPredictions,
    WindowedSentenceScores,
)
from cloze.tasks.span_decoding import Answer
from cloze.tasks.tag_predictions import PredictedEntity
from cloze.tasks.texts import ChoiceQuestion, LabeledText


class FillRequest(TextsRequest):
    """Texts with [MASK] tokens."""

    top_k: int = Field(default=5, ge=1, le=1000)
    """Number of candidates for each [MASK]."""
    long_texts: Literal["windows"] | None = None
    """Read as much of a text as fits around each [MASK]; null refuses one that is too long."""
    parameters: FillParameters | None = None
    """Parameters of Hugging Face's pipelines; a request with them gets the response of a pipeline."""


async def fill(served: ServedModel, request: FillRequest, batcher: Batcher) -> list[Any]:
    """Return the most probable tokens for each [MASK] of each text."""
    texts, parameters = as_list(request.inputs), request.parameters or FillParameters()
    top_k = parameters.top_k or request.top_k
    mask = served.tokenizer.special_token("mask")
    candidates = top_k * sum(text.count(mask) for text in texts)
    if candidates > MAX_CANDIDATES:
        what = f"{candidates:,} candidates requested, at most {MAX_CANDIDATES:,} are returned"
        raise InputError(what, where="inputs", remedy="Ask for fewer texts, [MASK]s or a lower top_k")
    targets = None if parameters.targets is None else tuple(parameters.targets)
    inputs = [FillInput(text, top_k, request.long_texts, targets) for text in texts]
    tokens = list(map(estimate_tokens, texts))
    filled = await batcher.run_windowed(WindowedCandidates(served), inputs, tokens=tokens)
    if request.parameters is None:
        text_of = served.tokenizer.text_of
        return [[[Candidate(text_of(i), p) for i, p in mask] for mask in masks] for masks in filled]
    of_texts = [
        filled_masks(served.tokenizer, text, masks) for text, masks in zip(texts, filled, strict=True)
    ]
    return of_texts[0] if isinstance(request.inputs, str) else of_texts


async def likelihood(served: ServedModel, request: TextsRequest, batcher: Batcher) -> list[SentenceScore]:
    """Return how probable each sentence is: the sum of the log probabilities of its tokens, each masked in turn."""
    texts = as_list(request.inputs)
    tokens = [estimate_tokens(text) ** 2 for text in texts]  # a copy of the sentence for each token
    computation = WindowedSentenceScores(served.sentence_scorer)
    return await batcher.run_windowed(computation, list(enumerate(texts)), tokens=tokens)


Pair = Annotated[list[NonBlankText], Field(min_length=2, max_length=2)]


class NextSentenceRequest(ModelRequest):
    """Pairs of sentences."""

    inputs: Pair | Many[Pair]
    """Two sentences, or a list of such pairs."""


async def next_sentence(served: ServedModel, request: NextSentenceRequest, batcher: Batcher) -> list[float]:
    """Return the probability that the second sentence of each pair follows the first."""
    inputs: Any = request.inputs
    pairs = [(a, b) for a, b in ([inputs] if isinstance(inputs[0], str) else inputs)]
    tokens = [estimate_tokens(*pair) for pair in pairs]
    assert served.next_sentence is not None
    return await batcher.run_batched(served.next_sentence.probabilities, pairs, tokens=tokens)


class TagRequest(TextsRequest):
    """Texts whose entities to find."""

    parameters: TagParameters | None = None
    """Parameters of Hugging Face's pipelines; a request with them gets the response of a pipeline."""


async def tag(served: ServedModel, request: TagRequest, batcher: Batcher) -> list[Any]:
    """Return the entities of each text, of any length, with their character offsets."""
    texts, parameters = as_list(request.inputs), request.parameters
    tokens = [estimate_tokens(text) for text in texts]
    predicted = await run_predictions(WindowedEntities(served.finetuned), texts, batcher, tokens=tokens)
    if parameters is None:
        return predicted
    of_texts = [tagged_entities(entities, parameters) for entities in predicted]
    return of_texts[0] if isinstance(request.inputs, str) else of_texts


class QuestionInput(StrictModel):
    """A question, and a text of any length that may contain the answer."""

    question: NonBlankText
    """The question."""
    context: Text
    """The text that may contain the answer."""


class AnswerRequest(ModelRequest):
    """Questions."""

    inputs: QuestionInput | Many[QuestionInput]
    """A question, or a list."""
    n_best: int = Field(default=20, ge=1, le=20)
    """Maximum number of candidates."""
    parameters: AnswerParameters | None = None
    """Parameters of Hugging Face's pipelines; a request with them gets the response of a pipeline."""


class AnswerCandidate(ResponseModel):
    """A possible answer; empty and without offsets for "no answer"."""

    text: str
    """The answer."""
    start: int | None
    """Its first character in the context."""
    end: int | None
    """The character after its last."""
    probability: float
    """A softmax over the candidates."""


class AnsweredQuestion(ResponseModel):
    """The answer, and the candidates it was chosen from.

    `null_odds` is the score of "no answer" minus that of the best answer; above `null_threshold` the answer is empty.
    Both are null for models that always answer.
    """

    answer: str
    """The answer; empty if the model finds no answer."""
    start: int | None
    """Its first character in the context."""
    end: int | None
    """The character after its last."""
    probability: float
    """A softmax over the candidates."""
    candidates: list[AnswerCandidate]
    """The best answers, the best first."""
    null_odds: float | None = None
    """The score of "no answer" minus that of the best answer; null if the model always answers."""
    null_threshold: float | None = None
    """Above these odds the answer is empty; null if the model always answers."""


async def answer(served: ServedModel, request: AnswerRequest, batcher: Batcher) -> Any:
    """Return the answer to each question, with its character offsets, candidates, and the score of "no answer"."""
    inputs = [(asked.question, asked.context) for asked in as_list(request.inputs)]
    tokens = [estimate_tokens(*texts) for texts in inputs]
    parameters = request.parameters
    predictor = served.finetuned if parameters is None else with_parameters(served.finetuned, parameters)
    computation = WindowedPredictions(predictor)
    predictions = await run_predictions(computation, span_questions(inputs), batcher, tokens=tokens)
    if parameters is not None:
        of_questions = [pipeline_answers(prediction, parameters) for prediction in predictions]
        return of_questions if isinstance(request.inputs, list) else of_questions[0]
    threshold = predictor.task.settings.get("null_threshold")
    answers = []
    for prediction in predictions:
        best = _candidate_to_json(prediction)
        candidates = [_candidate_to_json(candidate) for candidate in prediction.candidates[: request.n_best]]
        answers.append(
            {
                "answer": best.pop("text"),
                **best,
                "candidates": candidates,
                "null_odds": prediction.null_odds,
                "null_threshold": threshold,
            }
        )
    return answers


def _candidate_to_json(candidate: Answer) -> dict[str, Any]:
    return {name: getattr(candidate, name) for name in ("text", "start", "end", "probability")}


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


async def choose(served: ServedModel, request: ChooseRequest, batcher: Batcher) -> list[dict[str, Any]]:
    """Return the most probable continuation of each beginning."""
    inputs = as_list(request.inputs)
    examples = [
        ChoiceQuestion(question.prompt, tuple(question.choices), None, "inputs") for question in inputs
    ]
    tokens = [
        sum(estimate_tokens(question.prompt, choice) for choice in question.choices) for question in inputs
    ]
    computation = WindowedPredictions(served.finetuned)
    predictions = await run_predictions(computation, examples, batcher, tokens=tokens)
    return list(map(served.task.answer.to_json, examples, predictions))


class ExplainRequest(TextsOrPairsRequest):
    """Texts or pairs whose classification is explained."""

    label: str | None = None
    """The label whose logit is explained; by default the most probable one of each text."""


async def explain(
    served: ServedModel,
    request: ExplainRequest,
    batcher: Batcher,
    config: ExplainConfig = ExplainConfig(),  # noqa: B008 (frozen)
) -> list[Explanation]:
    """Return each word's contribution to the prediction, by integrated gradients."""
    examples = text_examples(request.input_list)
    return [await _explain_one(served, example, batcher, config, request.label) for example in examples]


async def _explain_one(
    served: ServedModel, example: LabeledText, batcher: Batcher, config: ExplainConfig, label: str | None
) -> Explanation:
    predictor, tokens = served.finetuned, estimate_tokens(example.text, example.pair)
    computation = WindowedPredictions(predictor)
    (prediction,) = await run_predictions(computation, [example], batcher, tokens=[tokens])
    pending = await batcher.run(
        lambda: PendingExplanation.begin(predictor, example, prediction, label), tokens=tokens
    )
    for steps in config.steps:
        gradients = WindowedGradients(steps, config.max_tokens)
        (attributions,) = await batcher.run_windowed(gradients, [pending.path], tokens=[tokens * steps])
        if attributions.has_converged(config.max_gap):
            break
    return pending.finish(attributions, steps)


ROUTES = (
    Route(
        "/fill",
        "fill",
        fill,
        FillRequest,
        list[list[list[Candidate]]]
        | list[FilledMask]
        | list[list[FilledMask]]
        | list[list[list[FilledMask]]],
        example={"inputs": "The capital of France is [MASK].", "top_k": 3},
    ),
    Route(
        "/likelihood",
        "fill",
        likelihood,
        TextsRequest,
        list[SentenceScore],
        example={"inputs": "The river rose."},
    ),
    Route(
        "/next-sentence",
        "next-sentence",
        next_sentence,
        NextSentenceRequest,
        list[float],
        example={"inputs": ["He went to the shop.", "It was closed."]},
    ),
    Route(
        "/tag",
        "tag",
        tag,
        TagRequest,
        list[list[PredictedEntity]] | list[TaggedEntity] | list[list[TaggedEntity]],
        example={"inputs": "Ada Lovelace was born in London."},
    ),
    Route(
        "/answer",
        "answer",
        answer,
        AnswerRequest,
        list[AnsweredQuestion] | PipelineAnswer | list[PipelineAnswer] | list[list[PipelineAnswer]],
        example={
            "inputs": {"question": "Where was she born?", "context": "Ada Lovelace was born in London."}
        },
    ),
    Route(
        "/choose",
        "choose",
        choose,
        ChooseRequest,
        list[ChoiceOutput],
        example={"inputs": {"prompt": "She opened the door and", "choices": ["went in.", "was a Tuesday."]}},
    ),
    Route(
        "/explain",
        "explain",
        explain,
        ExplainRequest,
        list[Explanation],
        example={"inputs": "A film to remember."},
    ),
)
