"""Every head, read by transformers as the Auto class that it is for, from a directory that cloze wrote."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

from cloze.export.padded_outputs import padded_outputs
from cloze.models.bert import BertConfig, BertModel
from cloze.models.checkpoint import load_model
from model_heads import HEADS
from tiny_models import SPECIAL, write_checkpoint

pytestmark = pytest.mark.protected


@pytest.mark.parametrize("name", HEADS)
def test_transformers_computes_the_same_outputs(
    name: str, config: BertConfig, randomize: Callable, ragged: tuple, tmp_path: Path
) -> None:
    head = HEADS[name]
    ours = head.build(BertModel(config)).eval()
    randomize(ours)
    tokens = [*SPECIAL, *(f"w{i}" for i in range(98))]
    settings = {"labels": head.labels, "problem_type": head.problem_type}
    write_checkpoint(tmp_path / "model", ours, tokens, **settings)
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

    again = load_model(tmp_path / "model", None if name == "encoder" else head.build)
    for output, values in padded_outputs(again, *ragged).items():
        assert torch.equal(values, found[output])
