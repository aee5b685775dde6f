"""All uses of torch that its documentation does not promise: private functions, and errors known by their text.

Checked on torch 2.11 to 2.13 by `tests/models/test_torch_internals.py`.
"""

import pickle
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

_LOST_CONNECTION = ("gloo", "connection closed", "connection reset", "broken pipe")


def is_lost_rank(error: BaseException) -> bool:
    """Return whether communication failed because another rank is gone; gloo has no exception class for it."""
    if isinstance(error, distributed.DistError):
        return True
    # an incomplete message of Python objects cannot be unpickled
    is_candidate = isinstance(error, RuntimeError | pickle.UnpicklingError)
    return is_candidate and any(text in str(error).lower() for text in _LOST_CONNECTION)


def scale_(tensors: list[Tensor], factor: Tensor) -> None:
    """Multiply tensors in place by a factor on their device, in few kernels; there is no public equivalent."""
    torch._foreach_mul_(tensors, factor)


def flash_attention(
    query_TNH: Tensor,
    key_TNH: Tensor,
    value_TNH: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    *,
    dropout_prob: float,
    is_causal: bool,
) -> Tensor:
    """Return softmax(Q K' / sqrt(H)) V within each sequence of a packed batch, [T, N, H]; on CUDA, in 16 bits.

    The public `torch.nn.attention.varlen` calls the same kernel, without its dropout, and imports torch's compiler.
    H is a multiple of 8, up to 256.
    """
    context_TNH: Tensor
    context_TNH, *_ = torch.ops.aten._flash_attention_forward(
        query_TNH,
        key_TNH,
        value_TNH,
        cu_seqlens,
        cu_seqlens,
        max_seqlen,
        max_seqlen,
        dropout_prob,
        is_causal,
        return_debug_mask=False,
    )
    return context_TNH


@dataclass(frozen=True, slots=True)
class CpuInstructions:
    """The instructions of a processor that bfloat16 depends on."""

    avx512: bool
    avx512_bf16: bool
    amx: bool
    onednn_bf16: bool
    """Whether oneDNN computes bfloat16, by whatever instructions."""
    vnni: bool = False
    """Whether products of 8-bit numbers are added in 32 bits (AVX512-VNNI); else two of them are added in 16 bits."""


def cpu_instructions() -> CpuInstructions:
    """Return the instructions of this processor; there is no public equivalent."""
    return CpuInstructions(
        avx512=torch.cpu._is_avx512_supported(),
        avx512_bf16=torch.cpu._is_avx512_bf16_supported(),
        amx=torch.cpu._is_amx_tile_supported(),
        onednn_bf16=bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
        vnni=torch.cpu._is_vnni_supported(),
    )
