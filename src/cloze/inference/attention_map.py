"""Where each piece of a text looks, in every layer and head of an encoder.

The encoder runs as it always does and keeps what goes into each layer; query and key are the layer's own projections
of that, so there is no second encoder that could differ from the first, whatever back end attended in it.

Shapes: T tokens, N heads, H head size.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cloze.errors import InputError
from cloze.inference.loading import encode_whole
from cloze.model.bert import BertLayer, BertModel
from cloze.model.packed import Packed
from cloze.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """What one layer makes of its input before it mixes any pieces, in float32 on the CPU."""

    query: Tensor
    """[N, T, H]."""
    key: Tensor
    """[N, T, H]."""
    value: Tensor
    """[N, T, H]."""

    @property
    def scores(self) -> Tensor:
        """Return q·k / sqrt(H), [N, T, T]: a row for the piece that looks, a column for what it looks at."""
        return self.query @ self.key.transpose(1, 2) / math.sqrt(self.query.shape[-1])

    @property
    def weights(self) -> Tensor:
        """Return the softmax of each row of the scores, [N, T, T]."""
        return self.scores.softmax(-1)


@dataclass(frozen=True, slots=True)
class AttentionMap:
    """A text as the encoder reads it, and the attention of every layer, the lowest first."""

    tokens: tuple[str, ...]
    token_type_ids: tuple[int, ...]
    layers: tuple[LayerAttention, ...]


@torch.inference_mode()
def attention_map(model: BertModel, tokenizer: Tokenizer, text: str, pair: str | None = None) -> AttentionMap:
    """Return the attention within a text, or a pair of texts.

    Raises:
        InputError: it has more tokens than the model takes.

    Source:
        Vaswani et al. 2017, 3.2.1.
    """
    if model.config.attends_to != "all":
        raise InputError(
            f"sees the {model.config.attends_to} alone: such attention is not shown", where="model"
        )
    encoding = encode_whole(model.config, tokenizer, text, pair)
    device = next(model.parameters()).device
    packed = Packed.from_sequences([encoding.input_ids], [encoding.token_type_ids]).to(device)
    output = model.forward_packed(packed, keep_hidden_states=True)
    layers = []
    for layer, hidden_TD in zip(model.layers, output.hidden_states[:-1], strict=True):
        assert isinstance(layer, BertLayer)
        layers.append(
            LayerAttention(*(each.transpose(0, 1).float().cpu() for each in layer.project(hidden_TD)))
        )
    return AttentionMap(tuple(encoding.tokens), tuple(encoding.token_type_ids), tuple(layers))
