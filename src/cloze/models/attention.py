"""Attention over packed batches: flash attention on GPUs that have it, else matrix products for each length group.

Local attention attends to tokens at most `half_window` places away. Its time and memory grow with the length of a
sequence, not with its square: the sequence is cut into blocks as long as half a window, and the queries of a block meet
the keys of that block and of its two neighbors.

Shapes: T tokens in the packed batch, N heads, H head size; C sequences of length L in a length group; M blocks of W
    queries, W = half window; K = 3 W keys of a block.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from cloze.choices import AttendsTo
from cloze.data.batch import PackedBatch
from cloze.models.batch import MASKED, PaddedBatch
from cloze.models.functional import dropout
from cloze.models.torch_internals import flash_attention

_MAX_LENGTH_OF_SCORES = 1024
"""Longer sequences are attended to by blocks: all scores of one with 8,192 tokens take 256 MB a head."""
_MIN_TOKENS_IN_BFLOAT16 = 128
"""Smaller length groups are attended to in float32 on a CPU, where oneDNN makes a bfloat16 kernel for each shape.

Where lengths keep changing, making kernels takes longer than the products (records/2026-11-26-vnni).
"""
_BLOCKS_OF_FULL_ATTENTION = 3
"""Blocks save no products in a sequence of at most this many half windows."""


def attention(
    query_TNH: Tensor,
    key_TNH: Tensor,
    value_TNH: Tensor,
    batch: PackedBatch,
    dropout_prob: float,
    attends_to: AttendsTo = "all",
    biases: Sequence[Tensor] | None = None,
) -> Tensor:
    """Attend within each sequence of a packed batch; return the context, softmax(Q K' / sqrt(H)) V, [T, N, H].

    Shapes: biases, added to the scores, [N, L, L] for each length group.

    Source: Devlin et al. 2019, 3; Vaswani et al. 2017, 3.2.1; google-research/bert modeling.py:558 @eedf571.
    """
    if supports_flash_attention(query_TNH, attends_to, biases):
        return flash_attention(
            query_TNH,
            key_TNH,
            value_TNH,
            batch.cu_seqlens,
            batch.max_seqlen,
            dropout_prob=dropout_prob,
            is_causal=attends_to == "left",
        )
    scaled_query_TNH = query_TNH * query_TNH.shape[-1] ** -0.5
    bias_of_group = [None] * len(batch.length_groups) if biases is None else biases
    if isinstance(batch, PaddedBatch):
        query, key, value = (values.transpose(1, 2) for values in (scaled_query_TNH, key_TNH, value_TNH))
        bias = ~batch.is_real[:, None, None] * MASKED
        bias = bias if bias_of_group[0] is None else bias + bias_of_group[0]
        return _attend_by_scores(query, key, value, dropout_prob, attends_to, bias).transpose(1, 2)
    groups = split_by_length(batch, scaled_query_TNH, key_TNH, value_TNH)
    return join_by_length(
        [
            _attend_group(*group, dropout_prob, attends_to, bias_NLL)
            for group, bias_NLL in zip(groups, bias_of_group, strict=True)
        ]
    )


def supports_flash_attention(
    query_TNH: Tensor, attends_to: AttendsTo = "all", biases: Sequence[Tensor] | None = None
) -> bool:
    """Whether one kernel attends within sequences of all lengths: on CUDA, in bfloat16 or float16."""
    return (
        attends_to != "right"
        and biases is None
        and query_TNH.is_cuda
        and query_TNH.dtype in (torch.bfloat16, torch.float16)
        and query_TNH.shape[-1] % 8 == 0
        and query_TNH.shape[-1] <= 256
        and torch.cuda.get_device_capability(query_TNH.device) >= (8, 0)
    )


def split_by_length(
    batch: PackedBatch, query_TNH: Tensor, key_TNH: Tensor, value_TNH: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield query, key and value of each length group, as views by head, [C, N, L, H]."""
    # split, not sliced: the gradient of a slice is as large as the whole batch
    sizes = [group.end - group.start for group in batch.length_groups]
    parts = (torch.split(values_TNH, sizes) for values_TNH in (query_TNH, key_TNH, value_TNH))
    for group, *of_group in zip(batch.length_groups, *parts, strict=True):
        query, key, value = (
            values.view(group.count, group.length, *values.shape[1:]).transpose(1, 2) for values in of_group
        )
        yield query, key, value


def join_by_length(contexts_CNLH: Sequence[Tensor]) -> Tensor:
    """Return the contexts of all length groups as one, [T, N, H]."""
    flat = [context_CNLH.transpose(1, 2).flatten(0, 1) for context_CNLH in contexts_CNLH]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


def _attend_group(
    query_CNLH: Tensor,
    key_CNLH: Tensor,
    value_CNLH: Tensor,
    dropout_prob: float,
    attends_to: AttendsTo,
    bias_NLL: Tensor | None,
) -> Tensor:
    dtype, (count, _, length, _) = query_CNLH.dtype, query_CNLH.shape
    is_bfloat16_on_cpu = query_CNLH.device.type == "cpu" and dtype == torch.bfloat16
    if is_bfloat16_on_cpu and count * length < _MIN_TOKENS_IN_BFLOAT16:
        with torch.autocast("cpu", enabled=False):
            parts = (query_CNLH.float(), key_CNLH.float(), value_CNLH.float())
            return _attend_group(*parts, dropout_prob, attends_to, bias_NLL).to(dtype)

    if bias_NLL is not None:
        bias_NLL = bias_NLL.to(dtype)
    if length > _MAX_LENGTH_OF_SCORES and attends_to == "all" and not dropout_prob:
        return torch.nn.functional.scaled_dot_product_attention(
            query_CNLH, key_CNLH, value_CNLH, bias_NLL, scale=1.0
        )
    return _attend_by_scores(query_CNLH, key_CNLH, value_CNLH, dropout_prob, attends_to, bias_NLL)


def _attend_by_scores(
    query_CNLH: Tensor,
    key_CNLH: Tensor,
    value_CNLH: Tensor,
    dropout_prob: float,
    attends_to: AttendsTo,
    bias: Tensor | None,
) -> Tensor:
    scores_CNLL = query_CNLH @ key_CNLH.transpose(2, 3)
    if bias is not None:
        scores_CNLL = scores_CNLL + bias.to(scores_CNLL.dtype)
    if attends_to != "all":
        all_LL = scores_CNLL.new_ones(scores_CNLL.shape[2:], dtype=torch.bool)
        unseen_LL = all_LL.triu(1) if attends_to == "left" else all_LL.tril(-1)
        scores_CNLL = scores_CNLL.masked_fill(unseen_LL, -torch.inf)
    return dropout(scores_CNLL.softmax(-1), dropout_prob) @ value_CNLH


def local_attention(
    query_TNH: Tensor,
    key_TNH: Tensor,
    value_TNH: Tensor,
    batch: PackedBatch,
    dropout_prob: float,
    *,
    half_window: int,
) -> Tensor:
    """Attend to `half_window` tokens on each side of each token, at least 1; return the context [T, N, H].

    Source: Beltagy et al. 2020, "Longformer", 3.1; Warner et al. 2024, "ModernBERT", 2.1.2.
    """
    if isinstance(batch, PaddedBatch):
        far_LL = _is_far(torch.arange(batch.max_seqlen), half_window) * MASKED
        return attention(query_TNH, key_TNH, value_TNH, batch, dropout_prob, biases=[far_LL])
    scaled_TNH = query_TNH * query_TNH.shape[-1] ** -0.5
    contexts = []
    for query, key, value in split_by_length(batch, scaled_TNH, key_TNH, value_TNH):
        length = query.shape[2]
        if length > _BLOCKS_OF_FULL_ATTENTION * half_window:
            contexts.append(_attend_in_blocks(query, key, value, dropout_prob, half_window))
            continue
        bias_LL = None
        if length > half_window + 1:
            is_far_LL = _is_far(torch.arange(length, device=query.device), half_window)
            bias_LL = query.new_zeros(length, length).masked_fill(is_far_LL, -torch.inf)
        contexts.append(_attend_by_scores(query, key, value, dropout_prob, "all", bias_LL))
    return join_by_length(contexts)


def _is_far(places_L: Tensor, half_window: int) -> Tensor:
    """Return which places are outside of each other's windows, [L, L]."""
    return (places_L[:, None] - places_L).abs() > half_window


def _attend_in_blocks(
    query_CNLH: Tensor, key_CNLH: Tensor, value_CNLH: Tensor, dropout_prob: float, half_window: int
) -> Tensor:
    """Compute the scores of each block of queries with the keys of three blocks."""
    length = query_CNLH.shape[2]
    num_blocks = -(-length // half_window)
    padding = num_blocks * half_window - length

    def in_blocks(values_CNLH: Tensor, around: int) -> Tensor:
        padded = nn.functional.pad(values_CNLH, (0, 0, around, padding + around))
        return padded.view(*padded.shape[:2], -1, half_window, padded.shape[-1])

    def with_neighbors(values_CNLH: Tensor) -> Tensor:
        blocks = in_blocks(values_CNLH, half_window)
        return torch.cat([blocks[:, :, :-2], blocks[:, :, 1:-1], blocks[:, :, 2:]], 3)

    query_CNMWH = in_blocks(query_CNLH, 0)
    key_CNMKH, value_CNMKH = with_neighbors(key_CNLH), with_neighbors(value_CNLH)
    scores_CNMWK = query_CNMWH @ key_CNMKH.mT
    # a query does not attend to keys out of its window or of the sequence
    device = scores_CNMWK.device
    key_K = torch.arange(-half_window, 2 * half_window, device=device)
    is_far_WK = (key_K - torch.arange(half_window, device=device)[:, None]).abs() > half_window
    place_MK = torch.arange(num_blocks, device=device)[:, None] * half_window + key_K
    hidden_MWK = is_far_WK | ((place_MK < 0) | (place_MK >= length))[:, None]
    # not -inf: a query of the padding may have no key
    lowest = torch.finfo(scores_CNMWK.dtype).min
    weights_CNMWK = dropout(scores_CNMWK.masked_fill(hidden_MWK, lowest).softmax(-1), dropout_prob)
    return (weights_CNMWK @ value_CNMKH).flatten(2, 3)[:, :, :length]
