"""The BERT encoder (Devlin et al. 2019, section 3): embeddings, Transformer layers and a pooler.

Shapes: T tokens in the packed batch, B sequences, D hidden, N heads, H head size, I intermediate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from cloze.arguments import check_type
from cloze.config import check_types
from cloze.data.batch import PackedBatch
from cloze.errors import InputError
from cloze.models.attention import AttendsTo, attention
from cloze.models.dropout import dropout
from cloze.models.encoder import Encoder, EncoderOutput, HiddenMatrix, register_encoder, to_autocast_dtype
from cloze.models.weight_mapping import BERT, Entries


@dataclass(frozen=True, kw_only=True, slots=True)
class BertConfig:
    """The architecture, with BERT-base as defaults and the names of transformers."""

    json_names: ClassVar[Mapping[str, str | None]] = MappingProxyType({})
    """Fields whose names in config.json differ; None for one that the file does not have."""

    vocab_size: int = 30_522
    """Tokens in the vocabulary; the released uncased models have 30,522."""
    hidden_size: int = 768
    """H in the paper: the width of each layer's input and output."""
    num_hidden_layers: int = 12
    """L in the paper."""
    num_attention_heads: int = 12
    """A in the paper; divides `hidden_size`."""
    intermediate_size: int = 3072
    """Width of the feed-forward layer, 4H in the paper."""
    hidden_act: Literal["gelu", "gelu_tanh"] = "gelu"
    """`gelu` is the erf form, `gelu_tanh` Google's since February 2019 ("gelu_new" in transformers)."""
    hidden_dropout_prob: float = 0.1
    """Dropout after the embeddings and after both halves of every layer."""
    attention_probs_dropout_prob: float = 0.1
    """Dropout of the attention weights."""
    max_position_embeddings: int = 512
    """The longest sequence, in tokens."""
    type_vocab_size: int = 2
    """Segments: A and B."""
    initializer_range: float = 0.02
    """Standard deviation of the initial weights, which are truncated at twice that."""
    layer_norm_eps: float = 1e-12
    """Added to the variance in LayerNorm."""
    attends_to: AttendsTo = "all"
    """The tokens that each token attends to: all of its sequence, or itself and those on one side (section 5.1)."""

    @property
    def embedding_weights(self) -> int:
        """Weights of the tables of embeddings."""
        return self.hidden_size * (self.vocab_size + self.max_position_embeddings + self.type_vocab_size)

    @property
    def layer_weights(self) -> int:
        """Weights of the matrices of a layer."""
        return 4 * self.hidden_size**2 + 2 * self.hidden_size * self.intermediate_size

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the fields in config.json, without checking them."""
        names = {field.name: cls.json_names.get(field.name, field.name) for field in fields(cls)}
        return {field: table[name] for field, name in names.items() if name is not None and name in table}

    def to_json(self) -> dict[str, Any]:
        """Return the table of config.json."""
        names = {field.name: self.json_names.get(field.name, field.name) for field in fields(self)}
        return {name: getattr(self, field) for field, name in names.items() if name is not None}

    def __post_init__(self) -> None:
        check_types(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{field.name} = {value} must be at least 1")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size = {self.hidden_size} is not a multiple of "
                f"num_attention_heads = {self.num_attention_heads}"
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} must be at least 0 and less than 1")
        for name in ("initializer_range", "layer_norm_eps"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} = {getattr(self, name)} must be more than 0 and at most 1")


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"gelu": nn.functional.gelu, "gelu_tanh": partial(nn.functional.gelu, approximate="tanh")}
)


def _size(num_hidden_layers: int, hidden_size: int) -> BertConfig:
    return BertConfig(
        num_hidden_layers=num_hidden_layers,
        hidden_size=hidden_size,
        num_attention_heads=hidden_size // 64,
        intermediate_size=4 * hidden_size,
    )


SIZES: Mapping[str, BertConfig] = MappingProxyType(
    {
        "tiny": _size(2, 128),
        "mini": _size(4, 256),
        "small": _size(4, 512),
        "medium": _size(8, 512),
        "base": _size(12, 768),
        "large": _size(24, 1024),
    }
)
"""The sizes that Google released; base and large are the paper's."""


