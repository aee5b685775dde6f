"""The config of an encoder, by the names of transformers, and the costs that follow from it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from cloze.choices import AttendsTo
from cloze.config import Range, Settings

SIZES: Mapping[str, tuple[int, int]] = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
"""Layers and hidden size of the BERTs that Google released; base and large are the paper's."""

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
}
"""The names of activations in config.json, and here."""
_JSON_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new"}
REQUIRED = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
_MAX_PARAMETERS = 4_000_000_000
"""A limit for damaged files, as `Size` has one, since a model is built before its weights are read."""

Size: TypeAlias = Annotated[int, Range("[1, 10000000]")]
Layers: TypeAlias = Annotated[int, Range("[1, 1000]")]
Probability: TypeAlias = Annotated[float, Range("[0, 1)")]
Small: TypeAlias = Annotated[float, Range("(0, 1]")]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Settings):
    """The fields that all encoders have, with BERT-base as defaults."""

    json_names: ClassVar[Mapping[str, str | None]] = MappingProxyType({})
    """Fields whose names in config.json differ; None for one that the file does not have."""
    has_token_types: ClassVar[bool] = True
    """Whether there are segment embeddings."""
    counts_padding: ClassVar[bool] = True
    """Whether the position of a token in a padded batch is its column; else it is that among the real tokens."""

    vocab_size: Size = 30_522
    """Tokens in the vocabulary; the released uncased models have 30,522."""
    hidden_size: Size = 768
    """H in the paper: the width of each layer's input and output."""
    num_hidden_layers: Layers = 12
    """L in the paper."""
    num_attention_heads: Size = 12
    """A in the paper; divides `hidden_size`."""
    intermediate_size: Size = 3072
    """Width of the feed-forward layer, 4H in the paper."""
    hidden_act: Literal["gelu", "gelu_tanh"] = "gelu"
    """`gelu` is the erf form, `gelu_tanh` Google's since February 2019 ("gelu_new" in transformers)."""
    hidden_dropout_prob: Probability = 0.1
    """Dropout after the embeddings and after both halves of every layer."""
    attention_probs_dropout_prob: Probability = 0.1
    """Dropout of the attention weights."""
    max_position_embeddings: Size = 512
    """The longest sequence, in tokens; config.json has the rows of the table, `first_position` more."""
    type_vocab_size: Size = 2
    """Segments: A and B."""
    initializer_range: Small = 0.02
    """Standard deviation of the initial weights, which are truncated at twice that."""
    layer_norm_eps: Small = 1e-12
    """Added to the variance in LayerNorm."""

    def _check(self) -> None:
        if self.hidden_size % self.num_attention_heads:
            heads = f"num_attention_heads = {self.num_attention_heads}"
            raise ValueError(f"hidden_size = {self.hidden_size} is not a multiple of {heads}")
        if self.num_parameters > _MAX_PARAMETERS:
            raise ValueError(f"a model of {self.num_parameters:,} parameters, more than {_MAX_PARAMETERS:,}")

    @classmethod
    def of_size(cls, num_hidden_layers: int, hidden_size: int) -> Self:
        """Return the config of a size in `SIZES`."""
        return cls(
            num_hidden_layers=num_hidden_layers,
            hidden_size=hidden_size,
            num_attention_heads=hidden_size // 64,
            intermediate_size=4 * hidden_size,
        )

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the unchecked values of the fields in config.json; a ValueError for an encoder that cloze lacks."""
        names = {field.name: cls.json_names.get(field.name, field.name) for field in fields(cls)}
        values = {field: table[name] for field, name in names.items() if name is not None and name in table}
        if "hidden_act" in values:
            values["hidden_act"] = _ACTIVATIONS.get(str(values["hidden_act"]), values["hidden_act"])
        return values

    def to_json(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["hidden_act"] = _JSON_ACTIVATIONS[self.hidden_act]
        names = {field: self.json_names.get(field, field) for field in values}
        return {name: values[field] for field, name in names.items() if name is not None}

    @property
    def attends_to(self) -> AttendsTo:
        """The tokens that each token attends to: all of its sequence, or itself and those on one side."""
        return "all"

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def first_position(self) -> int:
        """The row of the first position in the table of position embeddings."""
        return 0

    def with_padding(self, pad_id: int) -> Self:
        """Return the config for a tokenizer with this padding token."""
        return self

    @property
    def embedding_weights(self) -> int:
        rows = self.vocab_size + self.max_position_embeddings + self.first_position
        return self.hidden_size * (rows + self.has_token_types * self.type_vocab_size)

    @property
    def layer_weights(self) -> int:
        return 4 * self.hidden_size**2 + 2 * self.hidden_size * self.intermediate_size

    @property
    def num_parameters(self) -> int:
        """Weights of the embeddings, the layers and the pooler, without biases and LayerNorms."""
        return self.embedding_weights + self.num_hidden_layers * self.layer_weights + self.hidden_size**2
