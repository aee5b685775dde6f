"""Local attention over packed batches: each token attends to those at most `half_window` places away.

Time and memory grow with the length of a sequence, not with its square: the sequence is cut into blocks as long as half
a window, and the queries of a block meet the keys of that block and of its two neighbors.

Shapes: T tokens in the packed batch, N heads, H head size; C sequences of length L, M blocks of W queries, W = half
    window; K = 3 W keys of a block.
"""

import torch
from torch import Tensor, nn

from cloze.data.batch import PackedBatch
from cloze.models.attention import attention, join_by_length, split_by_length
from cloze.models.batch import MASKED, PaddedBatch
from cloze.models.functional import dropout

_BLOCKS_OF_FULL_ATTENTION = 3
"""Sequences of at most so many half windows have no fewer products in blocks."""


def local_attention(
    query_TNH: Tensor,
    key_TNH: Tensor,
    value_TNH: Tensor,
    batch: PackedBatch,
    dropout_prob: float,
    *,
    half_window: int,
) -> Tensor:
    """Attend within a window around each token; return the context [T, N, H].

    Args:
        half_window: tokens on each side to which a token attends, at least 1.
        dropout_prob: probability that an attention weight is dropped; 0 outside of training.

    Source: Beltagy et al. 2020, "Longformer", 3.1; Warner et al. 2024, "ModernBERT", 2.1.2.
    """
    if isinstance(batch, PaddedBatch):
        far_LL = _is_far(torch.arange(batch.max_seqlen), half_window) * MASKED
        return attention(query_TNH, key_TNH, value_TNH, batch, dropout_prob, biases=[far_LL])
    scaled_TNH = query_TNH * query_TNH.shape[-1] ** -0.5
    contexts = []
    for query, key, value in split_by_length(batch, scaled_TNH, key_TNH, value_TNH):
        is_short = query.shape[2] <= _BLOCKS_OF_FULL_ATTENTION * half_window
        attend = _attend_to_all if is_short else _attend_in_blocks
        contexts.append(attend(query, key, value, dropout_prob, half_window))
    return join_by_length(contexts)


def _attend_to_all(
    query_CNLH: Tensor, key_CNLH: Tensor, value_CNLH: Tensor, dropout_prob: float, half_window: int
) -> Tensor:
    """Compute the scores of all pairs of a short sequence, and mask those out of the window."""
    scores_CNLL = query_CNLH @ key_CNLH.mT
    length = scores_CNLL.shape[-1]
    if length > half_window + 1:
        is_far_LL = _is_far(torch.arange(length, device=scores_CNLL.device), half_window)
        scores_CNLL = scores_CNLL.masked_fill(is_far_LL, -torch.inf)
    return dropout(scores_CNLL.softmax(-1), dropout_prob) @ value_CNLH


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
    hidden_MWK = _is_hidden(num_blocks, half_window, length, scores_CNMWK.device)
    # not -inf: a query of the padding may have no key
    lowest = torch.finfo(scores_CNMWK.dtype).min
    weights_CNMWK = dropout(scores_CNMWK.masked_fill(hidden_MWK, lowest).softmax(-1), dropout_prob)
    return (weights_CNMWK @ value_CNMKH).flatten(2, 3)[:, :, :length]


def _is_hidden(num_blocks: int, half_window: int, length: int, device: torch.device) -> Tensor:
    """Return which keys of a block a query does not attend to: those out of its window or of the sequence."""
    query_W = torch.arange(half_window, device=device)
    key_K = torch.arange(-half_window, 2 * half_window, device=device)
    is_far_WK = (key_K - query_W[:, None]).abs() > half_window
    place_MK = torch.arange(num_blocks, device=device)[:, None] * half_window + key_K
    is_outside_MK = (place_MK < 0) | (place_MK >= length)
    return is_far_WK | is_outside_MK[:, None]
