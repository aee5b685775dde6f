"""Pooling: from the vectors of tokens to one vector of their sequence.

Shapes: T tokens in the packed batch, B sequences, L tokens of a sequence, D hidden.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from cloze.data.batch import PackedBatch
from cloze.errors import InputError
from cloze.models.encoder_config import EncoderConfig
from cloze.models.graph import MASKED_SCORE, Graph

if TYPE_CHECKING:  # a graph answers without torch
    from torch import Tensor

Pooling: TypeAlias = Literal["cls", "mean", "max", "mean_sqrt_len"]
"""[CLS]; or of all tokens with [CLS] and [SEP] the mean, the maximum, or the sum over the square root of the length."""


class PoolingEntry(NamedTuple):
    """A pooling, in torch and in ONNX, and its names in the files of sentence-transformers."""

    function: Callable[[Any], Any]
    """From the vectors of sequences of equal length, [B, L, D], to [B, D], tensors or arrays."""
    name: str
    """The value of `pooling_mode`, since version 5."""
    flag: str
    """The key that is true, until version 5."""
    write: Callable[[Graph, str], str] | None = None
    """The same in ONNX, of float32 vectors with padding; None for a pooling without a graph."""


def _write_max(graph: Graph, hidden_BLD: str) -> str:
    lowest = graph.constant(MASKED_SCORE, np.float32)
    masked_BLD = graph.add("Where", _write_is_real(graph), hidden_BLD, lowest)
    return graph.add("ReduceMax", masked_BLD, graph.constant([1]), keepdims=0)


def _write_mean(graph: Graph, hidden_BLD: str, *, takes_root: bool = False) -> str:
    shares_BL1, columns = graph.cast(_write_is_real(graph), "float32"), graph.constant([1])
    sum_BD = graph.add("ReduceSum", graph.add("Mul", hidden_BLD, shares_BL1), columns, keepdims=0)
    length_B1 = graph.add("ReduceSum", shares_BL1, columns, keepdims=0)
    length_B1 = graph.add("Max", length_B1, graph.constant(1, np.float32))
    return graph.add("Div", sum_BD, graph.add("Sqrt", length_B1) if takes_root else length_B1)


def _write_is_real(graph: Graph) -> str:
    """Return which tokens are real, [B, L, 1]."""
    return graph.add("Unsqueeze", graph.is_real_BL, graph.constant([2]))


def _max(hidden_BLD: Any) -> Any:
    return hidden_BLD.max(1) if isinstance(hidden_BLD, np.ndarray) else hidden_BLD.amax(1)


POOLINGS: Mapping[Pooling, PoolingEntry] = MappingProxyType(
    {
        "cls": PoolingEntry(lambda hidden: hidden[:, 0], "cls", "pooling_mode_cls_token", Graph.first_real),
        "mean": PoolingEntry(
            lambda hidden: hidden.sum(1) / hidden.shape[1], "mean", "pooling_mode_mean_tokens", _write_mean
        ),
        "max": PoolingEntry(_max, "max", "pooling_mode_max_tokens", _write_max),
        "mean_sqrt_len": PoolingEntry(
            lambda hidden: hidden.sum(1) / hidden.shape[1] ** 0.5,
            "mean_sqrt_len_tokens",
            "pooling_mode_mean_sqrt_len_tokens",
            partial(_write_mean, takes_root=True),
        ),
    }
)


def pool(hidden_TD: "Tensor", batch: PackedBatch, pooling: Pooling) -> "Tensor":
    """Return a vector for each sequence, [B, D].

    Source: Reimers and Gurevych 2019, 3; `mean_sqrt_len` is in the program that accompanies the paper.
    """
    import torch

    return torch.cat(pool_groups(hidden_TD, batch, pooling))


def pool_groups(hidden_TD: Any, batch: PackedBatch, pooling: Pooling) -> list[Any]:
    """Return the vectors of the sequences of each length group, [count, D]; of a tensor or an array."""
    function = POOLINGS[pooling].function
    return [
        function(hidden_TD[group.start : group.end].reshape(group.count, group.length, -1))
        for group in batch.length_groups
    ]


def write_pooling(graph: Graph, hidden_BLD: str, pooling: Pooling) -> str:
    """Write a pooling, if it has a graph, and return [B, D] in float32, since float16 would overflow."""
    write = POOLINGS[pooling].write
    if write is None:
        raise ValueError(f"no graph of the pooling {pooling}")
    return write(graph, graph.cast(hidden_BLD, "float32"))


def check_pooling(pooling: str, config: EncoderConfig) -> None:
    """Refuse to pool [CLS] of a causal encoder, which is the same for every text."""
    if pooling == "cls" and config.attends_to == "left":
        what = "cls: in an encoder that attends to the left [CLS] sees nothing of the text"
        raise InputError(what, where="pooling", remedy="Take the mean")
