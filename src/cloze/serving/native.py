"""The verbs of the server: what a model computes for a request, and cloze's own routes.

Most of these routes are those of text-embeddings-inference, too; `dialects` has the other ways to ask for a verb.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, groupby, starmap
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import orjson
from starlette.exceptions import HTTPException

from cloze.errors import InputError
from cloze.inference.embedder import Vectors
from cloze.inference.explain import ExplainConfig, Explanation, PendingExplanation
from cloze.inference.predictor import Predictor
from cloze.inference.pretrained_heads import MaskedCopy, SentenceScore
from cloze.inference.search import MAX_RERANKED, Hit
from cloze.inference.text_predictors import span_questions
from cloze.serving.limits import FEW_INPUTS, MAX_CANDIDATES
from cloze.serving.queue import Kernel, Queue, Request, current_request
from cloze.serving.routes import Route, as_list, estimate_tokens
from cloze.serving.schema import (
    AnswerParameters,
    AnswerRequest,
    ChoiceOutput,
    ChooseRequest,
    ClassificationParameters,
    DecodeRequest,
    DocumentsRequest,
    EmbeddingOptions,
    EmbeddingRequest,
    EmbedRequest,
    ExplainRequest,
    FillParameters,
    FillRequest,
    NextSentenceRequest,
    PredictRequest,
    SearchRequest,
    SimilarityRequest,
    TagRequest,
    TextsRequest,
    Token,
    TokenizeRequest,
    is_blank,
)
from cloze.serving.served_model import ABILITIES, EmbeddingInput, FillWindow, ServedModel
from cloze.tasks.answers.span import SpanPrediction
from cloze.tasks.answers.tags import PredictedEntity
from cloze.tasks.arrays import normalize, sigmoid, softmax
from cloze.tasks.features import TextFeature, encode_text
from cloze.tasks.texts import ChoiceQuestion, LabeledText
from cloze.tokenization.tokenizer import Encoding


async def run_windows(
    queue: Queue,
    inputs: Sequence[Any],
    split: Kernel,
    kernel: Kernel,
    join: Callable[..., Any] | None = None,
    *,
    sizes: Sequence[int] | None = None,
    tokens_of: Callable[[Any], int] = attrgetter("num_tokens"),
    max_tokens: int | None = None,
) -> list[Any]:
    """Return the output of a model for each input, read and computed in windows; count the truncated inputs.

    Args:
        split: returns the windows of each input.
        kernel: returns the output of each window.
        join: returns the output of an input, from it, its windows and theirs; None returns that of its one window.
        sizes: estimated tokens of each input. A batch of them is split at once, so that few windows are in memory.
        tokens_of: returns the tokens of a window.
        max_tokens: of more than a few inputs; None is what may wait in the queue.
    """
    outputs: list[Any] = []
    sizes = list(map(estimate_tokens, inputs)) if sizes is None else sizes
    limit = queue.limits.waiting_tokens if max_tokens is None else max_tokens
    if len(inputs) > FEW_INPUTS and sum(sizes) > limit:
        what = f"{len(inputs):,} inputs of about {sum(sizes):,} tokens, more than {limit:,}. Send several requests."
        raise HTTPException(413, what)
    numbered = zip(accumulate(sizes, initial=0), sizes, inputs)  # noqa: B905 (a sum more)
    for _, group in groupby(numbered, lambda row: row[0] // queue.limits.batch_tokens):
        _, tokens, part = zip(*group, strict=True)
        windows = await queue.convert(split, part, tokens)
        computed = await queue.compute(kernel, windows, tokens_of)
        if join is None:
            outputs += [output for (output,) in computed]
        else:
            rows = list(zip(part, windows, computed, strict=True))
            outputs += await queue.convert(lambda rows: list(starmap(join, rows)), rows, tokens)
        current_request.get(Request()).truncated_texts += sum(
            any(getattr(window, "is_truncated", False) for window in group) for group in windows
        )
    return outputs


async def run_predictor(
    served: ServedModel,
    queue: Queue,
    examples: Sequence[Any],
    read: Callable[[Any], list[Any]] | None = None,
    decode: Callable[..., Any] | None = None,
) -> list[Any]:
    """Return the prediction for each example, or what `decode` returns for it, its features and their outputs."""
    predictor = served.predictor
    features, join = read or predictor.features, decode or predictor.task.answer.decode

    def split(examples: list[Any]) -> list[list[Any]]:
        return list(map(features, examples))

    return await run_windows(queue, examples, split, predictor.outputs, join)


class Embedded(NamedTuple):
    """The vector of each text, [N, D], and the number of tokens that were read."""

    vectors: Vectors
    num_tokens: int


async def embed(served: ServedModel, request: EmbedRequest, queue: Queue) -> Embedded:
    """Return a vector for each text or list of token ids."""
    dimensions, width = request.dimensions, served.embedder.width
    if dimensions is not None and dimensions > width:
        what = f"{dimensions} is more than the width of the vectors of {served.name!r}, {width}"
        raise InputError(what, where="dimensions")
    rows = await _embed(served, request.input_list, queue, request, served.embed)
    vectors = np.stack([vector for vector, _ in rows])[:, :dimensions]
    if request.normalize is False and served.embedder.output.normalize:
        what = f"the graph of {served.name!r} scales vectors to length 1"
        raise InputError(what, where="normalize", remedy="Leave it out, or serve the model itself")
    vectors = np.ascontiguousarray(vectors) if request.normalize is False else normalize(vectors)
    return Embedded(vectors, sum(num_tokens for _, num_tokens in rows))


async def embed_all(served: ServedModel, request: EmbeddingRequest, queue: Queue) -> list[Vectors]:
    """Return a vector for each token of each text, [CLS] and [SEP] included."""
    limit = FEW_INPUTS * served.embedder.max_seq_length  # each token has a vector in the response
    return await _embed(served, request.input_list, queue, request, served.embed_tokens, limit)


async def similarity(served: ServedModel, request: SimilarityRequest, queue: Queue) -> Vectors:
    """Return the cosine of the text's vector and that of each sentence."""
    texts: list[str | list[int]] = [request.inputs.source_sentence, *request.inputs.sentences]
    rows = await _embed(served, texts, queue, request.parameters or EmbeddingOptions(), served.embed)
    vectors = normalize(np.stack([vector for vector, _ in rows]))
    cosines: Vectors = vectors[1:] @ vectors[0]
    return cosines


