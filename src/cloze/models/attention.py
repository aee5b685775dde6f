"""Attention over packed batches: one signature, one back end for each device.

Shapes: T tokens in the packed batch, N heads, H head size; R tokens of a length group, C sequences of length L.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from cloze.data.batch import LengthGroup, PackedBatch
from cloze.models.dropout import dropout
from cloze.models.torch_internals import flash_attention

AttendsTo: TypeAlias = Literal["all", "left", "right"]
"""The tokens to which a token attends: all of its sequence, or itself and those to its left, or to its right."""


MAX_LENGTH_OF_SCORES = 1024
"""Longer sequences are attended to by blocks: all scores of one with 8,192 tokens take 256 MB a head."""

MIN_TOKENS_IN_BFLOAT16 = 128
"""Smaller length groups are attended to in float32 on a CPU, where oneDNN makes a bfloat16 kernel for each shape.

With texts of ever other lengths, making them takes longer than the products (records/2026-11-26-vnni).
"""

Biases: TypeAlias = Sequence[Tensor] | None
"""For each length group of a batch, [N, L, L] to add to the scores of its sequences; None adds nothing."""

AttentionBackend: TypeAlias = Callable[
    [Tensor, Tensor, Tensor, PackedBatch, float, AttendsTo, Biases], Tensor
]
"""From query, key and value to the context, [T, N, H] each: softmax(Q K' / sqrt(H)) V within each sequence."""


def attention(
    query_TNH: Tensor,
    key_TNH: Tensor,
    value_TNH: Tensor,
    batch: PackedBatch,
    dropout_prob: float,
    attends_to: AttendsTo = "all",
    biases: Biases = None,
) -> Tensor:
    """Attend within each sequence of a packed batch, with the fastest back end that supports the arguments.

    Args:
        dropout_prob: probability that an attention weight is dropped; 0 outside of training.
        attends_to: the tokens to which each token attends.
        biases: are added to the scores.

    Source:
        Devlin et al. 2019, 3; Vaswani et al. 2017, 3.2.1; google-research/bert modeling.py:558 @eedf571.
    """
    backend = select_backend(query_TNH, attends_to, biases)
    return backend(query_TNH, key_TNH, value_TNH, batch, dropout_prob, attends_to, biases)


def select_backend(
    query_TNH: Tensor, attends_to: AttendsTo = "all", biases: Biases = None
) -> AttentionBackend:
    """Return the fastest back end for a device, dtype and head size; `grouped_attention` supports everything."""
    fits_flash = (
        query_TNH.is_cuda
        and query_TNH.dtype in (torch.bfloat16, torch.float16)
        and query_TNH.shape[-1] % 8 == 0
        and query_TNH.shape[-1] <= 256
        and torch.cuda.get_device_capability(query_TNH.device) >= (8, 0)
    )
    return varlen_attention if fits_flash and attends_to != "right" and biases is None else grouped_attention


def grouped_attention(
    query_TNH: Tensor,
    key_TNH: Tensor,
    value_TNH: Tensor,
    batch: PackedBatch,
    dropout_prob: float,
    attends_to: AttendsTo = "all",
    biases: Biases = None,
) -> Tensor:
    """Multiply matrices for each length group, as views of the batch."""
    scaled_query_TNH = query_TNH * query_TNH.shape[-1] ** -0.5
    # split, not sliced: the gradient of a slice is as large as the whole batch
    sizes = [group.end - group.start for group in batch.length_groups]
    query_parts, key_parts, value_parts = (
        torch.split(values_TNH, sizes) for values_TNH in (scaled_query_TNH, key_TNH, value_TNH)
    )
    groups = batch.length_groups
    bias_of_group = [None] * len(groups) if biases is None else biases
    contexts = [
        _attend_group(query_RNH, key_RNH, value_RNH, group, dropout_prob, attends_to, bias_NLL)
        for query_RNH, key_RNH, value_RNH, group, bias_NLL in zip(
            query_parts, key_parts, value_parts, groups, bias_of_group, strict=True
        )
    ]
    return contexts[0] if len(contexts) == 1 else torch.cat(contexts)


def _attend_group(
    scaled_query_RNH: Tensor,
    key_RNH: Tensor,
    value_RNH: Tensor,
    group: LengthGroup,
    dropout_prob: float,
    attends_to: AttendsTo,
    bias_NLL: Tensor | None,
) -> Tensor:
    is_bfloat16_on_cpu = scaled_query_RNH.device.type == "cpu" and scaled_query_RNH.dtype == torch.bfloat16
    if is_bfloat16_on_cpu and len(scaled_query_RNH) < MIN_TOKENS_IN_BFLOAT16:
        with torch.autocast("cpu", enabled=False):
            parts = (scaled_query_RNH.float(), key_RNH.float(), value_RNH.float())
            context_RNH = _attend_group(*parts, group, dropout_prob, attends_to, bias_NLL)
        return context_RNH.to(scaled_query_RNH.dtype)

    def by_head(values_RNH: Tensor) -> Tensor:
        return values_RNH.view(group.count, group.length, *values_RNH.shape[1:]).transpose(1, 2)

    if bias_NLL is not None:
        bias_NLL = bias_NLL.to(scaled_query_RNH.dtype)
    if group.length > MAX_LENGTH_OF_SCORES and attends_to == "all" and not dropout_prob:
        context_CNLH = torch.nn.functional.scaled_dot_product_attention(
            by_head(scaled_query_RNH), by_head(key_RNH), by_head(value_RNH), bias_NLL, scale=1.0
        )
        return context_CNLH.transpose(1, 2).flatten(0, 1)
    scores_CNLL = by_head(scaled_query_RNH) @ by_head(key_RNH).transpose(2, 3)
    if bias_NLL is not None:
        scores_CNLL = scores_CNLL + bias_NLL
    if attends_to != "all":
        all_LL = scores_CNLL.new_ones(group.length, group.length, dtype=torch.bool)
        unseen_LL = all_LL.triu(1) if attends_to == "left" else all_LL.tril(-1)
        scores_CNLL = scores_CNLL.masked_fill(unseen_LL, -torch.inf)
    weights_CNLL = dropout(scores_CNLL.softmax(-1), dropout_prob)
    context_CNLH = weights_CNLL @ by_head(value_RNH)
    return context_CNLH.transpose(1, 2).flatten(0, 1)


def varlen_attention(
    query_TNH: Tensor,
    key_TNH: Tensor,
    value_TNH: Tensor,
    batch: PackedBatch,
    dropout_prob: float,
    attends_to: AttendsTo = "all",
    biases: Biases = None,
) -> Tensor:
    """Flash attention on CUDA, in bfloat16 or float16: one kernel for sequences of all lengths.

    Raises:
        ValueError: attention to the right or biases, which the kernel does not support.
    """
    if attends_to == "right" or biases is not None:
        raise ValueError(
            "the kernel has no biases, and does not attend to the right alone: use grouped_attention"
        )
    return flash_attention(
        query_TNH,
        key_TNH,
        value_TNH,
        batch.cu_seqlens,
        batch.max_seqlen,
        dropout_prob=dropout_prob,
        is_causal=attends_to == "left",
    )
