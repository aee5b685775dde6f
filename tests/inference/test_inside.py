"""The numbers inside: the three embeddings sum to what the encoder reads, and a row is what the head computes."""

import math

import pytest
import torch

from cloze.errors import InputError
from cloze.inference.attention_map import attention_map
from cloze.inference.inside import attention_row, input_embeddings
from cloze.inference.word_in_context import word_in_context
from cloze.model.bert import BertConfig, BertModel
from cloze.model.packed import Packed
from cloze.text.tokenizer import Tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "river", "bank", "money", "the", "##s", "##ing")


@pytest.fixture(scope="module")
def model() -> BertModel:
    config = BertConfig(
        vocab_size=len(PIECES),
        hidden_size=20,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=28,
        max_position_embeddings=12,
        initializer_range=0.5,
    )
    return BertModel(config, generator=torch.Generator().manual_seed(2)).eval()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_pieces(PIECES)


def test_three_embeddings_sum_to_what_the_first_layer_reads(model: BertModel, tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode("the river", "money bank")
    found = input_embeddings(model, encoding)
    packed = Packed.from_sequences([encoding.input_ids], [encoding.token_type_ids])
    with torch.no_grad():
        first = model.forward_packed(packed, keep_hidden_states=True).hidden_states[0]
        summed = model.embeddings.layer_norm(found.word + found.segment + found.position)
    torch.testing.assert_close(found.normalized, first)
    torch.testing.assert_close(summed, first)
    assert torch.equal(found.word[3], found.word[6])  # [SEP] and [SEP]
    assert not torch.equal(found.segment[3], found.segment[6])


def test_a_row_goes_from_query_to_context(model: BertModel, tokenizer: Tokenizer) -> None:
    layer = attention_map(model, tokenizer, "the river banks").layers[1]
    row = attention_row(layer, head=2, piece=3)
    assert row.query.shape == (5,)
    assert row.products[1].item() == pytest.approx(
        sum(q * k for q, k in zip(row.query, row.key[1], strict=True))
    )
    torch.testing.assert_close(row.scores, row.products / math.sqrt(5))
    torch.testing.assert_close(row.weights, layer.weights[2, 3])
    torch.testing.assert_close(row.context, (layer.weights @ layer.value)[2, 3])


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
    packed = Packed.from_sequences([tokenizer.encode("the river bank").input_ids], [[0] * 5])
    with torch.no_grad():
        last = model.forward_packed(packed).sequence_output[3]
    torch.testing.assert_close(torch.from_numpy(found.vectors[-1, 0]), last, rtol=0, atol=1e-5)
    points, shares = found.plane()
    assert points.shape == (4, 4, 2)
    assert not points[0].any()
    assert shares[0] == 0
    assert (shares[1:] > 0.5).all()
    assert (found.cosines()[0] > 0.99999).all()
    assert found.cosines()[-1].min() < 0.99


def test_distances_in_the_plane_are_those_of_three_vectors(model: BertModel, tokenizer: Tokenizer) -> None:
    """Three points always lie in a plane, so nothing is lost."""
    found = word_in_context(model, tokenizer, "bank", ["the river bank", "money bank", "bank"])
    points, shares = found.plane()
    assert shares[1:] == pytest.approx([1, 1, 1])
    for layer in range(4):
        flat, deep = (
            torch.cdist(torch.from_numpy(each), torch.from_numpy(each))
            for each in (points[layer], found.vectors[layer])
        )
        torch.testing.assert_close(flat, deep, rtol=1e-3, atol=5e-3)


def test_a_word_may_have_several_pieces_and_stand_alone(model: BertModel, tokenizer: Tokenizer) -> None:
    found = word_in_context(model, tokenizer, "banks", ["the banks", "bank", "bankings"])
    assert [(o.sentence, o.start, o.end) for o in found.occurrences] == [(0, 4, 9)]
    assert not found.plane()[0].any()
    with pytest.raises(InputError, match="word: no sentence has the word 'river'"):
        word_in_context(model, tokenizer, "river", ["the bank"])
    with pytest.raises(InputError, match="word: the word is empty"):
        word_in_context(model, tokenizer, " ", ["the bank"])