async def search(served: ServedModel, request: SearchRequest, queue: Queue) -> list[Hit]:
    """Return the passages of the server's documents that are nearest to a question."""
    index, ranker, top_k = served.index, served.ranker, request.top_k
    assert index is not None
    if request.rerank and ranker is None:
        raise InputError("no ranker is served", where="rerank", remedy=ABILITIES["rerank"][1])
    inputs = [EmbeddingInput(request.query, index.prompt)]
    [(vector, _)] = await run_windows(queue, inputs, served.token_ids, served.embed)
    nearest = functools.partial(index.nearest, vector, max(top_k, MAX_RERANKED) if request.rerank else top_k)
    hits: list[Hit] = await queue.run(nearest, tokens=0, thread="texts")
    if not request.rerank or ranker is None:
        return hits
    texts = [hit.text for hit in hits]
    # not validated: the limits are for requests of clients
    passages = DocumentsRequest.model_construct(query=request.query, documents=texts, top_n=top_k)
    ranked = await rank(ranker, passages, queue)
    return [replace(hits[i], score=score) for i, score in ranked]


async def _embed(
    served: ServedModel,
    values: list[str | list[int]],
    queue: Queue,
    options: EmbeddingOptions,
    kernel: Kernel,
    max_tokens: int | None = None,
) -> list[Any]:
    prompt, side = served.prompt(options.prompt_name), options.truncation_side
    truncates = options.truncate is not False
    inputs = [EmbeddingInput(value, prompt, side, truncates=truncates) for value in values]
    sizes = list(map(estimate_tokens, values))
    return await run_windows(queue, inputs, served.token_ids, kernel, sizes=sizes, max_tokens=max_tokens)


async def tokenize(served: ServedModel, request: TokenizeRequest, queue: Queue) -> list[orjson.Fragment]:
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
    return await queue.convert(lambda texts: list(map(to_json, texts)), texts, tokens)


async def decode(served: ServedModel, request: DecodeRequest, queue: Queue) -> list[str]:
    """Return the text of each list of token ids."""
    tokenizer, ids = served.tokenizer, request.ids
    lists: Any = ids if isinstance(ids[0], list) else [ids]
    skipped = tokenizer.special_ids if request.skip_special_tokens is not False else frozenset()

    if max(map(max, lists)) >= tokenizer.vocab_size:
        raise InputError(f"an id is not in 0..{tokenizer.vocab_size - 1}", where="ids")

    def to_texts(lists: list[list[int]]) -> list[str]:
        return [tokenizer.decode([i for i in ids if i not in skipped]) for ids in lists]

    return await queue.convert(to_texts, lists, list(map(estimate_tokens, lists)))


async def predict(
    served: ServedModel, request: PredictRequest, queue: Queue
) -> list[list[tuple[str, float]]]:
    """Return the labels of each text or pair with their probabilities, the most probable first, or its score."""
    parameters = request.parameters or ClassificationParameters()
    function = parameters.function_to_apply
    if request.raw_scores and function not in (None, "none"):
        what = f"raw_scores and function_to_apply {function!r} exclude each other"
        raise InputError(what, where="parameters")
    rows = await _scores(served, request.input_list, queue, request, function=function)
    limits = [n for n in (request.top_k, parameters.top_k, queue.limits.top_k) if n is not None]
    ranked = (sorted(zip(served.labels, row, strict=True), key=lambda item: -item[1]) for row in rows)
    return [row[: min(limits, default=None)] for row in ranked]


