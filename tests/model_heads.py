"""Every head of cloze, with the Auto class of transformers that reads it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import nn

from cloze.models.bert import BertModel
from cloze.models.heads import (
    BertForFeatureExtraction,
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)


class Head(NamedTuple):
    """The constructor of a model from an encoder, and what config.json says of it."""

    build: Callable[[BertModel], nn.Module]
    auto_class: str
    labels: tuple[str, ...] = ()
    problem_type: str | None = None


def _classifier(*labels: str, problem_type: str | None = None) -> Head:
    head = partial(BertForSequenceClassification, num_labels=len(labels))
    return Head(head, "AutoModelForSequenceClassification", labels, problem_type)


HEADS = {
    "encoder": Head(lambda bert: bert, "AutoModel"),
    "features": Head(BertForFeatureExtraction, "AutoModel"),
    "pre-training": Head(BertForPreTraining, "AutoModelForPreTraining"),
    "masked words": Head(BertForMaskedLM, "AutoModelForMaskedLM"),
    "next sentence": Head(BertForNextSentencePrediction, "AutoModelForNextSentencePrediction"),
    "regression": _classifier("score", problem_type="regression"),
    "classes": _classifier("a", "b", "c"),
    "labels, several at once": _classifier("a", "b", "c", "d", problem_type="multi_label_classification"),
    "tags": Head(
        partial(BertForTokenClassification, num_labels=5),
        "AutoModelForTokenClassification",
        ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    ),
    "answers": Head(BertForQuestionAnswering, "AutoModelForQuestionAnswering"),
    "choices": Head(BertForMultipleChoice, "AutoModelForMultipleChoice"),
}
