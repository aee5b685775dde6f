"""Dense layers in float32 that oneDNN computes for short texts, in the place of MKL.

Shapes: T tokens in the packed batch, I inputs, O outputs.
"""

from typing import Any

import torch
from torch import Tensor, nn

from cloze.models.encoder import Encoder
from cloze.models.torch_internals import onednn_linear

_MAX_TOKENS = 64
"""At 128 tokens oneDNN saves a tenth of the products' time, at 32 a fourth."""
_TOKENS_OF_KERNEL = 8
"""oneDNN makes a kernel of half a megabyte for each number of tokens: it gets multiples of this."""


class OneDnnLinear(nn.Linear):
    """A dense layer that oneDNN computes for few tokens in inference mode; otherwise it is an `nn.Linear`.

    The weight is a parameter of the usual shape, stored by columns, which both libraries read faster.
    """

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight_IO = linear.weight.detach().t().contiguous()
        self.weight = nn.Parameter(weight_IO.t(), requires_grad=linear.weight.requires_grad)
        self.bias = linear.bias
        self.train(linear.training)

    def forward(self, input_TI: Tensor) -> Tensor:
        num_tokens = len(input_TI)
        if num_tokens > _MAX_TOKENS or not _is_float32_inference(input_TI):
            return super().forward(input_TI)
        if padding := -num_tokens % _TOKENS_OF_KERNEL:
            input_TI = nn.functional.pad(input_TI, (0, 0, 0, padding))
        return onednn_linear(input_TI, self.weight, self.bias)[:num_tokens]


def use_onednn(encoder: Encoder) -> None:
    """Make the dense layers of an encoder `OneDnnLinear`."""
    # the pooler, a subclass, reads one token of a text
    for name in [name for name, module in encoder.named_modules() if type(module) is nn.Linear]:
        layer: Any = encoder.get_submodule(name)  # the weights of one layer after the other are freed
        encoder.set_submodule(name, OneDnnLinear(layer))


def _is_float32_inference(input_TI: Tensor) -> bool:
    return (
        torch.is_inference_mode_enabled()
        and input_TI.is_cpu
        and input_TI.dtype == torch.float32
        and input_TI.ndim == 2
        and not torch.is_autocast_enabled("cpu")
    )
