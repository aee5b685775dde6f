"""The numbers shown of an encoder equal what it and transformers compute."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

import cloze
from cloze.data.batch import collate
from cloze.explorer.encoder_internals import (
    attention_map,
    attention_row,
    heads_off,
    input_embeddings,
    trace_masked_lm,
    trace_token,
)
from cloze.explorer.word_in_context import WordInContext, word_in_context
from cloze.models.batch import to_device
from cloze.models.bert import BertLayer, BertModel
from cloze.models.checkpoint import save_model
from cloze.models.encoder import encoders
from cloze.models.heads import BertForMaskedLM
from tiny_models import SPECIAL, tiny_config, write_checkpoint

TOKENS = (*SPECIAL, "river", "bank", "money", "the", "##s", "##ing", ".")
TOKENIZER = cloze.WordPieceTokenizer.from_tokens(TOKENS)
TEXT, MASKED = "the river [MASK]", 3
BATCH = to_device(collate([[2, 5, 6, 7, 3], [2, 8, 7, 3], [2, 3]]))
HEADS = {(0, 1), (2, 0), (2, 3)}


@pytest.fixture(scope="module")
def masked_lm() -> BertForMaskedLM:
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 20}
    generator = torch.Generator().manual_seed(2)
    encoder = BertModel(tiny_config(TOKENS, max_position_embeddings=12, **sizes), generator=generator)
    return BertForMaskedLM(encoder, generator=generator).eval()


@pytest.fixture(scope="module")
def model(masked_lm: BertForMaskedLM) -> BertModel:
    assert isinstance(masked_lm.bert, BertModel)
    return masked_lm.bert


def test_three_embeddings_sum_to_the_input_of_the_first_layer(model):
    encoding = TOKENIZER.encode("the river", "money bank")
    found = input_embeddings(model, encoding)
    packed = to_device(collate([encoding.input_ids], [encoding.token_type_ids]))
    with torch.no_grad():
        first = model(packed, output_hidden_states=True).hidden_states[0]
        summed = model.embeddings.layer_norm(found["word"] + found["segment"] + found["position"])
    torch.testing.assert_close(found["normalized"], first)
    torch.testing.assert_close(summed, first)
    assert torch.equal(found["word"][3], found["word"][6])  # [SEP] and [SEP]
    assert not torch.equal(found["segment"][3], found["segment"][6])


def test_a_row_leads_from_query_to_context(model):
    layer = attention_map(model, TOKENIZER, "the river banks").layers[1]
    row = attention_row(layer, head=2, token=3)
    assert row["query"].shape == (4,)
    assert row["products"][1].item() == pytest.approx(
        sum(q * k for q, k in zip(row["query"], row["key"][1], strict=True))
    )
    torch.testing.assert_close(row["scores"], row["products"] / math.sqrt(4))
    torch.testing.assert_close(row["weights"], layer.weights[2, 3])
    torch.testing.assert_close(row["context"], (layer.weights @ layer.value)[2, 3])


def test_a_word_has_one_row_and_as_many_vectors_as_contexts(model):
    found = word_in_context(model, TOKENIZER, "Bank", ["the river bank", "money bank bank", "banks", "Bank"])
    assert [(o.sentence, o.start, o.end) for o in found.occurrences] == [
        (0, 10, 14),
        (1, 6, 10),
        (1, 11, 15),
        (3, 0, 4),
    ]
    assert found.vectors.shape == (4, 4, 16)
    assert (found.vectors[0] == found.vectors[0, 0]).all()
    packed = to_device(collate([TOKENIZER.encode("the river bank").input_ids], [[0] * 5]))
    with torch.no_grad():
        last = model(packed).sequence_output[3]
    torch.testing.assert_close(torch.from_numpy(found.vectors[-1, 0]), last, rtol=0, atol=1e-5)
    points, shares = found.project_to_plane()
    assert points.shape == (4, 4, 2)
    assert not points[0].any()
    assert shares[0] == 0
    assert (shares[1:] > 0.5).all()
    assert (found.cosines()[0] > 0.99999).all()
    assert found.cosines()[-1].min() < 0.99


def test_distances_in_the_plane_are_those_of_three_vectors(model):
    """Three points always lie in a plane, so nothing is lost."""
    found = word_in_context(model, TOKENIZER, "bank", ["the river bank", "money bank", "bank"])
    points, shares = found.project_to_plane()
    assert shares[1:] == pytest.approx([1, 1, 1])
    for layer in range(4):
        flat, deep = (
            torch.cdist(torch.from_numpy(each), torch.from_numpy(each))
            for each in (points[layer], found.vectors[layer])
        )
        torch.testing.assert_close(flat, deep, rtol=1e-3, atol=5e-3)


def test_equal_vectors_are_one_point_without_variance():
    one = np.random.default_rng(0).normal(size=(2, 1, 64)).astype(np.float32)
    points, shares = WordInContext((), one.repeat(3, 1)).project_to_plane()
    assert not points.any()
    assert not shares.any()


def test_a_word_may_have_several_tokens_and_occur_once(model):
    found = word_in_context(model, TOKENIZER, "banks", ["the banks", "bank", "bankings"])
    assert [(o.sentence, o.start, o.end) for o in found.occurrences] == [(0, 4, 9)]
    assert not found.project_to_plane()[0].any()
    with pytest.raises(cloze.InputError, match="word: no sentence contains the word 'river'"):
        word_in_context(model, TOKENIZER, "river", ["the bank"])
    with pytest.raises(cloze.InputError, match="word: the word is empty"):
        word_in_context(model, TOKENIZER, " ", ["the bank"])


@pytest.mark.protected
def test_weights_are_those_of_transformers(model, tmp_path):
    transformers = pytest.importorskip("transformers")
    save_model(tmp_path, model, TOKENIZER)
    theirs = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    found = attention_map(model, TOKENIZER, "the river banks", "money bank")
    assert found.tokens[:5] == ("[CLS]", "the", "river", "bank", "##s")
    input_ids = torch.tensor([[TOKENS.index(token) for token in found.tokens]])
    with torch.no_grad():
        expected = theirs(
            input_ids, token_type_ids=torch.tensor([found.token_type_ids]), output_attentions=True
        ).attentions
    assert len(found.layers) == len(expected) == 3
    for layer, weights in zip(found.layers, expected, strict=True):
        assert layer.weights.shape == (4, 9, 9)
        torch.testing.assert_close(layer.weights, weights[0], rtol=0, atol=1e-5)


def test_weights_times_values_are_the_context_that_the_layer_computes(model):
    attention = attention_map(model, TOKENIZER, "river bank")
    for token in range(4):
        trace = trace_token(model, TOKENIZER, "river bank", token=token)
        for layer, steps in zip(attention.layers, trace.layers, strict=True):
            context = (layer.weights @ layer.value)[:, token].flatten()
            torch.testing.assert_close(context, steps["context"], rtol=1e-4, atol=1e-5)


def test_too_many_tokens_are_refused(model):
    with pytest.raises(cloze.InputError, match="text: 22 tokens, the model takes 12"):
        attention_map(model, TOKENIZER, "bank " * 20)


@torch.no_grad()
def test_each_step_follows_from_the_one_before(masked_lm):
    trace = trace_token(masked_lm.bert, TOKENIZER, TEXT, "the money", token=MASKED)
    for layer, steps, before, after in zip(
        masked_lm.bert.layers, trace.layers, trace.hidden_states[:-1], trace.hidden_states[1:], strict=True
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


def test_movement_is_the_change_of_direction(masked_lm):
    traces = [trace_token(masked_lm.bert, TOKENIZER, TEXT, token=token) for token in range(5)]
    for token, trace in enumerate(traces):
        before, after = trace.hidden_states[:-1], trace.hidden_states[1:]
        cosines = (before * after).sum(-1) / (before.norm(dim=-1) * after.norm(dim=-1))
        torch.testing.assert_close(trace.movements[:, token], 1 - cosines, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_last_layer_predicts_as_fill_mask_does(masked_lm, tmp_path):
    trace = trace_token(masked_lm.bert, TOKENIZER, TEXT, token=MASKED)
    embeddings = masked_lm.bert.embeddings.word_embeddings.weight
    fill_mask = cloze.FillMask.load(write_checkpoint(tmp_path / "model", masked_lm, TOKENS), device="cpu")
    transformed, logits, candidates = trace_masked_lm(fill_mask, trace.hidden_states, top_k=4)
    (expected,) = fill_mask(TEXT, top_k=4)
    assert [each.token for each in candidates[-1]] == [each.token for each in expected]
    probabilities = [each.probability for each in candidates[-1]]
    assert probabilities == pytest.approx([each.probability for each in expected])
    assert len(candidates) == 4
    for candidate, logit in zip(expected, logits.tolist(), strict=True):
        token_id = TOKENS.index(candidate.token)
        product = transformed @ embeddings[token_id] + masked_lm.masked_lm.bias[token_id]
        assert logit == pytest.approx(product.item(), abs=1e-5)


def test_hooks_are_removed_and_wrong_tokens_refused(masked_lm):
    encoder = masked_lm.bert
    for token in (-1, 5):
        with pytest.raises(cloze.InputError, match=r"is not in 0\.\.4"):
            trace_token(encoder, TOKENIZER, TEXT, token=token)
    assert not any(module._forward_hooks for module in encoder.modules())


@pytest.mark.protected
@torch.inference_mode()
def test_outputs_are_those_of_transformers_with_columns_of_0(model, tmp_path):
    transformers = pytest.importorskip("transformers")
    save_model(tmp_path, model, TOKENIZER)
    theirs = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    for layer, head in HEADS:
        weight = theirs.encoder.layer[layer].attention.output.dense.weight
        weight.data[:, 4 * head : 4 * head + 4] = 0
    with heads_off(model, HEADS):
        found = model(BATCH)
    for i, start in enumerate(BATCH.cu_seqlens[:-1]):
        end = BATCH.cu_seqlens[i + 1]
        expected = theirs(BATCH.input_ids[None, start:end])
        torch.testing.assert_close(found.sequence_output[start:end], expected.last_hidden_state[0])
        torch.testing.assert_close(found.pooled_output[i], expected.pooler_output[0])


@torch.inference_mode()
def test_each_copy_of_a_text_lacks_its_own_heads(model):
    ids, off = [2, 5, 6, 7, 3], [[], [(0, 1)], [(2, 0), (2, 3)], [(1, 2), (0, 1)]]
    with heads_off(model, *off):
        together = model(to_device(collate([ids] * len(off)))).sequence_output.split(len(ids))
    for heads, found in zip(off, together, strict=True):
        with heads_off(model, heads):
            alone = model(to_device(collate([ids]))).sequence_output
        torch.testing.assert_close(found, alone)


@torch.inference_mode()
def test_all_heads_are_back_afterwards(model):
    before = model(BATCH).sequence_output

    def fail() -> None:
        with heads_off(model, HEADS):
            assert not torch.allclose(model(BATCH).sequence_output, before, atol=0.1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert torch.equal(model(BATCH).sequence_output, before)
    with heads_off(model, []):
        assert torch.equal(model(BATCH).sequence_output, before)


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "mpnet", "modernbert"])
@torch.inference_mode()
def test_every_encoder_computes_without_heads(name):
    encoder_class = encoders()[name]
    sizes = {"vocab_size": 9, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = encoder_class.config_class(**sizes, intermediate_size=20, max_position_embeddings=12)
    model = encoder_class(config).eval()
    other = copy.deepcopy(model)
    for layer, head in ((0, 3), (1, 0), (1, 2)):
        other.layers[layer].attention_output.weight[:, 4 * head : 4 * head + 4] = 0
    with heads_off(model, {(0, 3), (1, 0), (1, 2)}):
        torch.testing.assert_close(model(BATCH).sequence_output, other(BATCH).sequence_output)


@pytest.mark.parametrize(
    ("head", "what"), [((3, 0), r"layer 3 is not in 0\.\.2"), ((0, 4), r"head 4 is not in 0\.\.3")]
)
def test_a_head_out_of_range_is_refused(model, head, what):
    with pytest.raises(cloze.InputError, match=f"heads: {what}"), heads_off(model, {(0, 0), head}):
        pass
