"""The interface of encoders, and the registry of them by `model_type`.

Shapes: T tokens in the packed batch, B sequences, L columns of a padded batch, D hidden.
"""

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

import cloze.models
from cloze.data.batch import PackedBatch
from cloze.errors import InputError
from cloze.models.batch import pack_padded
from cloze.models.weight_mapping import BERT_NAMES, Entries, HuggingFaceNames

if TYPE_CHECKING:
    from cloze.models.bert import BertConfig

EncoderClass = TypeVar("EncoderClass", bound="type[Encoder]")

_POOLER_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"Tanh": torch.tanh, "Relu": torch.relu}
)


class EncoderOutput(NamedTuple):
    """The output of an encoder: [T, D] and [B, D] for a packed batch, [B, L, D] and [B, D] for a padded one."""

    sequence_output: Tensor
    """The last layer, a vector for each token: T_i in the paper."""
    pooled_output: Tensor
    """A vector for each sequence: a dense layer and tanh on [CLS], or on the last token of a causal encoder."""
    hidden_states: tuple[Tensor, ...]
    """The embeddings and the output of every layer where requested, else empty."""


class HiddenMatrix(NamedTuple):
    """A weight of the layers, made of `num_parts` matrices stacked along the first axis."""

    parameter: nn.Parameter
    num_parts: int = 1


