"""Pooling: from the vectors of tokens to one vector of their sequence.

Shapes: T tokens in the packed batch, B sequences, L tokens of a sequence, D hidden.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cloze.choices import Pooling
from cloze.data.batch import PackedBatch
from cloze.errors import InputError
from cloze.models.encoder_config import EncoderConfig

if TYPE_CHECKING:  # a graph answers without torch
    from torch import Tensor

_LOWEST = -10_000.0  # at padding, in the maximum


class PoolingEntry(NamedTuple):
    """A pooling, and its names in the files of sentence-transformers."""

    function: Callable[[Any], Any]
    """From the vectors of sequences of equal length, [B, L, D], to [B, D], tensors or arrays."""
    name: str
    """The value of `pooling_mode`, since version 5."""
    flag: str
    """The key that is true, until version 5."""
    padded: Callable[[Any, Any], Any] | None = None
    """The same of vectors in float32 and a `PaddedBatch`; None for a pooling without a graph."""


def _padded_mean(hidden_BLD: Any, batch: Any, *, power: float = 1.0) -> Any:
    is_real_BL1 = batch.is_real[..., None].float()
    return (hidden_BLD * is_real_BL1).sum(1) / is_real_BL1.sum(1).clamp_min(1) ** power


POOLINGS: Mapping[Pooling, PoolingEntry] = MappingProxyType(
    {
        "cls": PoolingEntry(
            lambda hidden: hidden[:, 0],
            "cls",
            "pooling_mode_cls_token",
            lambda hidden, batch: batch.first_tokens(hidden),
        ),
        "mean": PoolingEntry(
            lambda hidden: hidden.sum(1) / hidden.shape[1], "mean", "pooling_mode_mean_tokens", _padded_mean
        ),
        "max": PoolingEntry(
            lambda hidden: hidden.max(1) if isinstance(hidden, np.ndarray) else hidden.amax(1),
            "max",
            "pooling_mode_max_tokens",
            lambda hidden, batch: hidden.masked_fill(~batch.is_real[..., None], _LOWEST).amax(1),
        ),
        "mean_sqrt_len": PoolingEntry(
            lambda hidden: hidden.sum(1) / hidden.shape[1] ** 0.5,
            "mean_sqrt_len_tokens",
            "pooling_mode_mean_sqrt_len_tokens",
            partial(_padded_mean, power=0.5),
        ),
    }
)


def pool(hidden_TD: "Tensor", batch: PackedBatch, pooling: Pooling) -> "Tensor":
    """Return a vector for each sequence, [B, D].

    Source: Reimers and Gurevych 2019, 3; `mean_sqrt_len` is in the program that accompanies the paper.
    """
    import torch

    from cloze.models.batch import PaddedBatch

    if isinstance(batch, PaddedBatch):
        pool_padded = POOLINGS[pooling].padded
        if pool_padded is None:
            raise ValueError(f"no graph of the pooling {pooling}")
        vectors_BD: Tensor = pool_padded(hidden_TD.float(), batch)
        return vectors_BD
    return torch.cat(pool_groups(hidden_TD, batch, pooling))


def pool_groups(hidden_TD: Any, batch: PackedBatch, pooling: Pooling) -> list[Any]:
    """Return the vectors of the sequences of each length group, [count, D]; of a tensor or an array."""
    function = POOLINGS[pooling].function
    return [
        function(hidden_TD[group.start : group.end].reshape(group.count, group.length, -1))
        for group in batch.length_groups
    ]


def check_pooling(pooling: str, config: EncoderConfig) -> None:
    """Refuse to pool [CLS] of a causal encoder, which is the same for every text."""
    if pooling == "cls" and config.attends_to == "left":
        what = "cls: in an encoder that attends to the left [CLS] sees nothing of the text"
        raise InputError(what, where="pooling", remedy="Take the mean")
