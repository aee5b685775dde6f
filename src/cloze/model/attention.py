"""Attention over packed batches: one signature, a back end for each device.

Shapes: T tokens in the packed batch, N heads, H head size; R tokens of a run, C sequences of length L.
"""

from typing import Protocol

import torch
from torch import Tensor

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
        Devlin et al. 2019, 3; Vaswani et al. 2017, 3.2.1; google-research/bert modeling.py:558 @eedf571.
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
    scaled_query_TNH = query_TNH * query_TNH.shape[-1] ** -0.5
    # split, not sliced run by run: the gradient of a slice is as large as what it was cut from
    sizes = [run.end - run.start for run in packed.runs]
    query_parts, key_parts, value_parts = (
        torch.split(values_TNH, sizes) for values_TNH in (scaled_query_TNH, key_TNH, value_TNH)
    )
    contexts = [
        _attend_run(query_RNH, key_RNH, value_RNH, run, dropout_prob)
        for query_RNH, key_RNH, value_RNH, run in zip(
            query_parts, key_parts, value_parts, packed.runs, strict=True
        )
    ]
    return contexts[0] if len(contexts) == 1 else torch.cat(contexts)


def _attend_run(
    scaled_query_RNH: Tensor, key_RNH: Tensor, value_RNH: Tensor, run: Run, dropout_prob: float
) -> Tensor:
    def by_head(values_RNH: Tensor) -> Tensor:
        return values_RNH.view(run.count, run.length, *values_RNH.shape[1:]).transpose(1, 2)

    scores_CNLL = by_head(scaled_query_RNH) @ by_head(key_RNH).transpose(2, 3)
    weights_CNLL = dropout(scores_CNLL.softmax(-1), dropout_prob)
    context_CNLH = weights_CNLL @ by_head(value_RNH)
    return context_CNLH.transpose(1, 2).flatten(0, 1)


def varlen(
    query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor, packed: Packed, dropout_prob: float
) -> Tensor:
    """Variable-length flash attention on CUDA, in bfloat16 or float16.

    Raises:
        ValueError: dropout is asked for, which the kernel does not offer.
    """
    if dropout_prob:
        raise ValueError("varlen attention has no dropout: select_backend hands over to grouped")
    from torch.nn.attention.varlen import (
        varlen_attn,
    )  # with torch's compiler: more than a second, needed here alone

    longest = packed.max_seqlen
    context_TNH = varlen_attn(
        query_TNH, key_TNH, value_TNH, packed.cu_seqlens, packed.cu_seqlens, longest, longest
    )
    assert isinstance(context_TNH, Tensor)  # a pair only where the log-sum-exp is asked for
    return context_TNH
