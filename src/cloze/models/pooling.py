"""Pooling: from the vectors of tokens to one vector of their sequence.

Shapes: T tokens in the packed batch, B sequences, L tokens of a sequence, D hidden.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from cloze.data.batch import PackedBatch
from cloze.errors import InputError
from cloze.models.encoder import Encoder

Pooling: TypeAlias = Literal["cls", "mean", "max", "mean_sqrt_len"]
"""[CLS]; or of all tokens with [CLS] and [SEP] the mean, the maximum, or the sum over the square root of the length."""


class PoolingEntry(NamedTuple):
    """A pooling and its names in the files of sentence-transformers."""

    function: Callable[[Tensor], Tensor]
    """From the vectors of sequences of equal length, [B, L, D], to [B, D]."""
    name: str
    """The value of `pooling_mode`, since version 5."""
    flag: str
    """The key that is true, until version 5."""


POOLINGS: Mapping[Pooling, PoolingEntry] = MappingProxyType(
    {
        "cls": PoolingEntry(lambda hidden: hidden[:, 0], "cls", "pooling_mode_cls_token"),
        "mean": PoolingEntry(
            lambda hidden: hidden.sum(1) / hidden.shape[1], "mean", "pooling_mode_mean_tokens"
        ),
        "max": PoolingEntry(lambda hidden: hidden.amax(1), "max", "pooling_mode_max_tokens"),
        "mean_sqrt_len": PoolingEntry(
            lambda hidden: hidden.sum(1) / hidden.shape[1] ** 0.5,
            "mean_sqrt_len_tokens",
            "pooling_mode_mean_sqrt_len_tokens",
        ),
    }
)


def pool(hidden_TD: Tensor, batch: PackedBatch, pooling: Pooling) -> Tensor:
    """Return a vector for each sequence, [B, D].

    Source:
        Reimers and Gurevych 2019, 3; `mean_sqrt_len` is in the program that accompanies the paper.
    """
    function = POOLINGS[pooling].function
    return torch.cat(
        [
            function(hidden_TD[group.start : group.end].view(group.count, group.length, -1))
            for group in batch.length_groups
        ]
    )


def check_pooling(pooling: str, encoder: Encoder) -> None:
    """Refuse to pool [CLS] of a causal encoder, which is the same for every text.

    Raises:
        InputError: it is that pooling.
    """
    if pooling == "cls" and encoder.is_causal:
        what = "cls: in an encoder that attends to the left [CLS] sees nothing of the text"
        raise InputError(what, where="pooling", remedy="Take the mean")
