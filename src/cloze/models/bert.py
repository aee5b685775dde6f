"""The BERT encoder (Devlin et al. 2019, section 3): embeddings, Transformer layers and a pooler.

Shapes: T tokens in the packed batch, B sequences, L columns, D hidden, N heads, H head size, I intermediate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cloze.choices import AttendsTo, Pooling
from cloze.data.batch import PackedBatch
from cloze.models.attention import attention
from cloze.models.encoder import Encoder, register_encoder, to_autocast_dtype
from cloze.models.encoder_config import EncoderConfig
from cloze.models.functional import ACTIVATIONS, ActivationName, dropout
from cloze.models.weight_mapping import HEADS, Entries, HuggingFaceNames, WeightMapping, dense
from cloze.signatures import check_kind

_CAUSAL_MODEL_TYPE = "one-way-bert"
"""The model type of a BERT whose tokens attend to one side. Other programs refuse it, instead of attending to both.
(`is_decoder` of transformers is causal, but pools [CLS], which sees no text.)"""
POOLER_WEIGHT = 0.05
"""Scales vectors of about unit variance down to where the activations of poolers are linear."""
_MEAN_WEIGHT = 100.0


@dataclass(frozen=True, kw_only=True)
class BertConfig(EncoderConfig):
    """The architecture, with BERT-base as defaults and the names of transformers."""

    attends_to: AttendsTo = "all"
    """The tokens that each token attends to: all of its sequence, or itself and those on one side (section 5.1)."""

    def to_json(self) -> dict[str, Any]:
        table = super().to_json()
        if self.attends_to == "all":
            del table["attends_to"]
            return table
        return {**table, "model_type": _CAUSAL_MODEL_TYPE}


class BertEmbeddings(nn.Module):
    """The sum of token, segment and position embeddings, normalized (figure 2 of the paper).

    Some encoders have no segments, or one for both texts of a pair.

    Source: Devlin et al. 2019, 3 and figure 2; google-research/bert modeling.py:385, 428 @eedf571.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.word_embeddings = embedding_table(config.vocab_size, config.hidden_size)
        if config.has_token_types:
            self.token_type_embeddings = embedding_table(config.type_vocab_size, config.hidden_size)
        num_positions = config.max_position_embeddings + config.first_position
        self.position_embeddings = embedding_table(num_positions, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.config = config

    def look_up(self, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the embeddings that are summed, [T, D] each."""
        parts = {"word": self.word_embeddings(batch.input_ids)}
        if self.config.has_token_types:
            has_one = self.config.type_vocab_size == 1
            types_T = torch.zeros_like(batch.token_type_ids) if has_one else batch.token_type_ids
            parts["segment"] = self.token_type_embeddings(types_T)
        parts["position"] = self.position_embeddings(self.position_rows(batch))
        return parts

    def position_rows(self, batch: PackedBatch) -> Tensor:
        rows_T: Tensor = batch.position_ids + self.config.first_position
        return rows_T

    def forward(self, batch: PackedBatch) -> Tensor:
        parts = iter(self.look_up(batch).values())
        hidden_TD = next(parts)
        for part_TD in parts:
            hidden_TD = hidden_TD + part_TD
        hidden_dropout_prob = self.config.hidden_dropout_prob if self.training else 0.0
        return to_autocast_dtype(dropout(self.layer_norm(hidden_TD), hidden_dropout_prob))


def embedding_table(num_rows: int, width: int) -> nn.Embedding:
    """Return an embedding table without initial values: to draw them on the device `meta` imports torch's compiler."""
    rows = torch.empty(num_rows, width)
    table: nn.Embedding = nn.Embedding.from_pretrained(rows, freeze=False)  # type: ignore[no-untyped-call]
    return table


class BertLayer(nn.Module):
    """Self-attention and a feed-forward layer, each followed by dropout, a residual connection and LayerNorm.

    Source: Devlin et al. 2019, 3; Vaswani et al. 2017, 3.1; google-research/bert modeling.py:752 @eedf571.

    Differs: Query, key and value are one matrix product.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        hidden_size = config.hidden_size
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.attention_output = nn.Linear(hidden_size, hidden_size)
        self.attention_layer_norm = nn.LayerNorm(hidden_size, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, hidden_size)
        self.output_layer_norm = nn.LayerNorm(hidden_size, eps=config.layer_norm_eps)
        self.config = config

    def forward(
        self, hidden_TD: Tensor, batch: PackedBatch, biases: Sequence[Tensor] | None = None
    ) -> Tensor:
        """Return the next [T, D]; `biases` are as in `attention`."""
        config = self.config
        hidden_dropout_prob = config.hidden_dropout_prob if self.training else 0.0
        attention_dropout_prob = config.attention_probs_dropout_prob if self.training else 0.0

        query_TNH, key_TNH, value_TNH = self.project_qkv(hidden_TD)
        context_TNH = attention(
            query_TNH, key_TNH, value_TNH, batch, attention_dropout_prob, config.attends_to, biases
        )
        attended_TD = dropout(self.attention_output(context_TNH.flatten(-2)), hidden_dropout_prob)
        hidden_TD = self.attention_layer_norm(hidden_TD + attended_TD)

        intermediate_TI = ACTIVATIONS[config.hidden_act](self.intermediate(hidden_TD))
        output_TD = dropout(self.output(intermediate_TI), hidden_dropout_prob)
        next_TD: Tensor = self.output_layer_norm(hidden_TD + output_TD)
        return next_TD

    def project_qkv(self, hidden_TD: Tensor, _: object = None) -> tuple[Tensor, Tensor, Tensor]:
        num_heads = self.config.num_attention_heads
        query_TNH, key_TNH, value_TNH = (
            part_TD.unflatten(-1, (num_heads, -1)) for part_TD in self.query_key_value(hidden_TD).chunk(3, -1)
        )
        return query_TNH, key_TNH, value_TNH


class Pooler(nn.Linear):
    """A dense layer and an activation on the vector of a sequence."""

    activation: ClassVar[ActivationName] = "tanh"
    linear_at: ClassVar[float] = 0.0
    """The input around which the activation is linear."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config.hidden_size, config.hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        return ACTIVATIONS[self.activation](super().forward(hidden))


class DenseTransform(nn.Module):
    """A dense layer, an activation and LayerNorm on vectors, before the output layer of a head."""

    def __init__(self, config: EncoderConfig, activation: ActivationName, *, bias: bool) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=bias)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=bias)
        self._activation = activation

    def transform(self, hidden: Tensor) -> Tensor:
        transformed: Tensor = self.layer_norm(ACTIVATIONS[self._activation](self.dense(hidden)))
        return transformed

    forward: Callable[..., Tensor] = transform


