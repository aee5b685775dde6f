"""Every head, read by transformers as the Auto class that it is for, from a directory that cloze wrote."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import transformers
from torch import nn

from cloze import artifacts
from cloze.export.reference import padded_outputs
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import load_model, write_model_files
from cloze.model.heads import (
    BertForFeatureExtraction,
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from cloze.text.tokenizer import Tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(98)))


class Head(NamedTuple):
    """A head of ours, and who reads it."""

    ours: Callable[[BertModel], nn.Module]
    auto_class: str
    labels: tuple[str, ...] = ()
    problem_type: str | None = None


def classifier(*labels: str, problem_type: str | None = None) -> Head:
    head = partial(BertForSequenceClassification, num_labels=len(labels))
    return Head(head, "AutoModelForSequenceClassification", labels, problem_type)


HEADS = {
    "encoder": Head(lambda bert: bert, "AutoModel"),
    "features": Head(BertForFeatureExtraction, "AutoModel"),
    "pre-training": Head(BertForPreTraining, "AutoModelForPreTraining"),
    "masked words": Head(BertForMaskedLM, "AutoModelForMaskedLM"),
    "next sentence": Head(BertForNextSentencePrediction, "AutoModelForNextSentencePrediction"),
    "regression": classifier("score", problem_type="regression"),
    "classes": classifier("a", "b", "c"),
    "labels, several at once": classifier("a", "b", "c", "d", problem_type="multi_label_classification"),
    "tags": Head(
        partial(BertForTokenClassification, num_labels=5),
        "AutoModelForTokenClassification",
        ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    ),
    "answers": Head(BertForQuestionAnswering, "AutoModelForQuestionAnswering"),
    "choices": Head(BertForMultipleChoice, "AutoModelForMultipleChoice"),
}


@pytest.mark.parametrize("name", HEADS)
def test_transformers_gives_the_same(
    name: str, config: BertConfig, randomize: Callable, ragged: tuple, tmp_path: Path
) -> None:
    head = HEADS[name]
    ours = head.ours(BertModel(config)).eval()
    randomize(ours)
    with artifacts.write_directory(tmp_path / "model", kind="checkpoint") as directory:
        write_model_files(
            directory,
            ours,
            Tokenizer.from_pieces(PIECES),
            labels=head.labels,
            problem_type=head.problem_type,
        )
    theirs, report = getattr(transformers, head.auto_class).from_pretrained(
        tmp_path / "model", output_loading_info=True
    )
    assert report["missing_keys"] in (set(), [])
    assert set(report["unexpected_keys"]) <= {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}
    if head.labels:
        assert theirs.config.id2label == dict(enumerate(head.labels))
        assert theirs.config.problem_type == head.problem_type

    input_ids, mask, token_type_ids = ragged
    inputs = {"input_ids": input_ids, "attention_mask": mask.long(), "token_type_ids": token_type_ids}
    if name == "choices":
        inputs = {key: values[None] for key, values in inputs.items()}
    with torch.inference_mode():
        expected = theirs.eval()(**inputs)
    found = padded_outputs(ours, *ragged)
    for output, values in found.items():
        rows = mask if values.dim() > 1 and values.shape[:2] == mask.shape else ...
        wanted = expected[output].reshape(values.shape)
        torch.testing.assert_close(values[rows], wanted[rows], atol=1e-5, rtol=1e-5)

    again = load_model(tmp_path / "model", None if name == "encoder" else head.ours)
    for output, values in padded_outputs(again, *ragged).items():
        assert torch.equal(values, found[output])
