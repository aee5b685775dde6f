"""The outputs that a graph must reproduce: those of the packed model, at their places in a padded batch.

Shapes: B sequences, L columns, D hidden.
"""

import torch
from torch import Tensor

from cloze.models.batch import pack_padded
from cloze.models.encoder import Encoder, get_encoder
from cloze.models.heads import ModelWithHead


@torch.inference_mode()
def padded_outputs(
    model: Encoder | ModelWithHead, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
) -> dict[str, Tensor]:
    """Return the outputs of a model by their names in transformers, 0 at the padding.

    Shapes:
        input_ids, attention_mask, token_type_ids [B, L]; outputs [B, …] or [B, L, …].
    """
    counts_padding = get_encoder(model).config.counts_padding
    batch, padding = pack_padded(input_ids, attention_mask, token_type_ids, counts_padding=counts_padding)
    return {
        name: padding.unpack_tokens(values)
        if name in model.token_outputs
        else padding.unpack_sequences(values)
        for name, values in model.named_outputs(batch).items()
    }
