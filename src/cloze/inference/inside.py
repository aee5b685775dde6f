"""The numbers inside an encoder, one at a time: how its input is summed, and how a head makes one new vector.

Shapes: T tokens, D hidden, H head size.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cloze.inference.attention_map import LayerAttention
from cloze.model.bert import BertModel
from cloze.model.packed import Packed
from cloze.text.tokenizer import Encoding


@dataclass(frozen=True, slots=True)
class InputEmbeddings:
    """What an encoder knows of each token before its first layer, in float32 on the CPU: three rows of tables."""

    word: Tensor
    """[T, D]."""
    segment: Tensor
    """[T, D]."""
    position: Tensor
    """[T, D]."""
    normalized: Tensor
    """LayerNorm of their sum, [T, D]: what the first layer reads."""


@torch.inference_mode()
def input_embeddings(model: BertModel, encoding: Encoding) -> InputEmbeddings:
    """Look up the three embeddings of each token.

    Source:
        Devlin et al. 2019, figure 2.
    """
    packed = Packed.from_sequences([encoding.input_ids], [encoding.token_type_ids])
    packed = packed.to(next(model.parameters()).device)
    tables = model.embeddings
    found = (
        tables.word_embeddings(packed.input_ids),
        tables.token_type_embeddings(packed.token_type_ids),
        tables.position_embeddings(packed.position_ids),
        tables(packed),
    )
    return InputEmbeddings(*(each_TD.float().cpu() for each_TD in found))


@dataclass(frozen=True, slots=True)
class AttentionRow:
    """How one head makes the new vector of one piece, step by step."""

    query: Tensor
    """Of the piece, [H]."""
    key: Tensor
    """Of every piece, [T, H]."""
    products: Tensor
    """query · key, [T]."""
    scores: Tensor
    """The products / sqrt(H), [T]."""
    weights: Tensor
    """Softmax of the scores, [T]: they sum to 1."""
    value: Tensor
    """Of every piece, [T, H]."""
    weighted: Tensor
    """Each value times its weight, [T, H]."""
    context: Tensor
    """The sum of the weighted values, [H]: what the head passes on."""


def attention_row(layer: LayerAttention, *, head: int, piece: int) -> AttentionRow:
    """Compute what one head does for one piece.

    Args:
        layer: of an attention map.
        head: counted from 0.
        piece: counted from 0.

    Source:
        Vaswani et al. 2017, 3.2.1.
    """
    query_H, key_TH, value_TH = layer.query[head, piece], layer.key[head], layer.value[head]
    products_T = key_TH @ query_H
    scores_T = products_T / math.sqrt(len(query_H))
    weights_T = scores_T.softmax(-1)
    weighted_TH = weights_T[:, None] * value_TH
    return AttentionRow(
        query_H, key_TH, products_T, scores_T, weights_T, value_TH, weighted_TH, weighted_TH.sum(0)
    )
