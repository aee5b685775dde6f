"""Encoder variants by name: each is a file of this package with its own configuration; no list is kept."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

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


def encoders() -> Mapping[str, type[nn.Module]]:
    """Return every encoder there is; imports the modules of this package to find them."""
    for module in pkgutil.iter_modules(cloze.model.__path__):
        importlib.import_module(f"{cloze.model.__name__}.{module.name}")
    return MappingProxyType(_ENCODERS)
