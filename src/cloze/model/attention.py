"""Attention over packed batches: one signature, a back end for each device.

Shapes: T tokens in the packed batch, N heads, H head size; R tokens of a run, C sequences of length L.
"""

from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from cloze.model.dropout import dropout
from cloze.model.packed import Packed, Run

AttendsTo: TypeAlias = Literal["all", "left", "right"]
"""What a token sees of its sequence: all of it, or itself and what is on its left, or on its right."""


class AttentionBackend(Protocol):
    """What every back end computes: softmax(Q K' / sqrt(H)) V within each sequence."""

    def __call__(
        self,
        query_TNH: Tensor,
        key_TNH: Tensor,
        value_TNH: Tensor,
        packed: Packed,
        dropout_prob: float,
        attends_to: AttendsTo = "all",
    ) -> Tensor:
        """Return the context [T, N, H]."""
        ...


def attention(
    query_TNH: Tensor,
    key_TNH: Tensor,
    value_TNH: Tensor,
    packed: Packed,
    dropout_prob: float,
    attends_to: AttendsTo = "all",
) -> Tensor:
    """Attend within each sequence of a packed batch, with the best back end that can do what is asked.

    Args:
        dropout_prob: probability that an attention weight is dropped; 0 outside of training.
        attends_to: what each token sees.

    Source:
        Devlin et al. 2019, 3; Vaswani et al. 2017, 3.2.1; google-research/bert modeling.py:558 @eedf571.
    """
    backend = select_backend(query_TNH, dropout_prob, attends_to)
    return backend(query_TNH, key_TNH, value_TNH, packed, dropout_prob, attends_to)


def select_backend(query_TNH: Tensor, dropout_prob: float, attends_to: AttendsTo = "all") -> AttentionBackend:
    """Choose by device, dtype, head size and what is asked; `grouped` can do everything everywhere."""
    fits_flash = (
        query_TNH.is_cuda
        and query_TNH.dtype in (torch.bfloat16, torch.float16)
        and query_TNH.shape[-1] % 8 == 0
        and query_TNH.shape[-1] <= 256
        and torch.cuda.get_device_capability(query_TNH.device) >= (8, 0)
    )
    return varlen if fits_flash and dropout_prob == 0 and attends_to == "all" else grouped


def grouped(
    query_TNH: Tensor,
    key_TNH: Tensor,
    value_TNH: Tensor,
    packed: Packed,
    dropout_prob: float,
    attends_to: AttendsTo = "all",
) -> Tensor:
    """Plain products over each run of equal lengths; the run is viewed, not gathered."""
    scaled_query_TNH = query_TNH * query_TNH.shape[-1] ** -0.5
    # split, not sliced run by run: the gradient of a slice is as large as what it was cut from
    sizes = [run.end - run.start for run in packed.runs]
    query_parts, key_parts, value_parts = (
        torch.split(values_TNH, sizes) for values_TNH in (scaled_query_TNH, key_TNH, value_TNH)
    )
    contexts = [
        _attend_run(query_RNH, key_RNH, value_RNH, run, dropout_prob, attends_to)
        for query_RNH, key_RNH, value_RNH, run in zip(
            query_parts, key_parts, value_parts, packed.runs, strict=True
        )
    ]
    return contexts[0] if len(contexts) == 1 else torch.cat(contexts)


def _attend_run(
    scaled_query_RNH: Tensor,
    key_RNH: Tensor,
    value_RNH: Tensor,
    run: Run,
    dropout_prob: float,
    attends_to: AttendsTo,
) -> Tensor:
    def by_head(values_RNH: Tensor) -> Tensor:
        return values_RNH.view(run.count, run.length, *values_RNH.shape[1:]).transpose(1, 2)

    scores_CNLL = by_head(scaled_query_RNH) @ by_head(key_RNH).transpose(2, 3)
    if attends_to != "all":
        all_LL = scores_CNLL.new_ones(run.length, run.length, dtype=torch.bool)
        unseen_LL = all_LL.triu(1) if attends_to == "left" else all_LL.tril(-1)
        scores_CNLL = scores_CNLL.masked_fill(unseen_LL, -torch.inf)
    weights_CNLL = dropout(scores_CNLL.softmax(-1), dropout_prob)
    context_CNLH = weights_CNLL @ by_head(value_RNH)
    return context_CNLH.transpose(1, 2).flatten(0, 1)


def varlen(
    query_TNH: Tensor,
    key_TNH: Tensor,
    value_TNH: Tensor,
    packed: Packed,
    dropout_prob: float,
    attends_to: AttendsTo = "all",
) -> Tensor:
    """Variable-length flash attention on CUDA, in bfloat16 or float16.

    Raises:
        ValueError: dropout is asked for, which the kernel does not offer, or attention one way.
    """
    if dropout_prob or attends_to != "all":
        raise ValueError(
            "varlen attention has no dropout and looks both ways: select_backend hands over to grouped"
        )
    from torch.nn.attention.varlen import (
        varlen_attn,
    )  # with torch's compiler: more than a second, needed here alone

    longest = packed.max_seqlen
    context_TNH = varlen_attn(
        query_TNH, key_TNH, value_TNH, packed.cu_seqlens, packed.cu_seqlens, longest, longest
    )
    assert isinstance(context_TNH, Tensor)  # a pair only where the log-sum-exp is asked for
    return context_TNH