async def rank(served: ServedModel, request: DocumentsRequest, queue: Queue) -> list[tuple[int, float]]:
    """Return the indices and scores of the `top_n` best passages, the best first."""
    pairs = [[request.query, text] for text in request.passages]
    scores = [row[0] for row in await _scores(served, pairs, queue, request)]
    return sorted(enumerate(scores), key=lambda entry: -entry[1])[: request.top_n]


_FUNCTIONS: Mapping[str | None, Callable[[Any], Any]] = {"sigmoid": sigmoid, "softmax": softmax}


async def _scores(
    served: ServedModel,
    inputs: list[Any],
    queue: Queue,
    request: PredictRequest | DocumentsRequest,
    *,
    function: str | None = None,
) -> list[list[float]]:
    """Return the scores of each text or pair in the order of the model's classes: probabilities, or logits."""
    predictor: Predictor = served.predictor
    returns_logits = request.raw_scores or function is not None
    answer: Any = predictor.task.answer  # of a kind with raw scores

    def read(example: LabeledText) -> list[Any]:
        features, limit = predictor.features(example), predictor.max_seq_length
        if not any(feature.is_truncated for feature in features):
            return features
        texts, side = (example.text, example.pair), request.truncation_side
        if request.truncate is False:
            raise served.too_long(len(served.tokenizer.encode(*texts)), limit)
        if side == "right":
            return features
        options: Any = {"max_seq_length": limit, "long_texts": answer.long_texts, "truncation_side": side}
        return [TextFeature((part,), None) for part in encode_text(served.tokenizer, *texts, **options)]

    def scores(example: LabeledText, features: list[Any], outputs: list[Any]) -> Any:
        if returns_logits:
            logits = answer.raw_scores(outputs)
            return _FUNCTIONS[function](logits).tolist() if function in _FUNCTIONS else logits
        prediction = answer.decode(example, features, outputs)
        return [prediction] if isinstance(prediction, float) else list(prediction.probabilities.values())

    return await run_predictor(served, queue, text_examples(inputs), read, scores)


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


async def fill(served: ServedModel, request: FillRequest, queue: Queue) -> list[Masks]:
    """Return the most probable tokens for each [MASK] of each text."""
    texts, parameters = as_list(request.inputs), request.parameters or FillParameters()
    top_k, fill_mask = parameters.top_k or request.top_k, served.fill_mask
    mask = served.tokenizer.special_token("mask")
    candidates = top_k * sum(text.count(mask) for text in texts)
    if candidates > MAX_CANDIDATES:
        what = f"{candidates:,} candidates requested, at most {MAX_CANDIDATES:,} are returned"
        raise InputError(what, where="inputs", remedy="Ask for fewer texts, [MASK]s or a lower top_k")

    def split(texts: list[str]) -> list[list[FillWindow]]:
        words = parameters.targets
        targets = None if words is None else tuple(_target_id(served, word) for word in words)
        encode, long_texts = served.tokenizer.encode, request.long_texts
        masked = (fill_mask.mask(text, encode(text).input_ids, long_texts=long_texts) for text in texts)
        return [[FillWindow(s.ids, s.positions, top_k, targets) for s in sequences] for sequences in masked]

    def join(_: Any, __: Any, of_windows: list[Masks]) -> Masks:
        return list(chain.from_iterable(of_windows))

    return await run_windows(queue, texts, split, served.fill, join)


def _target_id(served: ServedModel, target: str) -> int:
    tokenizer = served.tokenizer
    ids = tokenizer.encode(target).input_ids[1:-1]
    if len(ids) == 1 and ids[0] != tokenizer.unknown_id:
        return ids[0]
    if target in tokenizer.tokens:  # one that continues a word
        return tokenizer.tokens.index(target)
    what = f"the vocabulary of {served.name!r} has no token {target!r}"
    remedy = "Give words that are one token, see /tokenize"
    raise InputError(what, where="parameters.targets", remedy=remedy)


async def likelihood(served: ServedModel, request: TextsRequest, queue: Queue) -> list[SentenceScore]:
    """Return how probable each sentence is: the sum of the log probabilities of its tokens, each masked in turn."""
    texts, scorer = as_list(request.inputs), served.sentence_scorer

    def split(numbered: list[tuple[int, str]]) -> list[list[MaskedCopy]]:
        return [scorer.masked_copies(text, where=f"inputs[{number}]") for number, text in numbered]

    def join(_: Any, copies: list[MaskedCopy], log_probabilities: list[float]) -> SentenceScore:
        return scorer.join(copies, log_probabilities)

    sizes = [estimate_tokens(text) ** 2 for text in texts]  # a copy of the sentence for each token
    numbered = list(enumerate(texts))
    return await run_windows(queue, numbered, split, scorer.log_probabilities, join, sizes=sizes)


