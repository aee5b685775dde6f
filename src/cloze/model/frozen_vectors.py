"""BERT as a maker of features for whole texts: a frozen encoder, and a logistic regression on its vectors.

Shapes: B sequences, D hidden, C classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.model.bert import BertConfig, BertModel, initialize_weights
from cloze.model.packed import Packed
from cloze.model.pooling import Pooling, check_pooling, pool


@dataclass(frozen=True, slots=True)
class PackedVectors(Packed):
    """Sequences end to end, with what the frozen encoder says of each, where that was computed before."""

    vectors: Tensor
    """[B, D]."""

    def to(self, device: torch.device | str) -> "PackedVectors":
        """Copy the tensors to a device, without waiting for it."""
        packed = Packed.to(self, device)
        return PackedVectors(
            packed.input_ids,
            packed.token_type_ids,
            packed.position_ids,
            packed.cu_seqlens,
            packed.runs,
            self.vectors.to(device, non_blocking=True),
        )


def frozen_vectors(bert: BertModel, packed: Packed, *, layer: int, pooling: Pooling) -> Tensor:
    """Return what an encoder says of sequences, [B, D], in float32.

    Args:
        bert: the encoder.
        packed: the sequences.
        layer: from 1; 0 is the embeddings, -1 the last.
        pooling: how the layer's vectors become one.

    Raises:
        InputError: the encoder has no such layer, or looks to the left of [CLS], where there is nothing.
    """
    check_layer(bert.config, layer)
    check_pooling(pooling, bert)
    with torch.autocast(packed.input_ids.device.type, enabled=False):
        hidden_states = bert.forward_packed(packed, keep_hidden_states=True).hidden_states
    return pool(hidden_states[layer], packed, pooling)


def check_layer(config: BertConfig, layer: int) -> None:
    """Refuse a layer that an encoder does not have.

    Raises:
        InputError: it has none such.
    """
    count = config.num_hidden_layers
    if not -count - 1 <= layer <= count:
        what = f"the model has no layer {layer}"
        remedy = f"Take one of 1 to {count}, 0 for the embeddings, or count from the last, which is -1"
        raise InputError(what, where="layer", remedy=remedy)


class BertForFeatureClassification(nn.Module):
    """A class for each sequence, from the vectors of an encoder that does not learn: one dense layer.

    Differs:
        No other program has this head, so its weights bear a name that none takes for a head of its own; as an
        encoder the file is read by all.
    """

    reads_pooled_output = False

    def __init__(
        self,
        bert: BertModel,
        *,
        num_labels: int,
        layer: int,
        pooling: Pooling,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_layer(bert.config, layer)
        self.bert = bert.requires_grad_(requires_grad=False)
        self._layer = layer
        self._pooling: Pooling = pooling
        self.logistic_regression = nn.Linear(bert.config.hidden_size, num_labels)
        initialize_weights(self.logistic_regression, bert.config.initializer_range, generator)

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.bert.config

    def train(self, mode: bool = True) -> "BertForFeatureClassification":  # noqa: FBT001, FBT002 (torch's)
        """Set the mode of all but the encoder, which is never in training."""
        super().train(mode)
        self.bert.eval()
        return self

    def forward(self, packed: Packed) -> Tensor:
        """Return logits [B, C]."""
        if isinstance(packed, PackedVectors):
            vectors_BD = packed.vectors
        else:
            vectors_BD = frozen_vectors(self.bert, packed, layer=self._layer, pooling=self._pooling)
        logits_BC: Tensor = self.logistic_regression(vectors_BD)
        return logits_BC
