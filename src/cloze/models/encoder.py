"""The interface of encoders, and the registry of them by `model_type`.

Shapes: T tokens in the packed batch, B sequences, L columns of a padded batch, D hidden.
"""

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

import cloze.models
from cloze.choices import Pooling
from cloze.data.batch import PackedBatch
from cloze.errors import InputError
from cloze.models.batch import PaddedBatch, check_ids, pack_padded
from cloze.models.encoder_config import SIZES, EncoderConfig
from cloze.models.functional import ActivationName
from cloze.models.weight_mapping import HuggingFaceNames
from cloze.suggestions import list_names

EncoderClass = TypeVar("EncoderClass", bound="type[Encoder]")


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
    """Base class of encoders.

    The config, a subclass of `EncoderConfig` of its own, is the first argument of the constructor, which sets
    `embeddings`, a module from a batch to [T, D] that has `word_embeddings`; `layers`, modules from [T, D], the batch
    and the result of `prepare` to [T, D]; and `pooler`, a module from [..., D] to vectors of that shape. To be
    exported they also take a `PaddedBatch`, with [B, L, D] for [T, D].
    """

    config_class: ClassVar[type[EncoderConfig]]
    model_type: ClassVar[str]
    """Its name in config.json, set by `register_encoder`."""
    size_prefix: ClassVar[str]
    """The prefix of the names of its sizes; by default its model type and a hyphen."""
    names: ClassVar[HuggingFaceNames]
    """The names of its classes and weights in transformers."""
    stacked_matrices: ClassVar[Mapping[str, int]] = MappingProxyType({"query_key_value": 3})
    """Parts of the dense layers whose weights are several matrices."""
    layer_steps: ClassVar[Mapping[str, tuple[str, int]]] = MappingProxyType({})
    """The steps of a layer that the explorer shows: each is the input (0) or output (1) of a submodule."""
    token_outputs: ClassVar[tuple[str, ...]] = ("last_hidden_state",)
    """The `named_outputs` that have a value for each token; the others have one for each sequence."""
    has_biases: ClassVar[bool] = True
    """Whether the dense layers and LayerNorms of the encoder and of its masked-LM head have biases."""
    masked_lm_activation: ClassVar[ActivationName | None] = None
    """The activation of the masked-LM head; None is that of the config."""
    pools_tokens: ClassVar[bool] = False
    """Whether classifiers of tokens read them through the pooler, too."""
    trains_on_pairs: ClassVar[bool] = True
    """Whether it is pre-trained on next sentences as well; else transformers has no head for them."""
    config: EncoderConfig
    embeddings: Any
    layers: nn.ModuleList
    pooler: Any
    autocast_dtype: torch.dtype | None = None
    """Number format of matrix products where the caller does not set one; the outputs are float32."""

    @classmethod
    def sizes(cls) -> Mapping[str, EncoderConfig]:
        """Return the configs that `cloze pretrain` builds, by the name of the size."""
        return {f"{cls.size_prefix}{name}": cls.config_class.of_size(*size) for name, size in SIZES.items()}

    def prepare(self, batch: PackedBatch) -> Any:
        """Return what all layers read besides their input, such as rotations."""
        return None

    def final_norm(self, hidden_TD: Tensor) -> Tensor:
        """Return the output of the encoder from that of its last layer."""
        return hidden_TD

    def encode(self, batch: PackedBatch, *, output_hidden_states: bool = False) -> EncoderOutput:
        """Encode a packed batch of tensors on the device of the weights."""
        check_ids(batch, self.config)
        hidden_TD, prepared = self.embeddings(batch), self.prepare(batch)
        hidden_states = [hidden_TD]
        for layer in self.layers:
            hidden_TD = layer(hidden_TD, batch, prepared)
            if output_hidden_states:
                hidden_states.append(hidden_TD)
        hidden_TD = hidden_states[-1] = self.final_norm(hidden_TD)
        kept = tuple(hidden_states) if output_hidden_states else ()
        return EncoderOutput(hidden_TD, self.pool(hidden_TD, batch), kept)

    def pool(self, hidden_TD: Tensor, batch: PackedBatch) -> Tensor:
        """Return a vector for each sequence, [B, D], from [CLS], or from the last token of a causal encoder."""
        if isinstance(batch, PaddedBatch):
            vectors_BD = batch.first_tokens(hidden_TD)
        else:
            # in a causal encoder only the last token has attended to all others
            tokens_B = batch.cu_seqlens[1:] - 1 if self.is_causal else batch.cu_seqlens[:-1]
            vectors_BD = hidden_TD.index_select(0, tokens_B)
        pooled_BD: Tensor = self.pooler(vectors_BD)
        return pooled_BD

    def pool_linearly(self, pooling: Pooling) -> None:
        """Change the weights so that the pooled output is linear in the vector of a sentence encoder.

        It stays a model that other programs read. An `InputError` if no weights do that.
        """
        what = f"{self.model_type} has no classifier that pools {pooling}"
        raise InputError(what, where="model", remedy="Give another one, or say `head=dense`")

    def project_qkv(self, layer: int, hidden_TD: Tensor, batch: PackedBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of a layer, each [T, N, H], from its input."""
        module: Any = self.layers[layer]
        projected: tuple[Tensor, Tensor, Tensor] = module.project_qkv(hidden_TD, self.prepare(batch))
        return projected

    def attention_bias(self, length: int) -> Tensor | None:
        """Return the bias of the attention scores of a sequence, [N, L, L], or None."""
        return None

    def hidden_matrices(self) -> list[HiddenMatrix]:
        """Return the matrices of the layers, which Muon trains."""
        return [
            HiddenMatrix(parameter, self.stacked_matrices.get(name.split(".")[-2], 1))
            for name, parameter in self.layers.named_parameters()
            if parameter.ndim == 2
        ]

    @property
    def half_window(self) -> int | None:
        """Tokens on each side to which a token attends in layers with local attention; None if there are none."""
        return None

    @property
    def is_causal(self) -> bool:
        """Whether a token attends only to itself and tokens to its left, so that [CLS] sees no text."""
        return self.config.attends_to == "left"

    def forward(
        self,
        input_ids: PackedBatch | Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        output_hidden_states: bool = False,
    ) -> EncoderOutput:
        """Encode a packed batch, or a padded one, which is packed first.

        Shapes: input_ids, attention_mask, token_type_ids of a padded batch [B, L]; its outputs are 0 at the padding.

        Args:
            attention_mask: bool, True = real, or integers, 1 = real.
            token_type_ids: 0 for segment A, 1 for B.
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
            input_ids, attention_mask, token_type_ids, counts_padding=self.config.counts_padding
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
        pooled = {"pooler_output": output.pooled_output} if self.names.has_pooler else {}
        return {"last_hidden_state": output.sequence_output, **pooled}


ENCODERS: dict[str, type[Encoder]] = {}
_ALIASES: dict[str, str] = {}


def register_encoder(model_type: str, *aliases: str) -> Callable[[EncoderClass], EncoderClass]:
    """Register an encoder under its `model_type` in config.json, and under aliases; a ValueError if one is taken."""

    def register(encoder_class: EncoderClass) -> EncoderClass:
        if model_type in ENCODERS:
            both = f"{ENCODERS[model_type]} and {encoder_class}"
            raise ValueError(f"encoder {model_type!r} is registered twice: {both}")
        ENCODERS[model_type] = encoder_class
        _ALIASES.update(dict.fromkeys(aliases, model_type))
        encoder_class.model_type = model_type
        if "size_prefix" not in vars(encoder_class):
            encoder_class.size_prefix = f"{model_type}-"
        return encoder_class

    return register


def encoders() -> Mapping[str, type[Encoder]]:
    """Return every encoder by its `model_type`; imports all modules of this package."""
    for module in pkgutil.iter_modules(cloze.models.__path__):
        importlib.import_module(f"{cloze.models.__name__}.{module.name}")
    return MappingProxyType(ENCODERS)


def find_encoder_class(model_type: str) -> type[Encoder] | None:
    """Return the encoder of a `model_type`, or None."""
    model_type = _ALIASES.get(model_type, model_type)
    return ENCODERS.get(model_type) or encoders().get(model_type)


def get_encoder_class(config: EncoderConfig) -> type[Encoder]:
    """Return the encoder with this config class."""
    return next(encoder for encoder in ENCODERS.values() if encoder.config_class is type(config))


def find_size(name: str) -> EncoderConfig:
    """Return the config of a size; a ValueError if no encoder has it."""
    if config := all_sizes().get(name):
        return config
    remedy = f"Choose from {list_names(SIZES)}, alone or with an encoder before it, as in modern-base"
    raise ValueError(f"size = {name!r} is not a choice. {remedy}")


def all_sizes() -> dict[str, EncoderConfig]:
    """Return the config of every size of every encoder, by name."""
    return {
        name: size for encoder_class in encoders().values() for name, size in encoder_class.sizes().items()
    }


def check_layers(layers: Sequence[int], count: int, *, where: object) -> None:
    """Refuse layers for a student that an encoder of `count` layers does not have."""
    if missing := [layer for layer in layers if not 0 <= layer < count]:
        what = f"has no layer {missing[0]} for the student"
        raise InputError(what, where=where, remedy=f"Take some of 0 to {count - 1}")


def keep_layers(encoder: Encoder, layers: Sequence[int]) -> Encoder:
    """Remove all layers of an encoder but some, counted from 0, which `check_layers` accepts; return the encoder."""
    encoder.layers = nn.ModuleList(encoder.layers[layer] for layer in layers)
    encoder.config = dataclasses.replace(encoder.config, num_hidden_layers=len(layers))
    return encoder


def build_encoder(config: EncoderConfig, *, generator: torch.Generator | None = None) -> Encoder:
    """Return a new encoder of a config; without a generator, torch's default one draws its weights."""
    constructor: Any = get_encoder_class(config)
    encoder: Encoder = constructor(config, generator=generator)
    return encoder


def to_autocast_dtype(values: Tensor) -> Tensor:
    """Return values in the dtype of autocast where it is enabled, or each layer would convert its input and output."""
    device = values.device.type
    return values.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else values


def set_dropout(encoder: Encoder, *, hidden: float, attention: float) -> None:
    """Set the probabilities of dropout of hidden states and attention weights, from 0 to less than 1."""
    modules: Iterable[Any] = encoder.modules()
    for module in modules:
        if isinstance(config := getattr(module, "config", None), EncoderConfig):
            module.config = dataclasses.replace(
                config, hidden_dropout_prob=hidden, attention_probs_dropout_prob=attention
            )


def find_encoder(model: nn.Module) -> Encoder | None:
    """Return the encoder of a model: the model itself or its attribute `bert`; None if it has none."""
    encoder = model if isinstance(model, Encoder) else getattr(model, "bert", None)
    return encoder if isinstance(encoder, Encoder) else None


def get_encoder(model: nn.Module) -> Encoder:
    """Return the encoder of a model; a TypeError if it has none."""
    encoder = find_encoder(model)
    if encoder is None:
        raise TypeError(f"{type(model).__name__} has no encoder")
    return encoder
