"""A head that is switched off adds nothing to its layer, as if its columns of the dense layer after it were 0."""

import copy
from pathlib import Path

import pytest
import torch

from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.explorer.encoder_internals import heads_off
from cloze.models.batch import to_device
from cloze.models.bert import BertModel
from cloze.models.checkpoint import save_model
from cloze.models.encoder import encoders
from cloze.tokenization.wordpiece import WordPieceTokenizer
from tiny_models import SPECIAL, tiny_config

TOKENS = (*SPECIAL, "river", "bank", "money", "the")
BATCH = to_device(collate([[2, 5, 6, 7, 3], [2, 8, 7, 3], [2, 3]]))
HEADS = {(0, 1), (2, 0), (2, 3)}


@pytest.fixture(scope="module")
def model() -> BertModel:
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 20}
    config = tiny_config(TOKENS, initializer_range=0.3, **sizes)
    return BertModel(config, generator=torch.Generator().manual_seed(3)).eval()


@pytest.mark.protected
@torch.inference_mode()
def test_outputs_are_those_of_transformers_with_columns_of_0(model: BertModel, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    save_model(tmp_path, model, WordPieceTokenizer.from_tokens(TOKENS))
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
def test_all_heads_are_back_afterwards(model: BertModel) -> None:
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
def test_every_encoder_computes_without_heads(name: str) -> None:
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
def test_a_head_out_of_range_is_refused(model: BertModel, head: tuple[int, int], what: str) -> None:
    with pytest.raises(InputError, match=f"heads: {what}"), heads_off(model, {(0, 0), head}):
        pass
