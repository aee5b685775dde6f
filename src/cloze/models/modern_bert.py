"""The ModernBERT encoder (Warner et al. 2024): rotary positions, local and global attention, gated layers, no biases.

Shapes: T tokens in the packed batch, B sequences, D hidden, N heads, H head size, I intermediate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from cloze.arguments import check_type
from cloze.data.batch import PackedBatch
from cloze.models.attention import attention
from cloze.models.bert import ACTIVATIONS, BertConfig, check_ids, embedding_table, initialize_weights
from cloze.models.dropout import dropout
from cloze.models.encoder import Encoder, EncoderOutput, HiddenMatrix, register_encoder, to_autocast_dtype
from cloze.models.local_attention import local_attention
from cloze.models.pooling import pool
from cloze.models.rotary import Rotation, angles, rotate
from cloze.models.weight_mapping import HEADS, Entries, HuggingFaceNames, dense

_GLOBAL, _LOCAL = "full_attention", "sliding_attention"
_FIXED: Mapping[str, Any] = MappingProxyType(
    {
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "classifier_bias": False,
        "decoder_bias": True,
        "tie_word_embeddings": True,
    }
)
"""Fields of config.json with one value in all published models, and their defaults in transformers."""
_EQUAL = (
    ("classifier_activation", "hidden_activation", "gelu"),
    ("embedding_dropout", "mlp_dropout", 0.0),
)
"""Pairs of fields with the same value in all published models, and their default in transformers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModernBertConfig(BertConfig):
    """The fields of BERT with ModernBERT-base as defaults, and those of its attention.

    `intermediate_size` is that of the product; the matrix before it has twice as many rows.
    """

    json_names: ClassVar[Mapping[str, str | None]] = MappingProxyType(
        {
            "hidden_act": "hidden_activation",
            "hidden_dropout_prob": "mlp_dropout",
            "attention_probs_dropout_prob": "attention_dropout",
            "layer_norm_eps": "norm_eps",
            "type_vocab_size": None,
            "attends_to": None,
        }
    )

    vocab_size: int = 50_368
    num_hidden_layers: int = 22
    intermediate_size: int = 1152
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 8192
    layer_norm_eps: float = 1e-5
    global_attn_every_n_layers: int = 3
    """The first layer and every n-th after it attend to all tokens, the others to their window."""
    local_attention: int = 128
    """Tokens in a window, half of them on each side; the token itself comes on top."""
    global_rope_theta: float = 160_000.0
    """Base of the wavelengths of rotary positions in global layers."""
    local_rope_theta: float = 10_000.0
    """The same in local layers."""
    classifier_pooling: Literal["cls", "mean"] = "cls"
    """The vector that classifiers read: [CLS], or the mean of all tokens."""

    @property
    def embedding_weights(self) -> int:
        """Weights of the table of embeddings: positions have none, and there are no segments."""
        return self.hidden_size * self.vocab_size

    @property
    def layer_weights(self) -> int:
        """Weights of the matrices of a layer, that of the gate among them."""
        return 4 * self.hidden_size**2 + 3 * self.hidden_size * self.intermediate_size

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the fields in config.json, of transformers 4 or 5.

        Raises:
            ValueError: the file describes an encoder that cloze does not have.
        """
        for name, value in _FIXED.items():
            if table.get(name, value) != value:
                raise ValueError(f"{name} must be {str(value).lower()}")
        for name, same_as, default in _EQUAL:
            value, other = table.get(name, default), table.get(same_as, default)
            if value != other:
                raise ValueError(f"{name} = {value!r} must equal {same_as} = {other!r}")
        values = super(ModernBertConfig, cls).from_json(table)
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
        """Return the table of config.json."""
        table = super(ModernBertConfig, self).to_json()
        equal = {"embedding_dropout": self.hidden_dropout_prob, "classifier_activation": self.hidden_act}
        return {**table, **_FIXED, **equal}

    def __post_init__(self) -> None:
        BertConfig.__post_init__(self)  # super() fails: slots create a second class
        if self.attends_to != "all":
            raise ValueError(f"attends_to = {self.attends_to}: ModernBERT attends to both sides")
        if (self.hidden_size // self.num_attention_heads) % 2:
            size = self.hidden_size // self.num_attention_heads
            raise ValueError(f"heads of size {size}: rotary positions need an even one")
        if self.local_attention < 2:
            raise ValueError(f"local_attention = {self.local_attention} must be at least 2")
        for name in ("global_rope_theta", "local_rope_theta"):
            if not 1 < getattr(self, name) < 1e12:
                raise ValueError(f"{name} = {getattr(self, name)} must be more than 1 and less than 1e12")

    def is_global(self, layer: int) -> bool:
        """Whether a layer, counted from 0, attends to all tokens."""
        return layer % self.global_attn_every_n_layers == 0


def _interval(layer_types: list[Any]) -> int:
    """Return the distance between global layers.

    Raises:
        ValueError: the layers do not alternate regularly, from a global one on.
    """
    later = [number for number, kind in enumerate(layer_types) if kind == _GLOBAL and number]
    interval = later[0] if later else max(len(layer_types), 1)
    if layer_types != [_LOCAL if number % interval else _GLOBAL for number in range(len(layer_types))]:
        raise ValueError(f"layer_types must be {_GLOBAL!r} first and at equal distances, else {_LOCAL!r}")
    return interval


def _modern_size(num_hidden_layers: int, hidden_size: int) -> ModernBertConfig:
    return ModernBertConfig(
        num_hidden_layers=num_hidden_layers,
        hidden_size=hidden_size,
        num_attention_heads=hidden_size // 64,
        # three matrices of 8/3 D have as many parameters as two of 4 D; in steps of 64
        intermediate_size=round(hidden_size * 8 / 3 / 64) * 64,
    )


_LAYER = "model.layers.{i}"

MODERN_BERT: Entries = (
    ("bert.embeddings.word_embeddings.weight", ("model.embeddings.tok_embeddings.weight",)),
    ("bert.embeddings.layer_norm.weight", ("model.embeddings.norm.weight",)),
    ("bert.layers.{i}.attention_layer_norm.weight", (f"{_LAYER}.attn_norm.weight",)),
    ("bert.layers.{i}.query_key_value.weight", (f"{_LAYER}.attn.Wqkv.weight",)),
    ("bert.layers.{i}.attention_output.weight", (f"{_LAYER}.attn.Wo.weight",)),
    ("bert.layers.{i}.output_layer_norm.weight", (f"{_LAYER}.mlp_norm.weight",)),
    ("bert.layers.{i}.intermediate.weight", (f"{_LAYER}.mlp.Wi.weight",)),
    ("bert.layers.{i}.output.weight", (f"{_LAYER}.mlp.Wo.weight",)),
    ("bert.layer_norm.weight", ("model.final_norm.weight",)),
    ("bert.pooler.dense.weight", ("pooler.dense.weight",)),
    ("bert.pooler.layer_norm.weight", ("pooler.norm.weight",)),
)
"""The weights of `ModernBertModel`; its pooler is the head of classifiers there."""

_HEADS: Entries = (
    ("masked_lm.dense.weight", ("head.dense.weight",)),
    ("masked_lm.layer_norm.weight", ("head.norm.weight",)),
    ("masked_lm.bias", ("decoder.bias",)),
    *dense("qa_outputs", "classifier"),
    *(entry for entry in HEADS if not entry[0].startswith(("masked_lm.", "qa_outputs."))),
)

_CLASSIFIERS = (
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForMultipleChoice",
    "BertForQuestionAnswering",
)


class ModernBertEmbeddings(nn.Module):
    """Token embeddings, normalized; positions are in the attention."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.word_embeddings = embedding_table(config.vocab_size, config.hidden_size)
        self.layer_norm = _layer_norm(config)
        self._dropout_prob = config.hidden_dropout_prob

    def look_up(self, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the embeddings before LayerNorm, [T, D]."""
        return {"word": self.word_embeddings(batch.input_ids)}

    def forward(self, batch: PackedBatch) -> Tensor:
        """Return [T, D]."""
        hidden_TD = self.layer_norm(self.word_embeddings(batch.input_ids))
        hidden_TD = dropout(hidden_TD, self._dropout_prob if self.training else 0.0)
        return to_autocast_dtype(hidden_TD)


class ModernBertLayer(nn.Module):
    """Attention and a gated feed-forward layer, each after LayerNorm and within a residual connection.

    The first layer has no LayerNorm before its attention: that of the embeddings comes right before it.

    Source:
        Warner et al. 2024, 2.1; Shazeer 2020, "GLU variants improve Transformer", equation 6 (GeGLU).

    Differs:
        Query, key and value are one matrix product, and so are both factors of the feed-forward layer.
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
        self.half_window = config.local_attention // 2
        self.num_heads = config.num_attention_heads
        self.hidden_act = config.hidden_act
        self._hidden_dropout_prob = config.hidden_dropout_prob
        self._attention_dropout_prob = config.attention_probs_dropout_prob

    def forward(self, hidden_TD: Tensor, batch: PackedBatch, rotation: Rotation) -> Tensor:
        """Return the next [T, D]."""
        hidden_dropout_prob = self._hidden_dropout_prob if self.training else 0.0
        attention_dropout_prob = self._attention_dropout_prob if self.training else 0.0

        qkv = self.project_qkv(hidden_TD, rotation)
        if self.is_global:
            context_TNH = attention(*qkv, batch, attention_dropout_prob)
        else:
            context_TNH = local_attention(*qkv, batch, attention_dropout_prob, half_window=self.half_window)
        attended_TD = self.attention_output(context_TNH.flatten(1))
        hidden_TD = hidden_TD + dropout(attended_TD, attention_dropout_prob)

        input_TI, gate_TI = self.intermediate(self.output_layer_norm(hidden_TD)).chunk(2, -1)
        gated_TI = dropout(ACTIVATIONS[self.hidden_act](input_TI) * gate_TI, hidden_dropout_prob)
        next_TD: Tensor = hidden_TD + self.output(gated_TI)
        return next_TD

    def project_qkv(self, hidden_TD: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor, Tensor]:
        """Return query and key, rotated by their positions, and value, each [T, N, H]."""
        qkv_TD = self.query_key_value(self.attention_layer_norm(hidden_TD))
        query_key_TMH, value_TNH = qkv_TD.unflatten(-1, (3 * self.num_heads, -1)).split(
            (2 * self.num_heads, self.num_heads), 1
        )
        query_TNH, key_TNH = rotate(query_key_TMH, rotation).chunk(2, 1)
        return query_TNH, key_TNH, value_TNH


class ModernBertHead(nn.Module):
    """A dense layer, an activation and LayerNorm, which classifiers have before their output layer."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.layer_norm = _layer_norm(config)
        self.hidden_act = config.hidden_act

    def forward(self, hidden: Tensor) -> Tensor:
        """Return vectors of the same shape."""
        transformed: Tensor = self.layer_norm(ACTIVATIONS[self.hidden_act](self.dense(hidden)))
        return transformed


@register_encoder("modernbert")
class ModernBertModel(Encoder):
    """ModernBERT, and the layers that its classifiers begin with as its pooler.

    Source:
        Warner et al. 2024, 2.1; Su et al. 2021, "RoFormer", 3.2 (rotary positions); transformers models/modernbert.
    """

    config_class: ClassVar[type[BertConfig]] = ModernBertConfig
    has_biases = False
    tokens_use_pooler = True
    config: ModernBertConfig
    pooler: ModernBertHead
    names = HuggingFaceNames(
        family="ModernBert",
        prefix="model.",
        bare=("embeddings.", "layers.", "final_norm."),
        words="embeddings.tok_embeddings.weight",
        heads=_HEADS,
        copies=MappingProxyType({"decoder.weight": "model.embeddings.tok_embeddings.weight"}),
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
        check_type(config, ModernBertConfig, "config", remedy="Give a ModernBertConfig")
        self.config = config
        self.embeddings = ModernBertEmbeddings(config)
        self.layers = nn.ModuleList(
            ModernBertLayer(config, number) for number in range(config.num_hidden_layers)
        )
        self.layer_norm = _layer_norm(config)
        self.pooler = ModernBertHead(config)
        initialize_weights(self, config.initializer_range, generator)
        with torch.no_grad():  # what is added to the residual stream is smaller, as in Megatron-LM
            for name, parameter in self.layers.named_parameters():
                if name.endswith("output.weight"):
                    parameter.div_((2 * config.num_hidden_layers) ** 0.5)

    @classmethod
    def weight_mapping(cls) -> Entries:
        """Return the names of the weights here and in model.safetensors."""
        return MODERN_BERT

    def hidden_matrices(self) -> list[HiddenMatrix]:
        """Return the matrices of the layers; query, key and value are one parameter, and so are two factors."""
        parts = {"query_key_value.weight": 3, "intermediate.weight": 2}
        return [
            HiddenMatrix(parameter, num_parts=parts.get(name.partition(".")[2], 1))
            for name, parameter in self.layers.named_parameters()
            if parameter.ndim == 2
        ]

    def encode(self, batch: PackedBatch, *, output_hidden_states: bool = False) -> EncoderOutput:
        """Encode a packed batch.

        Raises:
            InputError: an id for which the model has no embedding, or a text that is too long. (On a GPU only the
                lengths are checked, since reading ids would wait for the device.)
        """
        check_ids(batch, self.config)
        hidden_TD = self.embeddings(batch)
        rotations = {is_global: self.rotation(batch, is_global=is_global) for is_global in (True, False)}
        hidden_states = [hidden_TD]
        layers: Iterable[Any] = self.layers
        for layer in layers:
            hidden_TD = layer(hidden_TD, batch, rotations[layer.is_global])
            if output_hidden_states:
                hidden_states.append(hidden_TD)
        hidden_TD = hidden_states[-1] = self.layer_norm(hidden_TD)
        kept = tuple(hidden_states) if output_hidden_states else ()
        return EncoderOutput(hidden_TD, self.pool(hidden_TD, batch), kept)

    def pool(self, hidden_TD: Tensor, batch: PackedBatch) -> Tensor:
        """Return a vector for each sequence, [B, D], from [CLS] or the mean of all tokens."""
        pooled_BD: Tensor = self.pooler(pool(hidden_TD, batch, self.config.classifier_pooling))
        return pooled_BD

    def token_features(self, hidden_TD: Tensor) -> Tensor:
        """Return the vectors that heads on tokens read, [T, D]."""
        features_TD: Tensor = self.pooler(hidden_TD)
        return features_TD

    def project_qkv(self, layer: int, hidden_TD: Tensor, batch: PackedBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of a layer, each [T, N, H], from its input."""
        module: Any = self.layers[layer]
        projected: tuple[Tensor, Tensor, Tensor] = module.project_qkv(
            hidden_TD, self.rotation(batch, is_global=module.is_global)
        )
        return projected

    @property
    def half_window(self) -> int | None:
        """Tokens on each side to which a token attends in local layers; None if all layers are global."""
        config = self.config
        is_local = config.global_attn_every_n_layers > 1 and config.num_hidden_layers > 1
        return config.local_attention // 2 if is_local else None

    def rotation(self, batch: PackedBatch, *, is_global: bool) -> Rotation:
        """Return cosine and sine of the angles by which global or local layers rotate query and key."""
        config = self.config
        theta = config.global_rope_theta if is_global else config.local_rope_theta
        head_size = config.hidden_size // config.num_attention_heads
        table_2PH = angles(theta, head_size, self._num_positions(batch))
        cosine, sine = table_2PH.to(batch.position_ids.device).index_select(1, batch.position_ids)[:, :, None]
        return cosine, sine

    def _num_positions(self, batch: PackedBatch) -> int:
        """Return the rows of a table of angles: a power of two on a CPU, so that few tables are kept."""
        if batch.position_ids.device.type != "cpu":  # reading the highest would wait for the device
            return self.config.max_position_embeddings
        return 1 << int(batch.position_ids.max()).bit_length()


def _layer_norm(config: ModernBertConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=False)


MODERN_SIZES: Mapping[str, ModernBertConfig] = MappingProxyType(
    {
        "modern-tiny": _modern_size(2, 128),
        "modern-mini": _modern_size(4, 256),
        "modern-small": _modern_size(4, 512),
        "modern-medium": _modern_size(8, 512),
        "modern-base": ModernBertConfig(),
    }
)
"""The sizes of BERT with about as many parameters; base is the published one."""
