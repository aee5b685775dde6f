"""The vectors of one token in each layer are those of the encoder, and predictions those of the MLM head."""

import pytest
import torch
from torch import nn

from cloze.errors import InputError
from cloze.explorer.encoder_internals import trace_masked_lm, trace_token
from cloze.inference.model import Model
from cloze.inference.pretrained_heads import FillMask
from cloze.models.bert import BertLayer, BertModel
from cloze.models.encoder import Encoder
from cloze.models.heads import BertForMaskedLM
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.wordpiece import WordPieceTokenizer
from tiny_models import tiny_config

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "river", "bank", "money", "the")
TEXT, MASKED = "the river [MASK]", 3


@pytest.fixture(scope="module")
def model() -> BertForMaskedLM:
    generator = torch.Generator().manual_seed(3)
    config = tiny_config(
        TOKENS, hidden_size=16, num_hidden_layers=3, num_attention_heads=4, intermediate_size=20
    )
    return BertForMaskedLM(BertModel(config, generator=generator), generator=generator).eval()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return WordPieceTokenizer.from_tokens(TOKENS)


@torch.no_grad()
def test_each_step_follows_from_the_one_before(model: BertForMaskedLM, tokenizer: Tokenizer) -> None:
    trace = trace_token(model.bert, tokenizer, TEXT, "the money", token=MASKED)
    for layer, steps, before, after in zip(
        model.bert.layers, trace.layers, trace.hidden_states[:-1], trace.hidden_states[1:], strict=True
    ):
        assert isinstance(layer, BertLayer)
        expected = {
            "attended": layer.attention_output(steps["context"]),
            "attention_sum": before + steps["attended"],
            "attention_normalized": layer.attention_layer_norm(steps["attention_sum"]),
            "intermediate": nn.functional.gelu(layer.intermediate(steps["attention_normalized"])),
            "output": layer.output(steps["intermediate"]),
            "output_sum": steps["attention_normalized"] + steps["output"],
            "normalized": layer.output_layer_norm(steps["output_sum"]),
        }
        for name, vector in expected.items():
            torch.testing.assert_close(steps[name], vector, rtol=1e-3, atol=1e-3, msg=name)
        torch.testing.assert_close(steps["normalized"], after)
    assert [len(vector) for vector in trace.layers[0].values()] == [16] * 4 + [20] + [16] * 3


def test_movement_is_the_change_of_direction(model: BertForMaskedLM, tokenizer: Tokenizer) -> None:
    traces = [trace_token(model.bert, tokenizer, TEXT, token=token) for token in range(5)]
    for token, trace in enumerate(traces):
        before, after = trace.hidden_states[:-1], trace.hidden_states[1:]
        cosines = (before * after).sum(-1) / (before.norm(dim=-1) * after.norm(dim=-1))
        torch.testing.assert_close(trace.movements[:, token], 1 - cosines, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_last_layer_predicts_as_fill_mask_does(model: BertForMaskedLM, tokenizer: Tokenizer) -> None:
    trace = trace_token(model.bert, tokenizer, TEXT, token=MASKED)
    embeddings = model.bert.embeddings.word_embeddings.weight
    predicted = trace_masked_lm(model.masked_lm, embeddings, tokenizer, trace.hidden_states, top_k=4)
    (expected,) = FillMask(Model.of(model, tokenizer))(TEXT, top_k=4)
    assert [each.token for each in predicted.candidates[-1]] == [each.token for each in expected]
    assert [each.probability for each in predicted.candidates[-1]] == pytest.approx(
        [each.probability for each in expected]
    )
    assert len(predicted.candidates) == 4
    for candidate, logit in zip(expected, predicted.logits, strict=True):
        token_id = TOKENS.index(candidate.token)
        product = predicted.transformed @ embeddings[token_id] + model.masked_lm.bias[token_id]
        assert logit == pytest.approx(product.item(), abs=1e-5)


def test_hooks_are_removed_and_wrong_tokens_refused(model: BertForMaskedLM, tokenizer: Tokenizer) -> None:
    encoder: Encoder = model.bert
    for token in (-1, 5):
        with pytest.raises(InputError, match=r"is not in 0\.\.4"):
            trace_token(encoder, tokenizer, TEXT, token=token)
    assert not any(module._forward_hooks for module in encoder.modules())
