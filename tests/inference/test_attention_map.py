"""Attention to look at: the numbers are those the encoder uses, and those of transformers."""

from pathlib import Path

import pytest
import torch

from cloze.errors import InputError
from cloze.inference.attention_map import attention_map
from cloze.model.bert import BertConfig, BertLayer, BertModel
from cloze.model.checkpoint import write_model_files
from cloze.model.packed import Packed
from cloze.text.tokenizer import Tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "river", "bank", "money", "the", "##s")


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


def test_weights_are_those_of_transformers(model: BertModel, tokenizer: Tokenizer, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    write_model_files(tmp_path, model, tokenizer)
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


def test_weights_times_values_are_what_the_layer_goes_on_with(model: BertModel, tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode("river bank")
    packed = Packed.from_sequences([encoding.input_ids], [encoding.token_type_ids])
    found = attention_map(model, tokenizer, "river bank")
    with torch.no_grad():
        hidden_states = model.forward_packed(packed, keep_hidden_states=True).hidden_states
        for number, (layer, looked) in enumerate(zip(model.layers, found.layers, strict=True)):
            assert isinstance(layer, BertLayer)
            context = (looked.weights @ looked.value).transpose(0, 1).flatten(1)
            attended = layer.attention_layer_norm(hidden_states[number] + layer.attention_output(context))
            after = layer.output(torch.nn.functional.gelu(layer.intermediate(attended)))
            torch.testing.assert_close(layer.output_layer_norm(attended + after), hidden_states[number + 1])


def test_too_many_tokens_are_refused(model: BertModel, tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="text: 22 tokens, the model takes 12"):
        attention_map(model, tokenizer, "bank " * 20)
