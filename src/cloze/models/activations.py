"""Activation functions, in torch and in ONNX."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

ActivationName: TypeAlias = Literal["gelu", "gelu_tanh", "tanh", "relu"]


class Activation(NamedTuple):
    """A function, and its operator in ONNX."""

    function: Callable[[Tensor], Tensor]
    operator: str
    attributes: Mapping[str, str] = MappingProxyType({})


ACTIVATIONS: Mapping[ActivationName, Activation] = MappingProxyType(
    {
        "gelu": Activation(functional.gelu, "Gelu", {"approximate": "none"}),
        "gelu_tanh": Activation(
            partial(functional.gelu, approximate="tanh"), "Gelu", {"approximate": "tanh"}
        ),
        "tanh": Activation(torch.tanh, "Tanh"),
        "relu": Activation(torch.relu, "Relu"),
    }
)
