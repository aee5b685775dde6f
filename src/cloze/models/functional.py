"""Functions of layers that are as fast as the machine: activations, dropout, the masked language modeling loss.

On a CPU torch draws Mersenne-twister numbers one by one: 31 ms for four million elements, while GELU takes 1.5 ms.
Here NumPy's SFC64 fills memory with random bits, 16 for each element, in 2 ms. The loss is computed without the
logits of all positions.

Shapes: P masked positions, D hidden, V vocabulary, C positions of a chunk, R rows at a time.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

ActivationName: TypeAlias = Literal["gelu", "gelu_tanh", "tanh", "relu"]

ACTIVATIONS: Mapping[ActivationName, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "tanh": torch.tanh,
    "relu": torch.relu,
}

_LEVELS = 2**16
_ALIGNMENT = 64  # in numbers, of the rows that tensor cores read and write at once
_CHUNK = 2048  # positions whose scores exist at once: 250 MB for 30,522 tokens in float32
_ROWS = 32  # of 30,522 float32 scores take 4 MB, which fits in a processor's cache


def dropout(hidden: Tensor, prob: float) -> Tensor:
    """Zero each element with probability `prob` and scale the others, so that the mean is the same.

    Reproducible with `torch.manual_seed`; 0 <= prob < 1, and 0 returns `hidden` as it is.

    Source: Srivastava et al. 2014; google-research/bert modeling.py:358 @eedf571.

    Differs: On a CPU `prob` is rounded to a multiple of 2**-16 below 1, and the scale belongs to the rounded value.
    """
    if not prob:
        return hidden
    if hidden.device.type != "cpu":
        return functional.dropout(hidden, prob)
    num_dropped = min(round(prob * _LEVELS), _LEVELS - 1)
    generator = np.random.Generator(np.random.SFC64(int(torch.randint(2**62, (1,)))))
    words = generator.integers(2**64, size=-(-hidden.numel() // 4), dtype=np.uint64)
    draws = torch.from_numpy(words.view(np.int16))[: hidden.numel()].view(hidden.shape)
    keep = draws.ge_(num_dropped - _LEVELS // 2)  # in place: comparing into bool is ten times slower
    dropped: Tensor = _Dropout.apply(hidden, keep, num_dropped)  # type: ignore[no-untyped-call]
    return dropped


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, keep: Tensor, num_dropped: int) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale = _LEVELS / (_LEVELS - num_dropped)
        return hidden.mul(keep.to(hidden.dtype)).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        (grad,) = grads
        return grad.mul(keep.to(grad.dtype)).mul_(ctx.scale), None, None


def linear_cross_entropy_sum(hidden_PD: Tensor, weight_VD: Tensor, bias_V: Tensor, ids_P: Tensor) -> Tensor:
    """Return the summed cross entropy of `ids_P` under softmax(hidden W' + b), in float32.

    Under autocast the products run in its dtype. Gradients, where autograd is on, are computed with the loss, so that
    the scores of one chunk of positions exist at a time. The result equals linear + cross_entropy.
    """
    device = hidden_PD.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_PD.dtype
    inputs = (hidden_PD.to(dtype), weight_VD, bias_V)
    if not torch.is_grad_enabled():
        inputs = (inputs[0].detach(), weight_VD.detach(), bias_V.detach())
    loss: Tensor = _LinearCrossEntropySum.apply(*inputs, ids_P)  # type: ignore[no-untyped-call]
    return loss


class _LinearCrossEntropySum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden_PD: Tensor, weight_VD: Tensor, bias_V: Tensor, ids_P: Tensor) -> Tensor:
        vocab_size, dtype = len(weight_VD), hidden_PD.dtype
        matrix_VD, hidden_gradient_PD = weight_VD.to(dtype), torch.empty_like(hidden_PD)
        bias_gradient_V, loss = torch.zeros_like(bias_V), bias_V.new_zeros((), dtype=torch.float32)
        # zeros: AMX multiplies bfloat16 in pairs, with an odd vocabulary size one score past the end of each row, too
        width = vocab_size + -vocab_size % _ALIGNMENT
        buffer = hidden_PD.new_zeros(min(len(hidden_PD), _CHUNK), width)[:, :vocab_size]
        rows = _ROWS if buffer.device.type == "cpu" else _CHUNK
        chunks = (torch.split(values, _CHUNK) for values in (hidden_PD, ids_P, hidden_gradient_PD))
        weight_gradient_VD = None
        for hidden_CD, ids_C, hidden_gradient_CD in zip(*chunks, strict=True):
            scores_CV = torch.mm(hidden_CD, matrix_VD.T, out=buffer[: len(hidden_CD)])
            for scores_RV, ids_R in zip(torch.split(scores_CV, rows), torch.split(ids_C, rows), strict=True):
                loss += _scores_to_gradient(scores_RV, bias_V, ids_R.unsqueeze(1), bias_gradient_V)
            if not any(ctx.needs_input_grad):
                continue
            torch.mm(scores_CV, matrix_VD, out=hidden_gradient_CD)
            part_VD = scores_CV.T.mm(hidden_CD).float()
            weight_gradient_VD = part_VD if weight_gradient_VD is None else weight_gradient_VD.add_(part_VD)
        ctx.save_for_backward(hidden_gradient_PD, weight_gradient_VD, bias_gradient_V)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        hidden_gradient_PD, weight_gradient_VD, bias_gradient_V = ctx.saved_tensors
        (scale,) = grads
        return hidden_gradient_PD * scale, weight_gradient_VD.mul_(scale), bias_gradient_V * scale, None


def _scores_to_gradient(scores_RV: Tensor, bias_V: Tensor, ids_R1: Tensor, bias_gradient_V: Tensor) -> Tensor:
    """Replace scores by the gradient of their cross entropy and add it to `bias_gradient_V`; return the summed loss."""
    float_RV = scores_RV.float()  # itself where it is float32 already
    float_RV.add_(bias_V)
    float_RV.sub_(float_RV.amax(1, keepdim=True))
    true_R1 = float_RV.gather(1, ids_R1)
    sums_R1 = float_RV.exp_().sum(1, keepdim=True)
    float_RV.div_(sums_R1)
    float_RV.scatter_add_(1, ids_R1, float_RV.new_full((), -1.0).expand(ids_R1.shape))
    bias_gradient_V.add_(float_RV.sum(0))
    if float_RV is not scores_RV:
        scores_RV.copy_(float_RV)
    return (sums_R1.log() - true_R1).sum()
