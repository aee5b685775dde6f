"""The ModernBERT encoder (Warner et al. 2024): rotary positions, local and global attention, gated layers, no biases.

Shapes: T tokens in the packed batch, B sequences, L columns, D hidden, N heads, H head size, I intermediate,
    P positions.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import torch
from torch import Tensor, nn

from cloze.choices import Pooling
from cloze.config import Range
from cloze.data.batch import PackedBatch
from cloze.models.attention import attention, local_attention
from cloze.models.batch import PaddedBatch
from cloze.models.bert import POOLER_WEIGHT, DenseTransform, embedding_table, initialize_weights
from cloze.models.encoder import Encoder, register_encoder, to_autocast_dtype
from cloze.models.encoder_config import EncoderConfig, Layers, Probability, Size, Small
from cloze.models.functional import ACTIVATIONS, dropout
from cloze.models.pooling import pool
from cloze.models.weight_mapping import HEADS, Entries, HuggingFaceNames, dense
from cloze.signatures import check_kind

_GLOBAL, _LOCAL = "full_attention", "sliding_attention"
_Theta: TypeAlias = Annotated[float, Range("(1, 1000000000000)")]


def _fixed(activation: Any = "gelu", dropout: Any = 0.0) -> dict[str, Any]:
    """Return the fields of config.json with one value in all published models; by default as in transformers."""
    return {
        **dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), False),
        "decoder_bias": True,
        "tie_word_embeddings": True,
        "classifier_activation": activation,
        "embedding_dropout": dropout,
    }


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(EncoderConfig):
    """The fields of all encoders with ModernBERT-base as defaults, and those of its attention.

    `intermediate_size` is that of the product; the matrix before it has twice as many rows.
    """

    has_token_types: ClassVar[bool] = False
    json_names: ClassVar[Mapping[str, str | None]] = MappingProxyType(
        {
            "hidden_act": "hidden_activation",
            "hidden_dropout_prob": "mlp_dropout",
            "attention_probs_dropout_prob": "attention_dropout",
            "layer_norm_eps": "norm_eps",
            "type_vocab_size": None,
        }
    )

    vocab_size: Size = 50_368
    num_hidden_layers: Layers = 22
    intermediate_size: Size = 1152
    hidden_dropout_prob: Probability = 0.0
    attention_probs_dropout_prob: Probability = 0.0
    max_position_embeddings: Size = 8192
    layer_norm_eps: Small = 1e-5
    global_attn_every_n_layers: Size = 3
    """The first layer and every n-th after it attend to all tokens, the others to their window."""
    local_attention: Annotated[int, Range("[2, 10000000]")] = 128
    """Tokens in a window, half of them on each side; the token itself comes on top."""
    global_rope_theta: _Theta = 160_000.0
    """Base of the wavelengths of rotary positions in global layers."""
    local_rope_theta: _Theta = 10_000.0
    """The same in local layers."""
    classifier_pooling: Literal["cls", "mean"] = "cls"
    """The vector that classifiers read: [CLS], or the mean of all tokens."""

    @property
    def embedding_weights(self) -> int:
        return self.hidden_size * self.vocab_size

    @property
    def layer_weights(self) -> int:
        """Weights of the matrices of a layer, that of the gate among them."""
        return 4 * self.hidden_size**2 + 3 * self.hidden_size * self.intermediate_size

    @classmethod
    def of_size(cls, num_hidden_layers: int, hidden_size: int) -> Self:
        """Return a config with about as many parameters as BERT's of this size."""
        # three matrices of 8/3 D have as many parameters as two of 4 D; in steps of 64
        intermediate_size = round(hidden_size * 8 / 3 / 64) * 64
        return replace(super().of_size(num_hidden_layers, hidden_size), intermediate_size=intermediate_size)

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the unchecked values of the fields in config.json of transformers 4 or 5."""
        fixed = _fixed(table.get("hidden_activation", "gelu"), table.get("mlp_dropout", 0.0))
        for name, default in _fixed().items():
            if table.get(name, default) != fixed[name]:
                raise ValueError(f"{name} must be {json.dumps(fixed[name])}")
        values = super().from_json(table)
        if isinstance(types := table.get("layer_types"), list):
            values["global_attn_every_n_layers"] = _interval(types)
        rope = table.get("rope_parameters")
        for name, kind in (("global_rope_theta", _GLOBAL), ("local_rope_theta", _LOCAL)):
            parameters = (rope.get(kind) if isinstance(rope, dict) else None) or {}
            if parameters.get("rope_type", "default") != "default":
                raise ValueError(f"rope_type = {parameters['rope_type']!r} must be 'default'")
            theta = parameters.get("rope_theta", values.get(name))
            if theta is not None:
                values[name] = float(theta) if type(theta) is int else theta
        return values

    def to_json(self) -> dict[str, Any]:
        table = super().to_json()
        return {**table, **_fixed(table["hidden_activation"], self.hidden_dropout_prob)}

    def _check(self) -> None:
        super()._check()
        if self.head_size % 2:
            raise ValueError(f"heads of size {self.head_size}: rotary positions need an even one")

    def is_global(self, layer: int) -> bool:
        return layer % self.global_attn_every_n_layers == 0


def _interval(layer_types: list[Any]) -> int:
    """Return the distance between global layers; a ValueError unless they alternate regularly, from the first on."""
    later = [number for number, kind in enumerate(layer_types) if kind == _GLOBAL and number]
    interval = later[0] if later else max(len(layer_types), 1)
    if layer_types != [_LOCAL if number % interval else _GLOBAL for number in range(len(layer_types))]:
        raise ValueError(f"layer_types must be {_GLOBAL!r} first and at equal distances, else {_LOCAL!r}")
    return interval


_LAYER = "model.layers.{i}"

_ENCODER: Entries = {
    "bert.embeddings.word_embeddings.weight": ("model.embeddings.tok_embeddings.weight",),
    "bert.embeddings.layer_norm.weight": ("model.embeddings.norm.weight",),
    "bert.layers.{i}.attention_layer_norm.weight": (f"{_LAYER}.attn_norm.weight",),
    "bert.layers.{i}.query_key_value.weight": (f"{_LAYER}.attn.Wqkv.weight",),
    "bert.layers.{i}.attention_output.weight": (f"{_LAYER}.attn.Wo.weight",),
    "bert.layers.{i}.output_layer_norm.weight": (f"{_LAYER}.mlp_norm.weight",),
    "bert.layers.{i}.intermediate.weight": (f"{_LAYER}.mlp.Wi.weight",),
    "bert.layers.{i}.output.weight": (f"{_LAYER}.mlp.Wo.weight",),
    "bert.layer_norm.weight": ("model.final_norm.weight",),
    "bert.pooler.dense.weight": ("pooler.dense.weight",),
    "bert.pooler.layer_norm.weight": ("pooler.norm.weight",),
}
"""The weights of `ModernBertModel`; its pooler is the head of classifiers there."""

_HEADS: Entries = {
    **HEADS,
    "masked_lm.dense.weight": ("head.dense.weight",),
    "masked_lm.layer_norm.weight": ("head.norm.weight",),
    "masked_lm.bias": ("decoder.bias",),
    **dense("qa_outputs", "classifier"),
}

_CLASSIFIERS = (
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForMultipleChoice",
    "BertForQuestionAnswering",
)

Rotation: TypeAlias = tuple[Tensor, Tensor]
"""Cosine and sine of the angles of each token, [T, 1, H / 2] each."""
Rotations: TypeAlias = Mapping[bool, Rotation]
"""Of global layers (True) and local ones (False)."""


@cache
def _rotation_rates(theta: float, head_size: int) -> tuple[float, ...]:
    """Return the angle between two neighbors for each pair of numbers of a head, in float32 as elsewhere.

    They are no tensor, which an exporter would trace and round again.
    """
    rates_H = 1.0 / theta ** (torch.arange(0, head_size, 2, device="cpu").float() / head_size)
    rates: list[float] = rates_H.tolist()
    return tuple(rates)


def compute_angles(theta: float, head_size: int, num_positions: int, device: torch.device) -> Tensor:
    """Return cosine and sine of each position times each rate, [2, P, H / 2]."""
    rates_H = torch.tensor(_rotation_rates(theta, head_size))
    angles_PH = torch.arange(num_positions).float()[:, None] * rates_H
    return torch.stack([angles_PH.cos(), angles_PH.sin()]).to(device)


@lru_cache(maxsize=8)
def angles(theta: float, head_size: int, num_positions: int, device: torch.device) -> Tensor:
    """Return `compute_angles`, computed on the CPU for every device."""
    # outside of inference mode and the device meta, since training may use the table, too
    with torch.inference_mode(mode=False), torch.device("cpu"):
        return compute_angles(theta, head_size, num_positions, device)


class ModernBertEmbeddings(nn.Module):
    """Token embeddings, normalized; positions are in the attention."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.word_embeddings = embedding_table(config.vocab_size, config.hidden_size)
        self.layer_norm = _layer_norm(config)
        self.config = config

    def look_up(self, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the embeddings before LayerNorm, [T, D]."""
        return {"word": self.word_embeddings(batch.input_ids)}

    def forward(self, batch: PackedBatch) -> Tensor:
        hidden_TD = self.layer_norm(self.word_embeddings(batch.input_ids))
        hidden_TD = dropout(hidden_TD, self.config.hidden_dropout_prob if self.training else 0.0)
        return to_autocast_dtype(hidden_TD)


class ModernBertLayer(nn.Module):
    """Attention and a gated feed-forward layer, each after LayerNorm and within a residual connection.

    The first layer has no LayerNorm before its attention: that of the embeddings comes right before it.

    Source: Warner et al. 2024, 2.1; Shazeer 2020, "GLU variants improve Transformer", equation 6 (GeGLU).

    Differs: Query, key and value are one matrix product, and so are both factors of the feed-forward layer.
    """

    def __init__(self, config: ModernBertConfig, number: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.attention_layer_norm = _layer_norm(config) if number else nn.Identity()
        self.query_key_value = nn.Linear(size, 3 * size, bias=False)
        self.attention_output = nn.Linear(size, size, bias=False)
        self.output_layer_norm = _layer_norm(config)
        self.intermediate = nn.Linear(size, 2 * config.intermediate_size, bias=False)
        self.output = nn.Linear(config.intermediate_size, size, bias=False)
        self.is_global = config.is_global(number)
        self.config = config

    def forward(self, hidden_TD: Tensor, batch: PackedBatch, rotations: Rotations) -> Tensor:
        config = self.config
        hidden_dropout_prob = config.hidden_dropout_prob if self.training else 0.0
        attention_dropout_prob = config.attention_probs_dropout_prob if self.training else 0.0

        qkv = self.project_qkv(hidden_TD, rotations)
        if self.is_global:
            context_TNH = attention(*qkv, batch, attention_dropout_prob)
        else:
            half_window = config.local_attention // 2
            context_TNH = local_attention(*qkv, batch, attention_dropout_prob, half_window=half_window)
        attended_TD = self.attention_output(context_TNH.flatten(-2))
        hidden_TD = hidden_TD + dropout(attended_TD, attention_dropout_prob)

        input_TI, gate_TI = self.intermediate(self.output_layer_norm(hidden_TD)).chunk(2, -1)
        activated_TI = ACTIVATIONS[config.hidden_act](input_TI)
        next_TD: Tensor = hidden_TD + self.output(dropout(activated_TI * gate_TI, hidden_dropout_prob))
        return next_TD

    def project_qkv(self, hidden_TD: Tensor, rotations: Rotations) -> tuple[Tensor, Tensor, Tensor]:
        num_heads = self.config.num_attention_heads
        qkv_TD = self.query_key_value(self.attention_layer_norm(hidden_TD))
        query_key_TMH, value_TNH = qkv_TD.unflatten(-1, (3 * num_heads, -1)).split(
            (2 * num_heads, num_heads), -2
        )
        # each pair of numbers, one of either half of a head, by the angle of the token's position and the pair
        cosine_T1H, sine_T1H = rotations[self.is_global]
        first, second = query_key_TMH.chunk(2, -1)
        rotated_TMH = torch.cat(
            [first * cosine_T1H - second * sine_T1H, second * cosine_T1H + first * sine_T1H], dim=-1
        )
        query_TNH, key_TNH = rotated_TMH.to(query_key_TMH.dtype).chunk(2, -2)
        return query_TNH, key_TNH, value_TNH


@register_encoder("modernbert")
class ModernBertModel(Encoder):
    """ModernBERT, and the layers that its classifiers begin with as its pooler.

    Source: Warner et al. 2024, 2.1; Su et al. 2021, "RoFormer", 3.2 (rotary positions); transformers models/modernbert.
    """

    config_class: ClassVar[type[EncoderConfig]] = ModernBertConfig
    size_prefix = "modern-"
    stacked_matrices: ClassVar[Mapping[str, int]] = MappingProxyType(
        {"query_key_value": 3, "intermediate": 2}
    )
    has_biases = False
    pools_tokens = True
    trains_on_pairs = False
    config: ModernBertConfig
    names = HuggingFaceNames(
        family="ModernBert",
        encoder=_ENCODER,
        heads=_HEADS,
        decoder="decoder",
        renamed=MappingProxyType(
            {name: {"pooler.": "head.", "classifier.": "classifier."} for name in _CLASSIFIERS}
        ),
        special_ids=MappingProxyType(
            {"bos_token_id": "cls", "cls_token_id": "cls", "eos_token_id": "sep", "sep_token_id": "sep"}
        ),
        shared_pooler=("head.", "pooler."),
    )

    def __init__(self, config: ModernBertConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        check_kind(config, ModernBertConfig, "config")
        self.config = config
        self.embeddings = ModernBertEmbeddings(config)
        self.layers = nn.ModuleList(
            ModernBertLayer(config, number) for number in range(config.num_hidden_layers)
        )
        self.layer_norm = _layer_norm(config)
        self.pooler = DenseTransform(config, config.hidden_act, bias=False)
        initialize_weights(self, config.initializer_range, generator)
        with torch.no_grad():  # smaller additions to the residual stream, as in Megatron-LM
            for name, parameter in self.layers.named_parameters():
                if name.endswith("output.weight"):
                    parameter.div_((2 * config.num_hidden_layers) ** 0.5)

    @classmethod
    def sizes(cls) -> Mapping[str, EncoderConfig]:
        """Return the sizes of BERT with about as many parameters; base and large are the published ones."""
        base = ModernBertConfig()
        large = replace(
            base, num_hidden_layers=28, hidden_size=1024, num_attention_heads=16, intermediate_size=2624
        )
        return {**super().sizes(), "modern-base": base, "modern-large": large}

    def prepare(self, batch: PackedBatch) -> Rotations:
        """Return cosine and sine of the angles by which both kinds of layers rotate query and key."""
        config, position_ids = self.config, batch.position_ids
        is_traced = isinstance(batch, PaddedBatch)  # then nothing can be read or kept
        if is_traced:
            num_positions = batch.max_seqlen
        elif position_ids.device.type == "cpu":  # a power of two, so that few tables are kept
            num_positions = 1 << int(position_ids.max()).bit_length()
        else:  # reading the highest would wait for the device
            num_positions = config.max_position_embeddings
        rotations = {}
        for is_global, theta in ((True, config.global_rope_theta), (False, config.local_rope_theta)):
            make_table = compute_angles if is_traced else angles
            table_2PH = make_table(theta, config.head_size, num_positions, position_ids.device)
            cosine, sine = table_2PH.index_select(1, position_ids)[:, :, None]
            rotations[is_global] = (cosine, sine)
        return rotations

    def final_norm(self, hidden_TD: Tensor) -> Tensor:
        normalized_TD: Tensor = self.layer_norm(hidden_TD)
        return normalized_TD

    def pool(self, hidden_TD: Tensor, batch: PackedBatch) -> Tensor:
        """Return a vector for each sequence, [B, D], from [CLS] or the mean of all tokens."""
        vectors_BD = pool(hidden_TD, batch, self.config.classifier_pooling)
        pooled_BD: Tensor = self.pooler(vectors_BD.to(hidden_TD.dtype))
        return pooled_BD

    @torch.no_grad()
    def pool_linearly(self, pooling: Pooling) -> None:
        if pooling == "max":
            super().pool_linearly(pooling)  # refuses it
        self.config = replace(self.config, classifier_pooling="cls" if pooling == "cls" else "mean")
        self.pooler.dense.weight.copy_(POOLER_WEIGHT * torch.eye(self.config.hidden_size))
        self.pooler.layer_norm.reset_parameters()

    @property
    def half_window(self) -> int | None:
        config = self.config
        is_local = config.global_attn_every_n_layers > 1 and config.num_hidden_layers > 1
        return config.local_attention // 2 if is_local else None


def _layer_norm(config: ModernBertConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=False)
