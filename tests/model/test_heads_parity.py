"""Equality with transformers' heads of fine-tuned models, read from a directory that cloze wrote."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers

from cloze import artifacts
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import load_model, write_model_files
from cloze.model.heads import BertForMultipleChoice, BertForSequenceClassification
from cloze.model.packed import pack_padded
from cloze.text.tokenizer import Tokenizer

NUM_CHOICES = 5


def _written(model: torch.nn.Module, directory: Path, labels: tuple[str, ...] = ()) -> Path:
    pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(98)))
    with artifacts.write_directory(directory, kind="checkpoint") as target:
        write_model_files(target, model, Tokenizer.from_pieces(pieces), labels=labels)
    return directory


@pytest.mark.parametrize("labels", [("score",), ("a", "b", "c")], ids=["regression", "classes"])
def test_sequence_classification(
    config: BertConfig, randomize: Callable, ragged: tuple, tmp_path: Path, labels: tuple[str, ...]
) -> None:
    ours = BertForSequenceClassification(BertModel(config), num_labels=len(labels)).eval()
    randomize(ours)
    directory = _written(ours, tmp_path / "model", labels)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(directory)
    input_ids, mask, token_type_ids = ragged
    packed, padding = pack_padded(input_ids, mask, token_type_ids)
    with torch.no_grad():
        logits = padding.unpack_sequences(ours(packed))
        expected = theirs(input_ids, attention_mask=mask.long(), token_type_ids=token_type_ids).logits
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


def test_multiple_choice(config: BertConfig, randomize: Callable, ragged: tuple, tmp_path: Path) -> None:
    ours = BertForMultipleChoice(BertModel(config)).eval()
    randomize(ours)
    directory = _written(ours, tmp_path / "model")
    theirs = transformers.AutoModelForMultipleChoice.from_pretrained(directory)
    input_ids, mask, token_type_ids = ragged
    assert len(input_ids) == NUM_CHOICES
    packed, padding = pack_padded(input_ids, mask, token_type_ids)
    with torch.no_grad():
        scores = padding.unpack_sequences(ours(packed)[:, None])[:, 0]
        expected = theirs(
            input_ids[None], attention_mask=mask[None].long(), token_type_ids=token_type_ids[None]
        ).logits
        again = load_model(directory, partial(BertForMultipleChoice))(packed)
    torch.testing.assert_close(scores[None], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(again, ours(packed).detach())