class BertEmbeddings(nn.Module):
    """The sum of token, segment and position embeddings, normalized (figure 2 of the paper).

    A subclass may leave segments out, or number positions from another row of their table.

    Source:
        Devlin et al. 2019, 3 and figure 2; google-research/bert modeling.py:385, 428 @eedf571.
    """

    has_token_types: ClassVar[bool] = True
    """Whether there are segment embeddings."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = embedding_table(config.vocab_size, config.hidden_size)
        if self.has_token_types:
            self.token_type_embeddings = embedding_table(config.type_vocab_size, config.hidden_size)
        self.first_position = self.position_offset(config)
        num_positions = config.max_position_embeddings + self.first_position
        self.position_embeddings = embedding_table(num_positions, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self._dropout_prob = config.hidden_dropout_prob

    @classmethod
    def position_offset(cls, config: BertConfig) -> int:
        """Return the row of the first position."""
        return 0

    def look_up(self, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the embeddings that are summed, [T, D] each."""
        parts = {"word": self.word_embeddings(batch.input_ids)}
        if self.has_token_types:
            parts["segment"] = self.token_type_embeddings(batch.token_type_ids)
        parts["position"] = self.position_embeddings(batch.position_ids + self.first_position)
        return parts

    def forward(self, batch: PackedBatch) -> Tensor:
        """Return [T, D]."""
        parts = iter(self.look_up(batch).values())
        hidden_TD = next(parts)
        for part_TD in parts:
            hidden_TD = hidden_TD + part_TD
        hidden_TD = dropout(self.layer_norm(hidden_TD), self._dropout_prob if self.training else 0.0)
        return to_autocast_dtype(hidden_TD)


def embedding_table(num_rows: int, hidden_size: int) -> nn.Embedding:
    """Return an embedding table without initial values.

    `nn.Embedding(...)` draws them, which on the device `meta` imports torch's compiler.
    """
    rows = torch.empty(num_rows, hidden_size)
    table: nn.Embedding = nn.Embedding.from_pretrained(rows, freeze=False)  # type: ignore[no-untyped-call]
    return table


class BertLayer(nn.Module):
    """Self-attention and a feed-forward layer, each followed by dropout, a residual connection and LayerNorm.

    Source:
        Devlin et al. 2019, 3; Vaswani et al. 2017, 3.1; google-research/bert modeling.py:752 @eedf571.

    Differs:
        Query, key and value are one matrix product.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        hidden_size = config.hidden_size
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.attention_output = nn.Linear(hidden_size, hidden_size)
        self.attention_layer_norm = nn.LayerNorm(hidden_size, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, hidden_size)
        self.output_layer_norm = nn.LayerNorm(hidden_size, eps=config.layer_norm_eps)
        self._activation = ACTIVATIONS[config.hidden_act]
        self._num_heads = config.num_attention_heads
        self._attends_to = config.attends_to
        self._hidden_dropout_prob = config.hidden_dropout_prob
        self._attention_dropout_prob = config.attention_probs_dropout_prob

    def forward(self, hidden_TD: Tensor, batch: PackedBatch) -> Tensor:
        """Return the next [T, D]."""
        hidden_dropout_prob = self._hidden_dropout_prob if self.training else 0.0
        attention_dropout_prob = self._attention_dropout_prob if self.training else 0.0

        query_TNH, key_TNH, value_TNH = self.project_qkv(hidden_TD)
        context_TNH = attention(
            query_TNH, key_TNH, value_TNH, batch, attention_dropout_prob, self._attends_to
        )
        attended_TD = dropout(self.attention_output(context_TNH.flatten(1)), hidden_dropout_prob)
        hidden_TD = self.attention_layer_norm(hidden_TD + attended_TD)

        intermediate_TI = self._activation(self.intermediate(hidden_TD))
        output_TD = dropout(self.output(intermediate_TI), hidden_dropout_prob)
        next_TD: Tensor = self.output_layer_norm(hidden_TD + output_TD)
        return next_TD

    def project_qkv(self, hidden_TD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value, each [T, N, H]."""
        qkv_T3NH = self.query_key_value(hidden_TD).unflatten(-1, (3, self._num_heads, -1))
        query_TNH, key_TNH, value_TNH = qkv_T3NH.unbind(1)
        return query_TNH, key_TNH, value_TNH


