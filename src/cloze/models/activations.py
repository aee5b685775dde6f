"""Activation functions."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

ActivationName: TypeAlias = Literal["gelu", "gelu_tanh", "tanh", "relu"]

ACTIVATIONS: Mapping[ActivationName, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "gelu": functional.gelu,
        "gelu_tanh": partial(functional.gelu, approximate="tanh"),
        "tanh": torch.tanh,
        "relu": torch.relu,
    }
)
