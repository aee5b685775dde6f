"""Encoder variants by name: each is a file of this package with its own configuration; no list is kept."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

from torch import nn

import cloze.model

Encoder = TypeVar("Encoder", bound=type[nn.Module])

_ENCODERS: dict[str, type[nn.Module]] = {}


def register_encoder(name: str) -> Callable[[Encoder], Encoder]:
    """Give an encoder the name that `model_type` in config.json has.

    The class takes its own configuration as first argument (`config_class` names the type) and offers
    `forward_packed(packed)` and the padded `forward`, both giving an `EncoderOutput`.

    Raises:
        ValueError: the name is taken.
    """

    def register(encoder: Encoder) -> Encoder:
        if name in _ENCODERS:
            raise ValueError(f"encoder {name!r} is registered twice: {_ENCODERS[name]} and {encoder}")
        _ENCODERS[name] = encoder
        return encoder

    return register


def find_config_class(name: str) -> type[Any] | None:
    """Return the configuration of the encoder that is called so; None where there is none."""
    encoder = _ENCODERS.get(name) or encoders().get(name)
    return None if encoder is None else _config_class(encoder)


def name_of(config: object) -> str:
    """Return what the encoder is called that takes a configuration of this type; its file defines both."""
    return next(name for name, encoder in _ENCODERS.items() if _config_class(encoder) is type(config))


def encoder_for(config: object) -> type[nn.Module]:
    """Return the encoder that takes a configuration of this type."""
    return _ENCODERS[name_of(config)]


def _config_class(encoder: type[nn.Module]) -> type[Any]:
    found: type[Any] = cast(Any, encoder).config_class
    return found


def encoders() -> Mapping[str, type[nn.Module]]:
    """Return every encoder there is; imports the modules of this package to find them."""
    for module in pkgutil.iter_modules(cloze.model.__path__):
        importlib.import_module(f"{cloze.model.__name__}.{module.name}")
    return MappingProxyType(_ENCODERS)
