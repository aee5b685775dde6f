"""From vectors of tokens to one of their text.

Shapes: T tokens in the packed batch, B sequences, L tokens of a sequence, D hidden.
"""

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from cloze.errors import InputError
from cloze.model.bert import BertModel
from cloze.model.packed import Packed

Pooling: TypeAlias = Literal["cls", "mean", "max", "mean_sqrt_len"]
"""[CLS]; or mean, maximum, or sum over the square root of the length of all tokens, [CLS] and [SEP] included."""


def pool(hidden_TD: Tensor, packed: Packed, pooling: Pooling) -> Tensor:
    """Return a vector for each sequence, [B, D].

    Source:
        Reimers and Gurevych 2019, 3; `mean_sqrt_len` is of the program that came with the paper.
    """
    if pooling == "cls":
        return hidden_TD.index_select(0, packed.cu_seqlens[:-1])
    return torch.cat(
        [
            _pool_equal(hidden_TD[run.start : run.end].view(run.count, run.length, -1), pooling)
            for run in packed.runs
        ]
    )


def _pool_equal(hidden_BLD: Tensor, pooling: Pooling) -> Tensor:
    if pooling == "max":
        return hidden_BLD.amax(1)
    length: float = hidden_BLD.shape[1]
    return hidden_BLD.sum(1) / (length if pooling == "mean" else length**0.5)


def check_pooling(pooling: str, bert: BertModel) -> None:
    """Refuse a vector that would be the same for every text.

    Raises:
        InputError: it is that of [CLS], which stands first, and the encoder looks to the left.
    """
    if pooling == "cls" and not bert.cls_sees_text:
        what = "cls: of an encoder that looks to the left [CLS] sees nothing of the text"
        raise InputError(what, where="pooling", remedy="Take the mean")


def pool_weighted(hidden_TD: Tensor, weights_T: Tensor, packed: Packed) -> Tensor:
    """Return the weighted mean of each sequence, [B, D]; the plain mean where all its weights are 0.

    Args:
        hidden_TD: token vectors.
        weights_T: at least 0, such as how rare each token is.
        packed: where the sequences are.
    """
    means = []
    for run in packed.runs:
        hidden_BLD = hidden_TD[run.start : run.end].view(run.count, run.length, -1)
        weights_BL = weights_T[run.start : run.end].view(run.count, run.length)
        weights_BL = torch.where(weights_BL.sum(1, keepdim=True) > 0, weights_BL, 1.0)
        shares_B1L = (weights_BL / weights_BL.sum(1, keepdim=True)).unsqueeze(1)
        means.append((shares_B1L @ hidden_BLD).squeeze(1))
    return torch.cat(means)
