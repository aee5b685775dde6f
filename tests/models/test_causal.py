"""Encoders that see one side: what follows does not reach what is before, on disk and off it."""

import json
from dataclasses import replace

import pytest
import torch

from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.models.batch import to_device
from cloze.models.bert import BertConfig, BertModel
from cloze.models.checkpoint import load_model
from cloze.models.pooling import check_pooling
from tiny_models import numbered_tokens, write_checkpoint

TOKENS = numbered_tokens(103)
IDS = [2, 17, 31, 5, 88, 40, 3]


def encode(model: BertModel, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The vectors of the first of two sequences of one length, and its pooled one."""
    output = model(to_device(collate([ids, [2, *range(50, 55), 3]])))
    return output.sequence_output[: len(ids)], output.pooled_output[0]


@pytest.fixture
def encoder(config: BertConfig, randomize):
    def make(attends_to: str) -> BertModel:
        model = BertModel(replace(config, attends_to=attends_to))
        randomize(model)
        return model.eval()

    return make


ALIKE = {"left": slice(0, 3), "right": slice(4, 7), "all": None}


@pytest.mark.parametrize(("attends_to", "same"), ALIKE.items())
def test_token_affects_only_tokens_that_attend_to_it(encoder, attends_to, same):
    model = encoder(attends_to)
    before, pooled = encode(model, IDS)
    changed = [*IDS[:3], 66, *IDS[4:]]
    after, pooled_after = encode(model, changed)
    moved = ((before - after).abs().amax(-1) > 1e-4).tolist()
    expected = [True] * 7
    if same is not None:
        expected[same] = [False] * len(range(7)[same])
        assert torch.equal(before[same], after[same])
    assert moved == expected
    assert not torch.allclose(pooled, pooled_after)  # it stands where everything was seen


def test_cls_pooling_of_a_causal_encoder_is_refused(encoder):
    with pytest.raises(InputError, match=r"pooling: cls: .* sees nothing of the text. Take the mean"):
        check_pooling("cls", encoder("left").config)
    check_pooling("cls", encoder("right").config)


def test_attends_to_is_saved_and_other_programs_refuse_the_model(encoder, tmp_path):
    transformers = pytest.importorskip("transformers")
    for attends_to in ("left", "right", "all"):
        model = encoder(attends_to)
        again = load_model(write_checkpoint(tmp_path / attends_to, model, TOKENS))
        assert again.config == model.config
        assert torch.equal(encode(again, IDS)[0], encode(model, IDS)[0])
    said = json.loads((tmp_path / "all/config.json").read_text())
    assert said["model_type"] == "bert"
    assert "attends_to" not in said
    with pytest.raises(ValueError, match="one-way-bert"):
        transformers.AutoModel.from_pretrained(tmp_path / "left")


def test_causal_model_is_not_exported(encoder, tmp_path):
    onnx = pytest.importorskip("cloze.export.onnx")
    with pytest.raises(InputError, match="has no graph"):
        onnx.export_onnx(write_checkpoint(tmp_path / "left", encoder("left"), TOKENS), tmp_path / "graph")
