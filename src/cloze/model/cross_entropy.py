"""The masked-word loss without four arrays of the size of the logits.

Shapes: P masked positions, D hidden, V vocabulary, R rows worked on at a time.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_ROWS = 32  # of 30,522 float32 scores are 4 MB: they stay in the cache


def linear_cross_entropy_sum(hidden_PD: Tensor, weight_VD: Tensor, bias_V: Tensor, ids_P: Tensor) -> Tensor:
    """Return the summed cross entropy of `ids_P` under softmax(hidden W' + b), in float32.

    Under autocast the products run in its dtype.

    Differs:
        On a CPU the scores become their own gradient in place; equal to linear + cross_entropy.
    """
    device = hidden_PD.device.type
    if device != "cpu":
        logits_PV = nn.functional.linear(hidden_PD, weight_VD, bias_V)
        return nn.functional.cross_entropy(logits_PV.float(), ids_P, reduction="sum")
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_PD.dtype
    loss: Tensor = _LinearCrossEntropySum.apply(  # type: ignore[no-untyped-call]
        hidden_PD.to(dtype), weight_VD.to(dtype), bias_V.to(dtype), ids_P
    )
    return loss


class _LinearCrossEntropySum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden_PD: Tensor, weight_VD: Tensor, bias_V: Tensor, ids_P: Tensor) -> Tensor:
        scores_PV = torch.addmm(bias_V, hidden_PD, weight_VD.T)
        losses = [
            _scores_to_gradient(scores_RV, ids_R.unsqueeze(1))
            for scores_RV, ids_R in zip(torch.split(scores_PV, _ROWS), torch.split(ids_P, _ROWS), strict=True)
        ]
        ctx.save_for_backward(hidden_PD, weight_VD, scores_PV)
        return torch.stack(losses).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        hidden_PD, weight_VD, gradient_PV = ctx.saved_tensors
        scale = grads[0].to(hidden_PD.dtype)
        return (
            gradient_PV.mm(weight_VD).mul_(scale),
            gradient_PV.T.mm(hidden_PD * scale),
            gradient_PV.sum(0).mul_(scale),
            None,
        )


def _scores_to_gradient(scores_RV: Tensor, ids_R1: Tensor) -> Tensor:
    """Replace scores by the gradient of their summed cross entropy (softmax - one-hot); return that sum."""
    work_RV = scores_RV.float()  # itself where it is float32 already
    work_RV.sub_(work_RV.amax(1, keepdim=True))
    true_R1 = work_RV.gather(1, ids_R1)
    sums_R1 = work_RV.exp_().sum(1, keepdim=True)
    work_RV.div_(sums_R1)
    work_RV.scatter_add_(1, ids_R1, work_RV.new_full((), -1.0).expand(ids_R1.shape))
    if work_RV is not scores_RV:
        scores_RV.copy_(work_RV)
    return (sums_R1.log() - true_R1).sum()
