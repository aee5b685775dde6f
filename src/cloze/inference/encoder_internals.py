"""Show the numbers inside an encoder: input embeddings, attention weights, and one head's computation for one token.

The encoder runs as usual and returns the input of each layer; query, key and value are the layer's own projections of
it. So there is no second implementation of attention that could differ from the first.

Shapes: T tokens, N heads, H head size, D hidden.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cloze.errors import InputError
from cloze.inference.loading import batch_of, encode_untruncated
from cloze.models.encoder import Encoder
from cloze.tokenization.tokenizer import Encoding, Tokenizer


@dataclass(frozen=True, slots=True)
class InputEmbeddings:
    """The input of the first layer and the three embeddings it is made of, each [T, D] in float32 on the CPU.

    Those that the encoder does not have are 0.
    """

    word: Tensor
    segment: Tensor
    position: Tensor
    normalized: Tensor
    """LayerNorm of their sum."""


@torch.inference_mode()
def input_embeddings(model: Encoder, encoding: Encoding) -> InputEmbeddings:
    """Look up the three embeddings of each token.

    Source:
        Devlin et al. 2019, figure 2.
    """
    batch = batch_of(model, encoding)
    normalized_TD = model.embeddings(batch)
    parts = {name: part_TD.float().cpu() for name, part_TD in model.embeddings.look_up(batch).items()}
    zeros_TD = torch.zeros(normalized_TD.shape)
    return InputEmbeddings(
        **{name: parts.get(name, zeros_TD) for name in ("word", "segment", "position")},
        normalized=normalized_TD.float().cpu(),
    )


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """Query, key and value of one layer, each [N, T, H] in float32 on the CPU."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None = None
    """Is added to the scores, [N, T, T]."""

    @property
    def scores(self) -> Tensor:
        """q·k / sqrt(H) + bias, [N, T, T]: a row for each token that attends, a column for each it attends to."""
        scores_NTT = self.query @ self.key.transpose(1, 2) / math.sqrt(self.query.shape[-1])
        return scores_NTT if self.bias is None else scores_NTT + self.bias

    @property
    def weights(self) -> Tensor:
        """Softmax of each row of the scores, [N, T, T]."""
        return self.scores.softmax(-1)


@dataclass(frozen=True, slots=True)
class AttentionMap:
    """The tokens of a text and the attention of every layer, from the first to the last."""

    tokens: tuple[str, ...]
    token_type_ids: tuple[int, ...]
    layers: tuple[LayerAttention, ...]


@torch.inference_mode()
def attention_map(model: Encoder, tokenizer: Tokenizer, text: str, pair: str | None = None) -> AttentionMap:
    """Return the attention within a text, or within a pair of texts.

    Raises:
        InputError: the text has more tokens than the model takes, or the model is causal.

    Source:
        Vaswani et al. 2017, 3.2.1.
    """
    if model.config.attends_to != "all":
        what = f"attends to the {model.config.attends_to} only: such attention is not shown"
        raise InputError(what, where="model")
    encoding, batch = encode_untruncated(model, tokenizer, text, pair)
    if model.half_window is not None and len(encoding) > model.half_window + 1:
        what = f"{len(encoding)} tokens: the local layers of the model see {model.half_window} on each side"
        remedy = f"Give a text of at most {model.half_window + 1} tokens, which all layers see whole"
        raise InputError(what, where="text", remedy=remedy)
    hidden_states = model(batch, output_hidden_states=True).hidden_states
    bias_NTT = model.attention_bias(len(encoding))
    bias_NTT = None if bias_NTT is None else bias_NTT.float().cpu()
    layers = []
    for layer, hidden_TD in enumerate(hidden_states[:-1]):
        projected = model.project_qkv(layer, hidden_TD, batch)
        query, key, value = (part.transpose(0, 1).float().cpu() for part in projected)
        layers.append(LayerAttention(query, key, value, bias_NTT))
    return AttentionMap(tuple(encoding.tokens), tuple(encoding.token_type_ids), tuple(layers))


@dataclass(frozen=True, slots=True)
class AttentionRow:
    """One head's computation for one token, step by step."""

    query: Tensor
    """Of the token, [H]."""
    key: Tensor
    """Of every token, [T, H]."""
    products: Tensor
    """query · key, [T]."""
    scores: Tensor
    """The products / sqrt(H), plus the bias of an encoder that has one, [T]."""
    weights: Tensor
    """Softmax of the scores, [T]."""
    value: Tensor
    """Of every token, [T, H]."""
    weighted: Tensor
    """Each value times its weight, [T, H]."""
    context: Tensor
    """The sum of the weighted values, [H]: the output of the head."""


def attention_row(layer: LayerAttention, *, head: int, token: int) -> AttentionRow:
    """Compute one head's output for one token; both are counted from 0.

    Source:
        Vaswani et al. 2017, 3.2.1.
    """
    query_H, key_TH, value_TH = layer.query[head, token], layer.key[head], layer.value[head]
    products_T = key_TH @ query_H
    scores_T = layer.scores[head, token]
    weights_T = scores_T.softmax(-1)
    weighted_TH = weights_T[:, None] * value_TH
    return AttentionRow(
        query_H, key_TH, products_T, scores_T, weights_T, value_TH, weighted_TH, weighted_TH.sum(0)
    )
