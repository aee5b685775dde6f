"""Input embeddings, attention weights and the vectors of a word are those that the encoder and transformers compute."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.explorer.encoder_internals import attention_map, attention_row, input_embeddings, trace_token
from cloze.explorer.word_in_context import WordInContext, word_in_context
from cloze.models.batch import to_device
from cloze.models.bert import BertModel
from cloze.models.checkpoint import save_model
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.wordpiece import WordPieceTokenizer
from tiny_models import tiny_config

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "river", "bank", "money", "the", "##s", "##ing")


@pytest.fixture(scope="module")
def model() -> BertModel:
    sizes = {"hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 28}
    config = tiny_config(PIECES, max_position_embeddings=12, **sizes)
    return BertModel(config, generator=torch.Generator().manual_seed(2)).eval()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return WordPieceTokenizer.from_tokens(PIECES)


def test_three_embeddings_sum_to_the_input_of_the_first_layer(model: BertModel, tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode("the river", "money bank")
    found = input_embeddings(model, encoding)
    packed = to_device(collate([encoding.input_ids], [encoding.token_type_ids]))
    with torch.no_grad():
        first = model(packed, output_hidden_states=True).hidden_states[0]
        summed = model.embeddings.layer_norm(found["word"] + found["segment"] + found["position"])
    torch.testing.assert_close(found["normalized"], first)
    torch.testing.assert_close(summed, first)
    assert torch.equal(found["word"][3], found["word"][6])  # [SEP] and [SEP]
    assert not torch.equal(found["segment"][3], found["segment"][6])


def test_a_row_leads_from_query_to_context(model: BertModel, tokenizer: Tokenizer) -> None:
    layer = attention_map(model, tokenizer, "the river banks").layers[1]
    row = attention_row(layer, head=2, token=3)
    assert row["query"].shape == (5,)
    assert row["products"][1].item() == pytest.approx(
        sum(q * k for q, k in zip(row["query"], row["key"][1], strict=True))
    )
    torch.testing.assert_close(row["scores"], row["products"] / math.sqrt(5))
    torch.testing.assert_close(row["weights"], layer.weights[2, 3])
    torch.testing.assert_close(row["context"], (layer.weights @ layer.value)[2, 3])


def test_a_word_has_one_row_and_as_many_vectors_as_contexts(model: BertModel, tokenizer: Tokenizer) -> None:
    found = word_in_context(model, tokenizer, "Bank", ["the river bank", "money bank bank", "banks", "Bank"])
    assert [(o.sentence, o.start, o.end) for o in found.occurrences] == [
        (0, 10, 14),
        (1, 6, 10),
        (1, 11, 15),
        (3, 0, 4),
    ]
    assert found.vectors.shape == (4, 4, 20)
    assert (found.vectors[0] == found.vectors[0, 0]).all()
    packed = to_device(collate([tokenizer.encode("the river bank").input_ids], [[0] * 5]))
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


def test_distances_in_the_plane_are_those_of_three_vectors(model: BertModel, tokenizer: Tokenizer) -> None:
    """Three points always lie in a plane, so nothing is lost."""
    found = word_in_context(model, tokenizer, "bank", ["the river bank", "money bank", "bank"])
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


def test_a_word_may_have_several_tokens_and_occur_once(model: BertModel, tokenizer: Tokenizer) -> None:
    found = word_in_context(model, tokenizer, "banks", ["the banks", "bank", "bankings"])
    assert [(o.sentence, o.start, o.end) for o in found.occurrences] == [(0, 4, 9)]
    assert not found.project_to_plane()[0].any()
    with pytest.raises(InputError, match="word: no sentence contains the word 'river'"):
        word_in_context(model, tokenizer, "river", ["the bank"])
    with pytest.raises(InputError, match="word: the word is empty"):
        word_in_context(model, tokenizer, " ", ["the bank"])


@pytest.mark.protected
def test_weights_are_those_of_transformers(model: BertModel, tokenizer: Tokenizer, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    save_model(tmp_path, model, tokenizer)
    theirs = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    found = attention_map(model, tokenizer, "the river banks", "money bank")
    assert found.tokens[:5] == ("[CLS]", "the", "river", "bank", "##s")
    input_ids = torch.tensor([[PIECES.index(token) for token in found.tokens]])
    with torch.no_grad():
        expected = theirs(
            input_ids, token_type_ids=torch.tensor([found.token_type_ids]), output_attentions=True
        ).attentions
    assert len(found.layers) == len(expected) == 3
    for layer, weights in zip(found.layers, expected, strict=True):
        assert layer.weights.shape == (4, 9, 9)
        torch.testing.assert_close(layer.weights, weights[0], rtol=0, atol=1e-5)


def test_weights_times_values_are_the_context_that_the_layer_computes(
    model: BertModel, tokenizer: Tokenizer
) -> None:
    attention = attention_map(model, tokenizer, "river bank")
    for token in range(4):
        trace = trace_token(model, tokenizer, "river bank", token=token)
        for layer, steps in zip(attention.layers, trace.layers, strict=True):
            context = (layer.weights @ layer.value)[:, token].flatten()
            torch.testing.assert_close(context, steps["context"], rtol=1e-4, atol=1e-5)


def test_too_many_tokens_are_refused(model: BertModel, tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="text: 22 tokens, the model takes 12"):
        attention_map(model, tokenizer, "bank " * 20)
