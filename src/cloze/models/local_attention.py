"""Local attention over packed batches: each token attends to those at most `half_window` places away.

Time and memory grow with the length of a sequence, not with its square: the sequence is cut into blocks as long as half
a window, and the queries of a block meet the keys of that block and of its two neighbors.

Shapes: T tokens in the packed batch, N heads, H head size; C sequences of length L, M blocks of W queries, W = half
    window; K = 3 W keys of a block.
"""

import torch
from torch import Tensor, nn

from cloze.data.batch import LengthGroup, PackedBatch
from cloze.models.dropout import dropout

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

    Source:
        Beltagy et al. 2020, "Longformer", 3.1; Warner et al. 2024, "ModernBERT", 2.1.2.
    """
    scaled_TNH = query_TNH * query_TNH.shape[-1] ** -0.5
    # split, not sliced: the gradient of a slice is as large as the whole batch
    sizes = [group.end - group.start for group in batch.length_groups]
    parts = zip(*(torch.split(values, sizes) for values in (scaled_TNH, key_TNH, value_TNH)), strict=True)
    contexts = []
    for group, (query, key, value) in zip(batch.length_groups, parts, strict=True):
        is_short = group.length <= _BLOCKS_OF_FULL_ATTENTION * half_window
        attend = _attend_to_all if is_short else _attend_in_blocks
        shape = (group.count, group.length, *query.shape[1:])
        context = attend(
            query.view(shape), key.view(shape), value.view(shape), group, dropout_prob, half_window
        )
        contexts.append(context.flatten(0, 1))
    return contexts[0] if len(contexts) == 1 else torch.cat(contexts)


def _attend_to_all(
    query_CLNH: Tensor,
    key_CLNH: Tensor,
    value_CLNH: Tensor,
    group: LengthGroup,
    dropout_prob: float,
    half_window: int,
) -> Tensor:
    """Compute the scores of all pairs of a short sequence, and mask those out of the window."""
    query_CNLH, key_CNLH, value_CNLH = (x.transpose(1, 2) for x in (query_CLNH, key_CLNH, value_CLNH))
    scores_CNLL = query_CNLH @ key_CNLH.mT
    if group.length > half_window + 1:
        places_L = torch.arange(group.length, device=scores_CNLL.device)
        is_far_LL = (places_L[:, None] - places_L).abs() > half_window
        scores_CNLL = scores_CNLL.masked_fill(is_far_LL, -torch.inf)
    return (dropout(scores_CNLL.softmax(-1), dropout_prob) @ value_CNLH).transpose(1, 2)


def _attend_in_blocks(
    query_CLNH: Tensor,
    key_CLNH: Tensor,
    value_CLNH: Tensor,
    group: LengthGroup,
    dropout_prob: float,
    half_window: int,
) -> Tensor:
    """Compute the scores of each block of queries with the keys of three blocks."""
    num_blocks = -(-group.length // half_window)
    padding = num_blocks * half_window - group.length

    def in_blocks(values_CLNH: Tensor, before: int) -> Tensor:
        padded = nn.functional.pad(values_CLNH, (0, 0, 0, 0, before, padding + before))
        return padded.view(group.count, -1, half_window, *padded.shape[2:])

    def with_neighbors(values_CLNH: Tensor) -> Tensor:
        blocks = in_blocks(values_CLNH, half_window)
        first, middle, last = blocks[:, :-2], blocks[:, 1:-1], blocks[:, 2:]
        return torch.cat([first, middle, last], 2).transpose(2, 3)

    query_CMNWH = in_blocks(query_CLNH, 0).transpose(2, 3)
    key_CMNKH, value_CMNKH = with_neighbors(key_CLNH), with_neighbors(value_CLNH)
    scores_CMNWK = query_CMNWH @ key_CMNKH.mT
    hidden_M1WK = _is_hidden(num_blocks, half_window, group.length, scores_CMNWK.device)
    # not -inf: a query of the padding may have no key
    lowest = torch.finfo(scores_CMNWK.dtype).min
    weights_CMNWK = dropout(scores_CMNWK.masked_fill(hidden_M1WK, lowest).softmax(-1), dropout_prob)
    context_CLNH = (weights_CMNWK @ value_CMNKH).transpose(2, 3).flatten(1, 2)
    return context_CLNH[:, : group.length]


def _is_hidden(num_blocks: int, half_window: int, length: int, device: torch.device) -> Tensor:
    """Return which keys of a block a query does not attend to: those out of its window or of the sequence."""
    query_W = torch.arange(half_window, device=device)
    key_K = torch.arange(-half_window, 2 * half_window, device=device)
    is_far_WK = (key_K - query_W[:, None]).abs() > half_window
    place_MK = torch.arange(num_blocks, device=device)[:, None] * half_window + key_K
    is_outside_MK = (place_MK < 0) | (place_MK >= length)
    return (is_far_WK | is_outside_MK[:, None])[:, None]
