"""Encoders of the experiments: combined vectors, saving and loading, refusals."""

import math
from dataclasses import asdict

import pytest
import torch

import cloze
from cloze.data.batch import collate
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model
from cloze.models.config_file import load_config
from cloze.models.heads import BertForQuestionAnswering
from experiments.encoders.bidirectional_lm import BidirectionalLM
from experiments.encoders.bilstm_on_top import BiLSTMOnBert
from experiments.encoders.sinusoidal_positions import (
    SinusoidalBert,
    SinusoidalBertConfig,
    sinusoidal_positions,
)
from tiny_models import numbered_tokens, tiny_config, write_checkpoint

TOKENS = tuple(numbered_tokens(103))
IDS = [2, 17, 31, 5, 88, 40, 3]


def encoder(attends_to: str) -> cloze.BertModel:
    """Return an encoder with large random weights and different sizes."""
    sizes = {"hidden_size": 44, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 70}
    more = {"max_position_embeddings": 61, "initializer_range": 0.2, "attends_to": attends_to}
    config = tiny_config(TOKENS, **sizes, **more)
    return cloze.BertModel(config, generator=torch.Generator().manual_seed(len(attends_to))).eval()


def encode(model: cloze.BertModel, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the vectors of the first of two sequences of equal length, and its pooled vector."""
    output = model(to_device(collate([ids, [2, *range(50, 55), 3]])))
    return output.sequence_output[: len(ids)], output.pooled_output[0]


def test_bidirectional_lm_concatenates_two_encoders(tmp_path):
    left, right = encoder("left"), encoder("right")
    both = BidirectionalLM.of(left, right)
    assert both.config.hidden_size == 88
    vectors, pooled = encode(both, IDS)
    assert torch.equal(vectors, torch.cat([encode(left, IDS)[0], encode(right, IDS)[0]], -1))
    assert torch.equal(pooled, torch.cat([encode(left, IDS)[1], encode(right, IDS)[1]], -1))
    again = load_model(write_checkpoint(tmp_path / "both", both, TOKENS))
    assert isinstance(again, BidirectionalLM)
    assert torch.equal(encode(again, IDS)[0], vectors)
    for wrong in ((encoder("all"), right), (left, left)):
        with pytest.raises(cloze.InputError, match="must be alike, but attend to the left and to the right"):
            BidirectionalLM.of(*wrong)


def test_bilstm_on_a_causal_encoder_sees_both_sides(tmp_path):
    model = BiLSTMOnBert.of(encoder("left"), generator=torch.Generator().manual_seed(3)).eval()
    before, _ = encode(model, IDS)
    after, _ = encode(model, [*IDS[:3], 66, *IDS[4:]])
    assert ((before - after).abs().amax(-1) > 1e-6).all()
    again = load_model(write_checkpoint(tmp_path / "on-top", model, TOKENS))
    assert load_config(tmp_path / "on-top") == model.config
    assert torch.equal(encode(again, IDS)[0], before)
    below = cloze.BertModel.encode(model, to_device(collate([IDS]))).sequence_output
    _, (last, _) = model.lstm(below[None])
    read = torch.cat([last[-2, 0], last[-1, 0]])  # where each direction of its second layer has read all
    torch.testing.assert_close(encode(model, IDS)[1], model.pooler(read))
    assert not torch.allclose(before[0], after[0])
    answering = load_model(
        write_checkpoint(tmp_path / "answering", BertForQuestionAnswering(model), TOKENS),
        BertForQuestionAnswering,
    )
    assert isinstance(answering.bert, BiLSTMOnBert)


def test_sinusoidal_positions_follow_the_formula():
    table = sinusoidal_positions(61, 48)
    assert table[7, 6].item() == pytest.approx(math.sin(7 / 10_000 ** (6 / 48)), abs=1e-6)
    assert table[7, 7].item() == pytest.approx(math.cos(7 / 10_000 ** (6 / 48)), abs=1e-6)
    config = SinusoidalBertConfig(**asdict(encoder("all").config))
    fixed = SinusoidalBert(config).embeddings.position_embeddings.weight
    assert not fixed.requires_grad
    assert fixed.square().mean().sqrt().item() == pytest.approx(5 * config.initializer_range, rel=1e-5)
    torch.testing.assert_close(fixed / fixed[0, 1], sinusoidal_positions(61, 44))