@register_encoder("bert")
class BertModel(Encoder):
    """BERT with its pooler: the result of pre-training and the start of every task."""

    config_class: ClassVar[type[BertConfig]] = BertConfig
    embeddings_class: ClassVar[type[BertEmbeddings]] = BertEmbeddings

    def __init__(self, config: BertConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        check_type(config, BertConfig, "config", remedy="Give a cloze.BertConfig")
        self.config = config
        self.embeddings = self.embeddings_class(config)
        self.layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        initialize_weights(self, config.initializer_range, generator)

    @classmethod
    def weight_mapping(cls) -> Entries:
        """Return the names of the weights here and in model.safetensors."""
        return BERT

    def hidden_matrices(self) -> list[HiddenMatrix]:
        """Return the matrices of the layers; query, key and value are one parameter of three."""
        return [
            HiddenMatrix(parameter, num_parts=3 if "query_key_value" in name else 1)
            for name, parameter in self.layers.named_parameters()
            if parameter.ndim == 2
        ]

    @property
    def is_causal(self) -> bool:
        """Whether a token attends only to itself and tokens to its left."""
        return self.config.attends_to == "left"

    def encode(self, batch: PackedBatch, *, output_hidden_states: bool = False) -> EncoderOutput:
        """Encode a packed batch.

        Raises:
            InputError: an id, a segment or a position for which the model has no embedding. (On a GPU only the
                lengths are checked, since reading ids would wait for the device.)
        """
        check_ids(batch, self.config)
        hidden_TD = self.embeddings(batch)
        hidden_states = [hidden_TD]
        for layer in self.layers:
            hidden_TD = layer(hidden_TD, batch)
            if output_hidden_states:
                hidden_states.append(hidden_TD)
        kept = tuple(hidden_states) if output_hidden_states else ()
        return EncoderOutput(hidden_TD, self.pool(hidden_TD, batch), kept)


@torch.no_grad()
def initialize_weights(
    module: nn.Module, initializer_range: float, generator: torch.Generator | None = None
) -> None:
    """Set every parameter of a module to its initial value.

    | parameter | initial value |
    |---|---|
    | weight of a dense layer or an embedding | normal with deviation `initializer_range`, truncated at 2 deviations |
    | bias | 0 |
    | LayerNorm gain | 1 |

    Args:
        generator: the same state gives the same weights; None takes torch's default generator.

    Source:
        google-research/bert modeling.py:377 @eedf571.
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


def check_ids(batch: PackedBatch, config: BertConfig) -> None:
    """Refuse a batch that has no embedding; on a GPU only its lengths are checked.

    Raises:
        InputError: an id, a segment or a position is too large, or a text too long.
    """
    if batch.max_seqlen > config.max_position_embeddings:
        what = f"{batch.max_seqlen} tokens, the model takes {config.max_position_embeddings}"
        raise InputError(what, where="input_ids", remedy="Truncate or split the text")
    if batch.input_ids.device.type != "cpu":
        return
    tables = (
        ("input_ids", batch.input_ids, config.vocab_size),
        ("token_type_ids", batch.token_type_ids, config.type_vocab_size),
        ("position_ids", batch.position_ids, config.max_position_embeddings),
    )
    for name, ids_T, num_rows in tables:
        lowest, highest = (int(bound) for bound in ids_T.aminmax())
        if lowest < 0 or highest >= num_rows:
            wrong = lowest if lowest < 0 else highest
            raise InputError(f"{wrong} is not in 0..{num_rows - 1}", where=name)
