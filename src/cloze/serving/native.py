"""The verbs of the server: what a model computes for a request, and cloze's own routes.

Most of these routes are those of text-embeddings-inference, too; `dialects` has the other ways to ask for a verb.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import orjson

from cloze.errors import InputError
from cloze.inference.embedder import Vectors
from cloze.inference.explain import ExplainConfig, Explanation, PendingExplanation
from cloze.inference.pretrained_heads import SentenceScore
from cloze.inference.text_predictors import span_questions
from cloze.serving.batcher import Batcher
from cloze.serving.limits import MAX_CANDIDATES
from cloze.serving.routes import Route, as_list, count_truncated, estimate_tokens, run_predictions
from cloze.serving.schema import (
    AnswerParameters,
    AnswerRequest,
    ChoiceOutput,
    ChooseRequest,
    ClassificationParameters,
    DecodeRequest,
    EmbeddingOptions,
    EmbeddingRequest,
    EmbedRequest,
    ExplainRequest,
    FillParameters,
    FillRequest,
    NextSentenceRequest,
    PredictRequest,
    RankingRequest,
    RerankRequest,
    SimilarityRequest,
    TagRequest,
    TextsRequest,
    Token,
    TokenizeRequest,
    is_blank,
)
from cloze.serving.served_model import EmbeddedText, EmbeddingInput, ServedModel
from cloze.serving.windowed_inference import (
    FillInput,
    WindowedCandidates,
    WindowedEntities,
    WindowedGradients,
    WindowedLogits,
    WindowedPredictions,
    WindowedSentenceScores,
)
from cloze.tasks.arrays import normalize, sigmoid, softmax
from cloze.tasks.span_decoding import SpanPrediction
from cloze.tasks.tag_predictions import PredictedEntity
from cloze.tasks.texts import ChoiceQuestion, LabeledText


class Embedded(NamedTuple):
    """The vector of each text, [N, D], and the number of tokens that were read."""

    vectors: Vectors
    num_tokens: int


async def embed(served: ServedModel, request: EmbedRequest, batcher: Batcher) -> Embedded:
    """Return a vector for each text or list of token ids."""
    dimensions, width = request.dimensions, served.embedder.width
    if dimensions is not None and dimensions > width:
        what = f"{dimensions} is more than the width of the vectors of {served.name!r}, {width}"
        raise InputError(what, where="dimensions")
    embedded = await _embed(served, request.input_list, batcher, request, served.embed)
    vectors = np.stack([text.vectors for text in embedded])[:, :dimensions]
    if request.normalize is False and served.embedder.normalize:
        what = f"the graph of {served.name!r} scales vectors to length 1"
        raise InputError(what, where="normalize", remedy="Leave it out, or serve the model itself")
    vectors = np.ascontiguousarray(vectors) if request.normalize is False else normalize(vectors)
    return Embedded(vectors, sum(text.num_tokens for text in embedded))


async def embed_all(served: ServedModel, request: EmbeddingRequest, batcher: Batcher) -> list[Vectors]:
    """Return a vector for each token of each text, [CLS] and [SEP] included."""
    embedded = await _embed(served, request.input_list, batcher, request, served.embed_tokens)
    return [text.vectors for text in embedded]


async def similarity(served: ServedModel, request: SimilarityRequest, batcher: Batcher) -> Vectors:
    """Return the cosine of the text's vector and that of each sentence."""
    texts: list[str | list[int]] = [request.inputs.source_sentence, *request.inputs.sentences]
    options = request.parameters or EmbeddingOptions()
    embedded = await _embed(served, texts, batcher, options, served.embed)
    vectors = normalize(np.stack([text.vectors for text in embedded]))
    cosines: Vectors = vectors[1:] @ vectors[0]
    return cosines


async def _embed(
    served: ServedModel,
    values: list[str | list[int]],
    batcher: Batcher,
    options: EmbeddingOptions,
    embed: Callable[[list[EmbeddingInput]], list[EmbeddedText]],
) -> list[EmbeddedText]:
    prompt, side = served.prompt(options.prompt_name), options.truncation_side
    truncates = options.truncate is not False
    inputs = [EmbeddingInput(value, prompt, side, truncates=truncates) for value in values]
    embedded = await batcher.run_batched(embed, inputs, tokens=list(map(estimate_tokens, values)))
    count_truncated(text.is_truncated for text in embedded)
    return embedded