class Encoder(nn.Module):
    """Base class of encoders: `encode` and `weight_mapping` are all that a new one must define.

    Its config class is `BertConfig` or a subclass, and the first argument of its constructor. It sets `embeddings`, a
    module from a batch to [T, D] that has `word_embeddings`; `layers`; and `pooler`.
    """

    config_class: ClassVar[type["BertConfig"]]
    names: ClassVar[HuggingFaceNames] = BERT_NAMES
    """The names of its classes, heads and files in transformers."""
    pooler_activation: ClassVar[Literal["Tanh", "Relu"]] = "Tanh"
    """The function after the dense layer `pooler`, by its name in ONNX."""
    token_outputs: ClassVar[tuple[str, ...]] = ("last_hidden_state",)
    """The `named_outputs` that have a value for each token; the others have one for each sequence."""
    has_biases: ClassVar[bool] = True
    """Whether the dense layers and LayerNorms of the encoder and of its masked-LM head have biases."""
    masked_lm_activation: ClassVar[Literal["gelu", "gelu_tanh"] | None] = None
    """The activation of the masked-LM head; None is that of the config."""
    counts_padding: ClassVar[bool] = True
    """Whether the position of a token in a padded batch is its column; else it is that among the real tokens."""
    tokens_use_pooler: ClassVar[bool] = False
    """Whether classifiers of tokens read them through the pooler, too."""
    config: "BertConfig"
    embeddings: Any
    layers: nn.ModuleList
    pooler: nn.Module
    autocast_dtype: torch.dtype | None = None
    """Number format of matrix products where the caller does not set one; the outputs are float32."""

    @classmethod
    def weight_mapping(cls) -> Entries:
        """Return the names of the weights, prefixed with `bert.`, and their names in model.safetensors."""
        raise NotImplementedError

    def encode(self, batch: PackedBatch, *, output_hidden_states: bool = False) -> EncoderOutput:
        """Encode a packed batch.

        Args:
            batch: tensors, on the device of the weights.
            output_hidden_states: also return the embeddings and the output of every layer.
        """
        raise NotImplementedError

    def hidden_matrices(self) -> list[HiddenMatrix]:
        """Return the matrices of the layers, which Muon trains."""
        return [HiddenMatrix(parameter) for parameter in self.layers.parameters() if parameter.ndim == 2]

    def pool(self, hidden_TD: Tensor, batch: PackedBatch) -> Tensor:
        """Return a vector for each sequence, [B, D], from [CLS], or from the last token of a causal encoder."""
        # in a causal encoder only the last token has attended to all others
        tokens_B = batch.cu_seqlens[1:] - 1 if self.is_causal else batch.cu_seqlens[:-1]
        return _POOLER_ACTIVATIONS[self.pooler_activation](self.pooler(hidden_TD.index_select(0, tokens_B)))

    def token_features(self, hidden_TD: Tensor) -> Tensor:
        """Return the vectors that classifiers of tokens read, [T, D], from the last layer."""
        return hidden_TD

    def project_qkv(self, layer: int, hidden_TD: Tensor, batch: PackedBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of a layer, each [T, N, H], from its input."""
        module: Any = self.layers[layer]
        projected: tuple[Tensor, Tensor, Tensor] = module.project_qkv(hidden_TD)
        return projected

    @property
    def half_window(self) -> int | None:
        """Tokens on each side to which a token attends in layers with local attention; None if there are none."""
        return None

    @classmethod
    def has_published_pooler(cls) -> bool:
        """Whether transformers has the pooler in the encoder; else it is a part of the heads that read it."""
        poolers = [names[0] for name, names in cls.weight_mapping() if name.startswith("bert.pooler.")]
        return all(name.startswith(cls.names.prefix) for name in poolers)

    @property
    def is_causal(self) -> bool:
        """Whether a token attends only to itself and tokens to its left, so that [CLS] sees no text."""
        return False

    def forward(
        self,
        input_ids: PackedBatch | Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        output_hidden_states: bool = False,
    ) -> EncoderOutput:
        """Encode a packed batch, or a padded one, which is packed first.

        Shapes:
            input_ids, attention_mask, token_type_ids of a padded batch [B, L]; its outputs are 0 at the padding.

        Args:
            input_ids: a `PackedBatch` of tensors, and nothing else; or the ids of a padded batch.
            attention_mask: bool, True = real.
            token_type_ids: 0 for segment A, 1 for B.
            output_hidden_states: also return the embeddings and the output of every layer.

        Raises:
            InputError: as `encode`, and for a mask of another dtype or an empty row.
        """
        if isinstance(input_ids, PackedBatch):
            if attention_mask is not None or token_type_ids is not None:
                name = "token_type_ids" if attention_mask is None else "attention_mask"
                remedy = "Leave it out, or give the padded tensor input_ids"
                raise InputError(
                    "a packed batch has no padding and has its own types", where=name, remedy=remedy
                )
            return self._encode(input_ids, output_hidden_states=output_hidden_states)
        batch, padding = pack_padded(
            input_ids, attention_mask, token_type_ids, counts_padding=self.counts_padding
        )
        output = self._encode(batch, output_hidden_states=output_hidden_states)
        return EncoderOutput(
            padding.unpack_tokens(output.sequence_output),
            padding.unpack_sequences(output.pooled_output),
            tuple(padding.unpack_tokens(hidden_TD) for hidden_TD in output.hidden_states),
        )

    def _encode(self, batch: PackedBatch, *, output_hidden_states: bool) -> EncoderOutput:
        if self.autocast_dtype is None:
            return self.encode(batch, output_hidden_states=output_hidden_states)
        with torch.autocast(batch.input_ids.device.type, dtype=self.autocast_dtype):
            output = self.encode(batch, output_hidden_states=output_hidden_states)
        hidden_states = tuple(hidden_TD.float() for hidden_TD in output.hidden_states)
        return EncoderOutput(output.sequence_output.float(), output.pooled_output.float(), hidden_states)

    def named_outputs(self, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the outputs by their names in transformers."""
        output = self(batch)
        pooled = {"pooler_output": output.pooled_output} if self.has_published_pooler() else {}
        return {"last_hidden_state": output.sequence_output, **pooled}


ENCODERS: dict[str, type[Encoder]] = {}


def register_encoder(model_type: str) -> Callable[[EncoderClass], EncoderClass]:
    """Register an encoder under its `model_type` in config.json.

    Raises:
        ValueError: the name is taken.
    """

    def register(encoder_class: EncoderClass) -> EncoderClass:
        if model_type in ENCODERS:
            both = f"{ENCODERS[model_type]} and {encoder_class}"
            raise ValueError(f"encoder {model_type!r} is registered twice: {both}")
        ENCODERS[model_type] = encoder_class
        return encoder_class

    return register


def encoders() -> Mapping[str, type[Encoder]]:
    """Return every encoder by its `model_type`; imports the modules of this package to find them."""
    for module in pkgutil.iter_modules(cloze.models.__path__):
        importlib.import_module(f"{cloze.models.__name__}.{module.name}")
    return MappingProxyType(ENCODERS)


def get_config_class(model_type: str) -> "type[BertConfig] | None":
    """Return the config class of an encoder, or None if there is no such encoder."""
    encoder_class = ENCODERS.get(model_type) or encoders().get(model_type)
    return None if encoder_class is None else encoder_class.config_class


def get_model_type(config: "BertConfig") -> str:
    """Return the `model_type` of the encoder with this config class."""
    return next(name for name, encoder in ENCODERS.items() if encoder.config_class is type(config))


def get_encoder_class(config: "BertConfig") -> type[Encoder]:
    """Return the encoder with this config class."""
    return ENCODERS[get_model_type(config)]


def check_layers(layers: Sequence[int], count: int, *, where: object) -> None:
    """Refuse layers for a student that an encoder of `count` layers does not have, as `keep_layers` does."""
    if missing := [layer for layer in layers if not 0 <= layer < count]:
        what = f"has no layer {missing[0]} for the student"
        raise InputError(what, where=where, remedy=f"Take some of 0 to {count - 1}")


def keep_layers(encoder: Encoder, layers: Sequence[int], *, where: object) -> Encoder:
    """Remove all layers of an encoder but some, and return it.

    Args:
        encoder: the encoder.
        layers: those to keep, counted from 0.
        where: the source of the encoder, for errors.

    Raises:
        InputError: the encoder has no such layer.
    """
    check_layers(layers, len(encoder.layers), where=where)
    encoder.layers = nn.ModuleList(encoder.layers[layer] for layer in layers)
    encoder.config = dataclasses.replace(encoder.config, num_hidden_layers=len(layers))
    return encoder


def build_encoder(config: "BertConfig", *, generator: torch.Generator | None = None) -> Encoder:
    """Return a new encoder of a config.

    Args:
        config: decides the class.
        generator: for the initial weights; None takes torch's default generator.
    """
    constructor: Any = get_encoder_class(config)
    encoder: Encoder = constructor(config, generator=generator)
    return encoder


def to_autocast_dtype(values: Tensor) -> Tensor:
    """Return values in the dtype of autocast where it is enabled, or each layer would convert its input and output."""
    device = values.device.type
    return values.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else values


def with_dropout(encoder: Encoder, *, hidden: float, attention: float) -> Encoder:
    """Return an encoder with the same weights and other probabilities of dropout.

    Args:
        encoder: gives its weights, which both share.
        hidden: for hidden states, from 0 to less than 1.
        attention: for attention weights.
    """
    config = dataclasses.replace(
        encoder.config, hidden_dropout_prob=hidden, attention_probs_dropout_prob=attention
    )
    with torch.device("meta"):  # shapes only
        same = build_encoder(config)
    same.load_state_dict(encoder.state_dict(), assign=True)
    return same


def find_encoder(model: nn.Module) -> Encoder | None:
    """Return the encoder of a model: the model itself or its attribute `bert`; None if it has none."""
    encoder = model if isinstance(model, Encoder) else getattr(model, "bert", None)
    return encoder if isinstance(encoder, Encoder) else None


def get_encoder(model: nn.Module) -> Encoder:
    """Return the encoder of a model.

    Raises:
        TypeError: it has none.
    """
    encoder = find_encoder(model)
    if encoder is None:
        raise TypeError(f"{type(model).__name__} has no encoder")
    return encoder
