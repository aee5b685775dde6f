"""Attention over packed batches: one signature, a back end for each device.

Shapes: T tokens in the packed batch, N heads, H head size; within a run C sequences of length L.
"""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from cloze.model.dropout import dropout
from cloze.model.packed import Packed, Run


class AttentionBackend(Protocol):
    """What every back end computes: softmax(Q K' / sqrt(H)) V within each sequence."""

    def __call__(
        self, query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, packed: Packed, dropout_prob: float
    ) -> Tensor:
        """Return the context [T, N, H]."""
        ...


def attention(
    query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, packed: Packed, dropout_prob: float
) -> Tensor:
    """Attend within each sequence of a packed batch, with the best back end that can do what is asked.

    Args:
        dropout_prob: probability that an attention weight is dropped; 0 outside of training.

    Source:
        Vaswani et al. 2017, 3.2.1; google-research/bert modeling.py:558 @eedf571.
    """
    backend = select_backend(query_TNH, dropout_prob)
    return backend(query_TNH, key_TNH, value_TNH, packed, dropout_prob)


def select_backend(query_TNH: Tensor, dropout_prob: float) -> AttentionBackend:
    """Choose by device, dtype, head size and what is asked; `grouped` can do everything everywhere."""
    fits_flash = (
        query_TNH.is_cuda
        and query_TNH.dtype in (torch.bfloat16, torch.float16)
        and query_TNH.shape[-1] % 8 == 0
        and query_TNH.shape[-1] <= 256
        and torch.cuda.get_device_capability(query_TNH.device) >= (8, 0)
    )
    return varlen if fits_flash and dropout_prob == 0 else grouped


def grouped(
    query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, packed: Packed, dropout_prob: float
) -> Tensor:
    """Plain products over each run of equal lengths; the run is viewed, not gathered."""
    contexts = [_attend_run(query_TNH, key_TNH, value_TNH, run, dropout_prob) for run in packed.runs]
    return contexts[0] if len(contexts) == 1 else torch.cat(contexts)


def _attend_run(
    query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, run: Run, dropout_prob: float
) -> Tensor:
    num_heads, head_size = query_TNH.shape[1:]

    def by_head(values_TNH: Tensor) -> Tensor:
        values_CLNH = values_TNH[run.start : run.end].view(run.count, run.length, num_heads, head_size)
        return values_CLNH.transpose(1, 2)

    scores_CNLL = by_head(query_TNH * head_size**-0.5) @ by_head(key_TNH).transpose(2, 3)
    weights_CNLL = dropout(scores_CNLL.softmax(-1), dropout_prob)
    context_CNLH = weights_CNLL @ by_head(value_TNH)
    return context_CNLH.transpose(1, 2).reshape(-1, num_heads, head_size)


def varlen(
    query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, packed: Packed, dropout_prob: float
) -> Tensor:
    """Variable-length flash attention on CUDA, in bfloat16 or float16.

    Raises:
        ValueError: dropout is asked for, which the kernel does not offer.
    """
    if dropout_prob:
        raise ValueError("varlen attention has no dropout: select_backend hands over to grouped")
    longest = packed.max_seqlen
    context_TNH = varlen_attn(
        query_TNH, key_TNH, value_TNH, packed.cu_seqlens, packed.cu_seqlens, longest, longest
    )
    assert isinstance(context_TNH, Tensor)  # a pair only where the log-sum-exp is asked for
    return context_TNH