async def tokenize(served: ServedModel, request: TokenizeRequest, batcher: Batcher) -> list[orjson.Fragment]:
    """Return the tokens of each text."""
    tokenizer, special_ids = served.tokenizer, served.tokenizer.special_ids
    prompt = served.prompt(request.prompt_name) if request.prompt_name is not None else ""
    texts = [prompt + text for text in as_list(request.inputs)]
    ends = slice(None) if request.add_special_tokens is not False else slice(1, -1)

    def to_json(text: str) -> orjson.Fragment:  # which takes less memory
        encoding = tokenizer.encode(text)
        columns = encoding.input_ids, encoding.tokens, encoding.sequence_ids, encoding.offsets
        rows = [
            {
                "id": token_id,
                "text": token,
                "special": token_id in special_ids,
                "start": None if sequence is None else start,
                "stop": None if sequence is None else stop,
            }
            for token_id, token, sequence, (start, stop) in list(zip(*columns, strict=True))[ends]
        ]
        return orjson.Fragment(orjson.dumps(rows))

    tokens = list(map(estimate_tokens, texts))
    return await batcher.run_batched(lambda texts: list(map(to_json, texts)), texts, tokens=tokens)


async def decode(served: ServedModel, request: DecodeRequest, batcher: Batcher) -> list[str]:
    """Return the text of each list of token ids."""
    tokenizer, ids = served.tokenizer, request.ids
    lists: Any = ids if isinstance(ids[0], list) else [ids]
    skipped = tokenizer.special_ids if request.skip_special_tokens is not False else frozenset()

    def decode_all(lists: list[list[int]]) -> list[str]:
        if max(map(max, lists)) >= tokenizer.vocab_size:
            raise InputError(f"an id is not in 0..{tokenizer.vocab_size - 1}", where="ids")
        return [tokenizer.decode([i for i in ids if i not in skipped]) for ids in lists]

    return await batcher.run_batched(decode_all, lists, tokens=list(map(estimate_tokens, lists)))


async def predict(
    served: ServedModel, request: PredictRequest, batcher: Batcher
) -> list[list[tuple[str, float]]]:
    """Return the labels of each text or pair with their probabilities, the most probable first, or its score."""
    parameters = request.parameters or ClassificationParameters()
    function = parameters.function_to_apply
    if request.raw_scores and function not in (None, "none"):
        what = f"raw_scores and function_to_apply {function!r} exclude each other"
        raise InputError(what, where="parameters")
    rows = await _scores(served, request.input_list, batcher, request, function=function)
    limits = [n for n in (request.top_k, parameters.top_k, batcher.limits.classes) if n is not None]
    labels = served.labels[-len(rows[0]) :]  # a ranker of two classes has one score, of the second
    ranked = (sorted(zip(labels, row, strict=True), key=lambda item: -item[1]) for row in rows)
    return [row[: min(limits, default=None)] for row in ranked]


async def rank(served: ServedModel, request: RerankRequest, batcher: Batcher) -> list[tuple[int, float]]:
    """Return the indices and scores of the `top_n` best passages, the best first."""
    pairs = [[request.query, text] for text in request.texts or []]
    scores = [row[0] for row in await _scores(served, pairs, batcher, request)]
    return sorted(enumerate(scores), key=lambda entry: -entry[1])[: request.top_n]


async def _scores(
    served: ServedModel,
    inputs: list[Any],
    batcher: Batcher,
    request: PredictRequest | RankingRequest,
    *,
    function: Literal["sigmoid", "softmax", "none"] | None = None,
) -> list[list[float]]:
    """Return the scores of each text or pair in the order of the model's classes: probabilities, or logits."""
    examples = text_examples(inputs)
    tokens = [estimate_tokens(example.text, example.pair) for example in examples]
    if request.truncate is False:
        await batcher.run_batched(served.check_example_lengths, examples, tokens=tokens)
    returns_logits = request.raw_scores or function is not None
    compute = WindowedLogits if returns_logits else WindowedPredictions
    computation = compute(served.finetuned, request.truncation_side)
    predictions = await run_predictions(computation, examples, batcher, tokens=tokens)
    if returns_logits:
        functions = {"sigmoid": sigmoid, "softmax": softmax}
        scores = functions.get(function or "none")
        return predictions if scores is None else [scores(row).tolist() for row in predictions]
    return [
        [prediction] if isinstance(prediction, float) else list(prediction.probabilities.values())
        for prediction in predictions
    ]