_LAYER = "bert.encoder.layer.{i}"

BERT: Entries = {
    **{
        name: (name,)
        for name in (
            f"bert.embeddings.{kind}_embeddings.weight" for kind in ("word", "token_type", "position")
        )
    },
    **dense("bert.embeddings.layer_norm", "bert.embeddings.LayerNorm"),
    **{
        f"bert.layers.{{i}}.query_key_value.{part}": tuple(
            f"{_LAYER}.attention.self.{name}.{part}" for name in ("query", "key", "value")
        )
        for part in ("weight", "bias")
    },
    **dense("bert.layers.{i}.attention_output", f"{_LAYER}.attention.output.dense"),
    **dense("bert.layers.{i}.attention_layer_norm", f"{_LAYER}.attention.output.LayerNorm"),
    **dense("bert.layers.{i}.intermediate", f"{_LAYER}.intermediate.dense"),
    **dense("bert.layers.{i}.output", f"{_LAYER}.output.dense"),
    **dense("bert.layers.{i}.output_layer_norm", f"{_LAYER}.output.LayerNorm"),
    **dense("bert.pooler", "bert.pooler.dense"),
}
"""The weights of `BertModel`."""


def _google_name(name: str) -> str:
    special = {
        "cls.predictions.bias": "cls/predictions/output_bias",
        "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
        "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
        "classifier.weight": "output_weights",
        "classifier.bias": "output_bias",
        "qa_outputs.weight": "cls/squad/output_weights",
        "qa_outputs.bias": "cls/squad/output_bias",
    }
    if name in special:
        return special[name]
    path = name.replace(".layer.{i}.", ".layer_{i}.").replace(".", "/")
    if "LayerNorm/" in path:
        return path.replace("LayerNorm/weight", "LayerNorm/gamma").replace("LayerNorm/bias", "LayerNorm/beta")
    return path.replace("_embeddings/weight", "_embeddings").replace("/weight", "/kernel")


