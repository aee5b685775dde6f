"""ModernBERT: its attention, its files, and its cost on long texts."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.overrides import TorchFunctionMode

from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.models.attention import local_attention
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model
from cloze.models.config_file import load_config
from cloze.models.modern_bert import ModernBertConfig, ModernBertModel

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 28,
}


def masked_attention(
    query: Tensor, key: Tensor, value: Tensor, lengths: list[int], half_window: int
) -> Tensor:
    """Compute all pairs of the batch, and mask those of other sequences and out of the window."""
    sequence = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    place = torch.arange(len(sequence))
    is_hidden = (sequence[:, None] != sequence) | ((place[:, None] - place).abs() > half_window)
    scores = torch.einsum("tnh,snh->nts", query, key) / query.shape[-1] ** 0.5
    return torch.einsum("nts,snh->tnh", scores.masked_fill(is_hidden, -torch.inf).softmax(-1), value)


@pytest.mark.parametrize("half_window", [1, 4, 64])
@pytest.mark.parametrize("lengths", [[1], [7, 7, 6, 3], [50, 50, 13], [193, 12]])
def test_local_attention_equals_masked_attention(lengths, half_window):
    torch.manual_seed(3)
    batch = to_device(collate([[1] * length for length in lengths]))
    inputs = [torch.randn(sum(lengths), 3, 6, requires_grad=True) for _ in range(3)]
    found = local_attention(*inputs, batch, 0.0, half_window=half_window)
    expected = masked_attention(*inputs, lengths, half_window)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    weights = torch.randn_like(expected)
    gradients = torch.autograd.grad(found, inputs, weights), torch.autograd.grad(expected, inputs, weights)
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-5)


def numbers_kept(length: int) -> int:
    """Return the numbers that local attention keeps for its gradient."""
    counts = []

    def count(tensor: Tensor) -> Tensor:
        counts.append(tensor.numel())
        return tensor

    batch = to_device(collate([[1] * length]))
    inputs = [torch.randn(length, 2, 4, requires_grad=True) for _ in range(3)]
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        local_attention(*inputs, batch, 0.0, half_window=16)
    return sum(counts)


def test_memory_of_local_attention_grows_with_the_length():
    assert numbers_kept(2048) < 4.1 * numbers_kept(512)


@pytest.mark.parametrize("length", [90, 1500])
def test_long_text_equals_transformers(length, tmp_path):
    torch.manual_seed(1)
    config = transformers.ModernBertConfig(
        **SIZES, max_position_embeddings=1600, initializer_range=0.3, pad_token_id=0, local_attention=32
    )
    theirs = transformers.ModernBertModel(config).eval()
    theirs.save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    ids = torch.randint(5, 40, (1, length))
    with torch.inference_mode():
        expected = theirs(ids).last_hidden_state[0]
        found = ours(to_device(collate(ids.tolist()))).sequence_output
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


class Copies(TorchFunctionMode):
    """Counts copies to a device."""

    count = 0

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        self.count += function is Tensor.to
        return function(*arguments, **(keywords or {}))


def test_angles_are_copied_to_a_device_once():
    thetas = {"global_rope_theta": 77.0, "local_rope_theta": 55.0}
    sizes = {"vocab_size": 9, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    config = ModernBertConfig(**sizes, **thetas)
    model, batch = ModernBertModel(config), to_device(collate([[1, 2, 3]]), "meta")
    counts = []
    for _ in range(3):
        with Copies() as copies:
            model.prepare(batch)
        counts.append(copies.count)
    assert counts == [2, 0, 0]


def test_base_is_the_published_size():
    published = {
        "architectures": ["ModernBertForMaskedLM"],
        "global_attn_every_n_layers": 3,
        "global_rope_theta": 160000.0,
        "hidden_activation": "gelu",
        "hidden_size": 768,
        "intermediate_size": 1152,
        "layer_norm_eps": 1e-05,
        "local_attention": 128,
        "local_rope_theta": 10000.0,
        "max_position_embeddings": 8192,
        "mlp_dropout": 0.0,
        "norm_eps": 1e-05,
        "num_attention_heads": 12,
        "num_hidden_layers": 22,
        "position_embedding_type": "absolute",
        "vocab_size": 50368,
    }
    assert ModernBertConfig(**ModernBertConfig.from_json(published)) == ModernBertModel.sizes()["modern-base"]
    base = ModernBertModel(replace(ModernBertConfig(), num_hidden_layers=2, vocab_size=10))
    assert base.layers[1].intermediate.weight.shape == (2304, 768)


@pytest.mark.parametrize("every", [1, 2, 3, 9])
def test_config_of_transformers_4_and_5_are_read_alike(every, tmp_path):
    rope = {"local_rope_theta": 500.0, "global_rope_theta": 7e4}
    config = transformers.ModernBertConfig(**SIZES, pad_token_id=0, global_attn_every_n_layers=every, **rope)
    config.save_pretrained(tmp_path)
    table = json.loads((tmp_path / "config.json").read_text())
    assert "layer_types" in table
    assert "rope_parameters" in table
    new = load_config(tmp_path)
    for name in ("layer_types", "rope_parameters"):
        del table[name]
    (tmp_path / "config.json").write_text(json.dumps(table | rope | {"global_attn_every_n_layers": every}))
    assert [new.is_global(i) for i in range(4)] == [load_config(tmp_path).is_global(i) for i in range(4)]
    assert [new.is_global(i) for i in range(4)] == [kind == "full_attention" for kind in config.layer_types]
    assert (new.local_rope_theta, new.global_rope_theta) == (500.0, 7e4)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"norm_bias": True}, "norm_bias must be false"),
        ({"decoder_bias": False}, "decoder_bias must be true"),
        ({"classifier_activation": "relu"}, 'classifier_activation must be "gelu"'),
        ({"hidden_activation": "gelu_new"}, 'classifier_activation must be "gelu_new"'),
        ({"layer_types": ["sliding_attention"] * 4}, "layer_types must be 'full_attention' first"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_type = 'yarn'"),
        ({"hidden_activation": "relu", "classifier_activation": "relu"}, "hidden_act"),
        ({"num_attention_heads": 8}, "heads of size 3: rotary positions need an even one"),
        ({"local_attention": 1}, "local_attention 1 is not at least 2"),
    ],
)
def test_other_encoder_is_one_clear_line(setting, message, tmp_path):
    table = {"model_type": "modernbert", **SIZES, "max_position_embeddings": 64, "hidden_activation": "gelu"}
    (tmp_path / "config.json").write_text(json.dumps(table | setting))
    with pytest.raises(InputError, match=message) as refusal:
        load_config(tmp_path)
    assert len(str(refusal.value).splitlines()) == 1
    assert str(tmp_path / "config.json") in str(refusal.value)


def test_pooler_is_the_head_of_masked_words_where_a_file_has_no_other(randomize, tmp_path):
    config = transformers.ModernBertConfig(**SIZES, pad_token_id=0)
    theirs = transformers.ModernBertForMaskedLM(config)
    randomize(theirs)
    theirs.tie_weights()
    theirs.save_pretrained(tmp_path)
    pooler = load_model(tmp_path).pooler
    assert torch.equal(pooler.dense.weight, theirs.head.dense.weight)
    assert torch.equal(pooler.layer_norm.weight, theirs.head.norm.weight)