def text_examples(inputs: Sequence[str | list[str]]) -> list[LabeledText]:
    """Return texts and pairs of texts as unlabeled examples; refuse an input without a text."""
    pairs = [as_list(texts) for texts in inputs]
    for number, texts in enumerate(pairs):
        if all(map(is_blank, texts)):
            where = f"inputs[{number}]" if len(pairs) > 1 else "inputs"
            raise InputError("the text is empty", where=where, remedy="Give a text")
    return [LabeledText(*texts) for texts in pairs]


Masks: TypeAlias = list[list[tuple[int, float]]]
"""The ids and the probabilities of the best tokens for each [MASK] of a text."""


async def fill(served: ServedModel, request: FillRequest, batcher: Batcher) -> list[Masks]:
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
    return await batcher.run_windowed(
        WindowedCandidates(served), inputs, tokens=list(map(estimate_tokens, texts))
    )


async def likelihood(served: ServedModel, request: TextsRequest, batcher: Batcher) -> list[SentenceScore]:
    """Return how probable each sentence is: the sum of the log probabilities of its tokens, each masked in turn."""
    texts = as_list(request.inputs)
    tokens = [estimate_tokens(text) ** 2 for text in texts]  # a copy of the sentence for each token
    computation = WindowedSentenceScores(served.sentence_scorer)
    return await batcher.run_windowed(computation, list(enumerate(texts)), tokens=tokens)


async def next_sentence(served: ServedModel, request: NextSentenceRequest, batcher: Batcher) -> list[float]:
    """Return the probability that the second sentence of each pair follows the first."""
    inputs: Any = request.inputs
    pairs = [(a, b) for a, b in ([inputs] if isinstance(inputs[0], str) else inputs)]
    tokens = [estimate_tokens(*pair) for pair in pairs]
    assert served.next_sentence is not None
    return await batcher.run_batched(served.next_sentence.probabilities, pairs, tokens=tokens)


async def tag(served: ServedModel, request: TagRequest, batcher: Batcher) -> list[list[PredictedEntity]]:
    """Return the entities of each text, of any length, with their character offsets."""
    texts = as_list(request.inputs)
    computation = WindowedEntities(served.finetuned)
    return await run_predictions(computation, texts, batcher, tokens=list(map(estimate_tokens, texts)))


async def answer(served: ServedModel, request: AnswerRequest, batcher: Batcher) -> list[SpanPrediction]:
    """Return the answer to each question, with its character offsets, candidates, and the score of "no answer"."""
    inputs = [(asked.question, asked.context) for asked in as_list(request.inputs)]
    parameters, predictor = request.parameters or AnswerParameters(), served.finetuned
    settings = {
        "max_answer_length": parameters.max_answer_len,
        "max_query_length": parameters.max_question_len,
    }
    limit, task = predictor.max_seq_length, predictor.task.with_settings(settings)
    predictor = replace(predictor, task=task, max_seq_length=min(parameters.max_seq_len or limit, limit))
    tokens = [estimate_tokens(*texts) for texts in inputs]
    return await run_predictions(
        WindowedPredictions(predictor), span_questions(inputs), batcher, tokens=tokens
    )


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


_RIVER, _FILM = {"inputs": "The river has burst its bank."}, {"inputs": "A film to remember."}
_ROSE, _BURST = {"inputs": "The river rose."}, {"inputs": "The river has burst."}
_SENTENCES = {"source_sentence": "The river rose.", "sentences": ["The water was high.", "The bank closed."]}
_PAIR = {"inputs": ["He went to the shop.", "It was closed."]}
_CHOICE = {"inputs": {"prompt": "She opened the door and", "choices": ["went in.", "was a Tuesday."]}}
ROUTES = (
    Route("/embed_all", "embed", embed_all, EmbeddingRequest, list[list[list[float]]], _RIVER),
    Route("/similarity", "embed", similarity, SimilarityRequest, list[float], {"inputs": _SENTENCES}),
    Route("/tokenize", "tokenize", tokenize, TokenizeRequest, list[list[Token]], _BURST),
    Route("/decode", "tokenize", decode, DecodeRequest, list[str], {"ids": [2, 8, 9, 3]}),
    Route("/likelihood", "fill", likelihood, TextsRequest, list[SentenceScore], _ROSE),
    Route("/next-sentence", "next-sentence", next_sentence, NextSentenceRequest, list[float], _PAIR),
    Route("/choose", "choose", choose, ChooseRequest, list[ChoiceOutput], _CHOICE),
    Route("/explain", "explain", explain, ExplainRequest, list[Explanation], _FILM),
)