GOOGLE = WeightMapping(
    {name: tuple(map(_google_name, external)) for name, external in {**BERT, **HEADS}.items()},
    transposed_suffix="/kernel",
)
"""The TensorFlow checkpoints of google-research/bert, without optimizer slots and `global_step`."""


@register_encoder("bert", _CAUSAL_MODEL_TYPE)
class BertModel(Encoder):
    """BERT with its pooler: the result of pre-training and the start of every task."""

    config_class: ClassVar[type[EncoderConfig]] = BertConfig
    size_prefix = ""
    names = HuggingFaceNames(encoder=BERT)
    layer_steps = MappingProxyType(
        {
            "context": ("attention_output", 0),  # the outputs of all heads, side by side
            "attended": ("attention_output", 1),  # a dense layer on them
            "attention_sum": ("attention_layer_norm", 0),  # that plus the input of the layer
            "attention_normalized": ("attention_layer_norm", 1),
            "intermediate": ("output", 0),  # a dense layer and the activation
            "output": ("output", 1),  # a dense layer back to [D]
            "output_sum": ("output_layer_norm", 0),  # that plus `attention_normalized`
            "normalized": ("output_layer_norm", 1),  # the output of the layer
        }
    )
    embeddings_class: ClassVar[type[BertEmbeddings]] = BertEmbeddings
    pooler_class: ClassVar[type[Pooler]] = Pooler

    def __init__(self, config: EncoderConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        check_kind(config, self.config_class, "config")
        self.config = config
        self.embeddings = self.embeddings_class(config)
        self.layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        self.pooler = self.pooler_class(config)
        initialize_weights(self, config.initializer_range, generator)

    @torch.no_grad()
    def pool_linearly(self, pooling: Pooling) -> None:
        """Let the pooler pass on small values, for which its activation is linear, after a layer that takes the mean.

        In that layer all tokens have equal weights, since query and key are 0, and the value is the token itself. The
        mean outweighs the residual connection; LayerNorm scales it, and the feed-forward layer adds 0.
        """
        if pooling == "max" or self.attention_bias(1) is not None:
            super().pool_linearly(pooling)  # refuses it
        identity = torch.eye(self.config.hidden_size)
        if pooling != "cls":
            layer = BertLayer(self.config)
            for parameter in layer.parameters():
                parameter.zero_()
            layer.query_key_value.weight[-len(identity) :] = identity
            layer.attention_output.weight.copy_(_MEAN_WEIGHT * identity)
            for layer_norm in (layer.attention_layer_norm, layer.output_layer_norm):
                layer_norm.reset_parameters()
            self.layers.append(layer)
            self.config = replace(self.config, num_hidden_layers=len(self.layers))
        self.pooler.weight.copy_(POOLER_WEIGHT * identity)
        self.pooler.bias.fill_(self.pooler.linear_at)


@torch.no_grad()
def initialize_weights(
    module: nn.Module, initializer_range: float, generator: torch.Generator | None = None
) -> None:
    """Set every parameter of a module to its initial value, drawn by `generator` or else by torch's default one.

    | parameter | initial value |
    |---|---|
    | weight of a dense layer or an embedding | normal with deviation `initializer_range`, truncated at 2 deviations |
    | bias | 0 |
    | LayerNorm gain | 1 |

    Source: google-research/bert modeling.py:377 @eedf571.
    """
    for inner in module.modules():
        if isinstance(inner, nn.Linear | nn.Embedding):
            limit = 2 * initializer_range
            nn.init.trunc_normal_(inner.weight, std=initializer_range, a=-limit, b=limit, generator=generator)
        if isinstance(inner, nn.Linear):
            if inner.bias is not None:
                inner.bias.zero_()
        elif isinstance(inner, nn.LayerNorm):
            inner.reset_parameters()
