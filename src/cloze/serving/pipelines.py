"""Parameters and responses of Hugging Face's pipelines, which `huggingface_hub.InferenceClient` sends and reads.

A request without `parameters` gets the response of cloze. Unsupported parameters are refused.

Source: huggingface_hub 1.31 inference/_generated/types; transformers pipelines.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from cloze.inference.predictor import Predictor
from cloze.serving.schema import ResponseModel, StrictModel, Text, Texts
from cloze.tasks.span_decoding import SpanPrediction
from cloze.tasks.tag_predictions import PredictedEntity
from cloze.tokenization.tokenizer import Tokenizer


class ClassificationParameters(StrictModel):
    """Parameters of `InferenceClient.text_classification`."""

    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = None
    """The function from logits to scores; by default that of the model's files."""
    top_k: int | None = Field(default=None, ge=1)
    """Maximum number of labels; by default all."""


class FillParameters(StrictModel):
    """Parameters of `InferenceClient.fill_mask`."""

    top_k: int | None = Field(default=None, ge=1, le=1000)
    """Number of candidates for each [MASK]; defaults to the request's top_k."""
    targets: Texts | None = None
    """Tokens to choose from; by default the whole vocabulary."""


class FilledMask(ResponseModel):
    """A candidate, as Hugging Face's pipelines write it."""

    score: float
    """Its probability."""
    token: int
    """Its number in the vocabulary."""
    token_str: str
    """Its text."""
    sequence: str
    """The text with the candidate, without special tokens if there is one [MASK]."""


def filled_masks(tokenizer: Tokenizer, text: str, masks: list[list[tuple[int, float]]]) -> list[Any]:
    """Return the candidates for the [MASK] of a text, or a list for each of several.

    Source: transformers pipelines/fill_mask.py, FillMaskPipeline.postprocess.
    """
    ids = tokenizer.encode(text).input_ids
    places = [place for place, token_id in enumerate(ids) if token_id == tokenizer.mask_id]
    skipped = tokenizer.special_ids if len(places) == 1 else frozenset()

    def element(place: int, token_id: int, score: float) -> dict[str, Any]:
        filled = (*ids[:place], token_id, *ids[place + 1 :])
        sequence = tokenizer.decode([shown for shown in filled if shown not in skipped])
        return {
            "score": score,
            "token": token_id,
            "token_str": tokenizer.decode([token_id]),
            "sequence": sequence,
        }

    rows = [
        [element(place, *candidate) for candidate in mask] for place, mask in zip(places, masks, strict=True)
    ]
    return rows[0] if len(rows) == 1 else rows


class TagParameters(StrictModel):
    """Parameters of `InferenceClient.token_classification`."""

    aggregation_strategy: Literal["simple", "first"] | None = None
    """Both are the same here: a word has the tag of its first token, and the words of an entity are joined."""
    ignore_labels: list[Text] | None = None
    """Types of entities to leave out."""


class TaggedEntity(ResponseModel):
    """An entity, as Hugging Face's pipelines write it."""

    entity_group: str
    """Its type."""
    score: float
    """Product of the probabilities of its words' tags."""
    word: str
    """Its text."""
    start: int
    """Its first character."""
    end: int
    """The character after its last."""


def tagged_entities(predicted: Sequence[PredictedEntity], parameters: TagParameters) -> list[dict[str, Any]]:
    """Return the entities of a text."""
    return [
        {
            "entity_group": entity.type,
            "score": entity.probability,
            "word": entity.text,
            "start": entity.start,
            "end": entity.end,
        }
        for entity in predicted
        if entity.type not in (parameters.ignore_labels or ())
    ]


class AnswerParameters(StrictModel):
    """Parameters of `InferenceClient.question_answering`."""

    top_k: int | None = Field(default=None, ge=1, le=20)
    """Maximum number of answers; more than one are a list."""
    handle_impossible_answer: bool | None = None
    """Whether the answer may be empty, if the model was trained with unanswerable questions."""
    max_answer_len: int | None = Field(default=None, ge=1)
    """Maximum number of tokens of an answer; by default the model's."""
    max_question_len: int | None = Field(default=None, ge=1)
    """Maximum number of tokens of a question, which is truncated; by default the model's."""
    max_seq_len: int | None = Field(default=None, ge=8)
    """Maximum number of tokens of a window with its question; by default the model's."""
    align_to_words: Literal[True] | None = None
    """Answers are whole words."""


class PipelineAnswer(ResponseModel):
    """An answer, as Hugging Face's pipelines write it; empty, from 0 to 0, for "no answer"."""

    answer: str
    """The answer."""
    score: float
    """Its probability."""
    start: int
    """Its first character in the context."""
    end: int
    """The character after its last."""


def with_parameters(predictor: Predictor, parameters: AnswerParameters) -> Predictor:
    """Return the model with the settings that the parameters name."""
    settings = {
        "max_answer_length": parameters.max_answer_len,
        "max_query_length": parameters.max_question_len,
    }
    limit, task = predictor.max_seq_length, predictor.task.with_settings(settings)
    return replace(predictor, task=task, max_seq_length=min(parameters.max_seq_len or limit, limit))


def pipeline_answers(prediction: SpanPrediction, parameters: AnswerParameters) -> Any:
    """Return the answer, or a list of the `top_k` answers if they are more than one."""
    if parameters.handle_impossible_answer:
        others = [other for other in prediction.candidates if other.text != prediction.text]
        answers = [prediction, *others]
    else:
        answers = [answer for answer in prediction.candidates if answer.text] or [prediction]
    top_k = parameters.top_k or 1
    elements = [
        {"answer": best.text, "score": best.probability, "start": best.start or 0, "end": best.end or 0}
        for best in answers[:top_k]
    ]
    return elements if top_k > 1 else elements[0]
