"""The masked language modeling loss, without four arrays of the size of the logits.

Shapes: P masked positions, D hidden, V vocabulary, R rows at a time.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_ALIGNMENT = 64  # in numbers, of the rows that tensor cores read and write at once
_ROWS = 32  # of 30,522 float32 scores take 4 MB, which fits in the cache


def linear_cross_entropy_sum(hidden_PD: Tensor, weight_VD: Tensor, bias_V: Tensor, ids_P: Tensor) -> Tensor:
    """Return the summed cross entropy of `ids_P` under softmax(hidden W' + b), in float32.

    Under autocast the products run in its dtype. On a CPU the scores become their own gradient in place; the result
    equals linear + cross_entropy.
    """
    device = hidden_PD.device.type
    if device != "cpu":
        return padded_cross_entropy_sum(hidden_PD, weight_VD, bias_V, ids_P)
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_PD.dtype
    loss: Tensor = _LinearCrossEntropySum.apply(  # type: ignore[no-untyped-call]
        hidden_PD.to(dtype), weight_VD.to(dtype), bias_V, ids_P
    )
    return loss


def padded_cross_entropy_sum(hidden_PD: Tensor, weight_VD: Tensor, bias_V: Tensor, ids_P: Tensor) -> Tensor:
    """Return the same with tokens of probability 0, so that rows of scores begin where tensor cores read at once."""
    logits_PV = nn.functional.linear(hidden_PD, _padded(weight_VD, 0.0), _padded(bias_V, -math.inf))
    return nn.functional.cross_entropy(logits_PV.float(), ids_P, reduction="sum")


def _padded(parameter: Tensor, value: float) -> Tensor:
    """Return a parameter with more rows, filled with a value.

    They are in its own storage, behind its last row, from the first call on: no later call copies it.
    """
    num_rows = len(parameter) + -len(parameter) % _ALIGNMENT
    if parameter.untyped_storage().nbytes() != num_rows * parameter.shape[1:].numel() * parameter.itemsize:
        storage = parameter.new_full((num_rows, *parameter.shape[1:]), value)
        storage[: len(parameter)] = parameter.detach()
        parameter.data = storage[: len(parameter)]
    padded: Tensor = _WithRowsBehind.apply(parameter, num_rows)  # type: ignore[no-untyped-call]
    return padded


class _WithRowsBehind(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parameter: Tensor, num_rows: int) -> Tensor:
        ctx.num_rows = len(parameter)
        return parameter.detach().as_strided((num_rows, *parameter.shape[1:]), parameter.stride())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (grad,) = grads
        return grad[: ctx.num_rows], None


class _LinearCrossEntropySum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden_PD: Tensor, weight_VD: Tensor, bias_V: Tensor, ids_P: Tensor) -> Tensor:
        num_positions, vocab_size = len(hidden_PD), len(weight_VD)
        round_up = -vocab_size % 64  # so that rows start on a cache line, which is faster
        scores_PV = hidden_PD.new_empty(num_positions, vocab_size + round_up)[:, :vocab_size]
        # AMX multiplies bfloat16 in pairs: with an odd vocabulary size it reads one score past the end of each row
        scores_PV.as_strided((num_positions, round_up), (vocab_size + round_up, 1), vocab_size).zero_()
        torch.mm(hidden_PD, weight_VD.T, out=scores_PV)
        loss = hidden_PD.new_zeros((), dtype=torch.float32)
        bias_gradient_V = torch.zeros_like(bias_V)
        for scores_RV, ids_R in zip(torch.split(scores_PV, _ROWS), torch.split(ids_P, _ROWS), strict=True):
            loss += _scores_to_gradient(scores_RV, bias_V, ids_R.unsqueeze(1), bias_gradient_V)
        ctx.save_for_backward(hidden_PD, weight_VD, scores_PV, bias_gradient_V)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        hidden_PD, weight_VD, gradient_PV, bias_gradient_V = ctx.saved_tensors
        (scale,) = grads
        return (
            gradient_PV.mm(weight_VD).mul_(scale),
            gradient_PV.T.mm(hidden_PD * scale.to(hidden_PD.dtype)),
            bias_gradient_V * scale,
            None,
        )


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
