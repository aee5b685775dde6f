"""Packed batches as transformers takes them: rows padded to the longest.

Shapes: T tokens in a packed batch, B sequences, L tokens of the longest.
"""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cloze.data.batch import PackedBatch

IGNORED = -100
"""transformers' label of positions without a loss."""


def pad(*batches: PackedBatch) -> dict[str, Tensor]:
    """Return the inputs of a model, [B, L], for all sequences of some batches."""
    return {
        "input_ids": pad_rows(batches, [batch.input_ids for batch in batches]),
        "token_type_ids": pad_rows(batches, [batch.token_type_ids for batch in batches]),
        "attention_mask": pad_rows(batches, [torch.ones_like(batch.input_ids) for batch in batches]),
    }


def pad_rows(batches: Sequence[PackedBatch], values: Sequence[Tensor], *, padding: int = 0) -> Tensor:
    """Return values of the tokens of batches as [B, L]."""
    rows = (
        torch.split(values, batch.cu_seqlens.diff().tolist())
        for batch, values in zip(batches, values, strict=True)
    )
    return pad_sequence(list(chain.from_iterable(rows)), batch_first=True, padding_value=padding)


def token_labels(batch: PackedBatch, positions: Tensor, targets: Tensor) -> Tensor:
    """Return the labels of all tokens of a packed batch, [T]; only those at some positions count."""
    return torch.full_like(batch.input_ids, IGNORED).index_copy(0, positions, targets)