async def next_sentence(served: ServedModel, request: NextSentenceRequest, queue: Queue) -> list[float]:
    """Return the probability that the second sentence of each pair follows the first."""
    inputs: Any = request.inputs
    pairs, head = [inputs] if isinstance(inputs[0], str) else inputs, served.next_sentence

    def split(pairs: list[Any]) -> list[list[Encoding]]:
        return [[encoding] for encoding in head.encode(pairs)]

    return await run_windows(queue, pairs, split, head.probabilities, tokens_of=len)


async def tag(served: ServedModel, request: TagRequest, queue: Queue) -> list[list[PredictedEntity]]:
    """Return the entities of each text, of any length, with their character offsets."""
    predictor: Predictor = served.predictor
    task: Any = predictor.task
    split = functools.cache(task.reader.split)  # into sentences and words

    def read(text: str) -> list[Any]:
        return predictor.features(split(text))

    def entities(text: str, *windows: Any) -> Any:
        return task.answer.entities(split(text), task.answer.decode(split(text), *windows))

    return await run_predictor(served, queue, as_list(request.inputs), read, entities)


async def answer(served: ServedModel, request: AnswerRequest, queue: Queue) -> list[SpanPrediction]:
    """Return the answer to each question, with its character offsets, candidates, and the score of "no answer"."""
    inputs = [(asked.question, asked.context) for asked in as_list(request.inputs)]
    parameters, predictor = request.parameters or AnswerParameters(), served.predictor
    settings = {
        "max_answer_length": parameters.max_answer_len,
        "max_query_length": parameters.max_question_len,
    }
    limit, task = predictor.max_seq_length, predictor.task.with_settings(settings)
    reader = replace(predictor, task=task, max_seq_length=min(parameters.max_seq_len or limit, limit))
    return await run_predictor(served, queue, span_questions(inputs), reader.features, task.answer.decode)


async def choose(served: ServedModel, request: ChooseRequest, queue: Queue) -> list[dict[str, Any]]:
    """Return the most probable continuation of each beginning."""
    examples = [
        ChoiceQuestion(question.prompt, tuple(question.choices), None, "inputs")
        for question in as_list(request.inputs)
    ]
    predictions = await run_predictor(served, queue, examples)
    return list(map(served.task.answer.to_json, examples, predictions))


async def explain(
    served: ServedModel,
    request: ExplainRequest,
    queue: Queue,
    config: ExplainConfig = ExplainConfig(),  # noqa: B008 (frozen)
) -> list[Explanation]:
    """Return each word's contribution to the prediction, by integrated gradients."""
    examples = text_examples(request.input_list)
    return [await _explain_one(served, example, queue, config, request.label) for example in examples]


async def _explain_one(
    served: ServedModel, example: LabeledText, queue: Queue, config: ExplainConfig, label: str | None
) -> Explanation:
    (prediction,) = await run_predictor(served, queue, [example])
    begin = functools.partial(PendingExplanation.begin, served.predictor, example, prediction, label)
    pending: PendingExplanation = await queue.run(begin, tokens=estimate_tokens(example), thread="texts")
    length = len(pending.encoding)

    def gradients(points: list[Any]) -> list[Any]:
        return list(map(pending.gradient, points))

    for steps in config.steps:
        points = functools.partial(pending.points, steps, config.max_tokens)
        groups = await queue.run(points, tokens=0, thread="texts")  # 0.1 s of linear algebra for 512
        (computed,) = await queue.compute(
            gradients, [groups], lambda group: length * len(group[0]), changes_model=True
        )
        sum_up = functools.partial(pending.attributions, computed)
        attributions = await queue.run(sum_up, tokens=2 * length)
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
    Route("/search", "search", search, SearchRequest, list[Hit], {"query": "How high is the river?"}),
    Route("/tokenize", "tokenize", tokenize, TokenizeRequest, list[list[Token]], _BURST),
    Route("/decode", "tokenize", decode, DecodeRequest, list[str], {"ids": [2, 8, 9, 3]}),
    Route("/likelihood", "fill", likelihood, TextsRequest, list[SentenceScore], _ROSE),
    Route("/next-sentence", "next-sentence", next_sentence, NextSentenceRequest, list[float], _PAIR),
    Route("/choose", "choose", choose, ChooseRequest, list[ChoiceOutput], _CHOICE),
    Route("/explain", "explain", explain, ExplainRequest, list[Explanation], _FILM),
)
