"""What a graph must give: the outputs of the packed model, spread over a padded batch.

Shapes: B sequences, L columns, D hidden.
"""

import torch
from torch import Tensor, nn

from cloze.model.bert import BertModel
from cloze.model.heads import (
    BertForFeatureExtraction,
    BertForMaskedLM,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForTokenClassification,
)
from cloze.model.packed import Packed, pack_padded
from cloze.model.pooling import Pooling, pool


class SentenceEncoder(nn.Module):
    """An encoder whose output is one vector a text, as sentence-transformers' files describe it."""

    def __init__(self, bert: BertModel, *, pooling: Pooling, normalize: bool) -> None:
        super().__init__()
        self.bert = bert
        self.pooling = pooling
        self.normalize = normalize

    def forward(self, packed: Packed) -> Tensor:
        """Return vectors [B, D]."""
        vectors_BD = pool(self.bert.forward_packed(packed).sequence_output, packed, self.pooling)
        return nn.functional.normalize(vectors_BD, dim=-1) if self.normalize else vectors_BD


@torch.inference_mode()
def padded_outputs(
    model: nn.Module, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
) -> dict[str, Tensor]:
    """Return the outputs of a model by the names that transformers has for them, 0 where the padding is.

    Shapes:
        input_ids, attention_mask, token_type_ids [B, L]; outputs [B, …] or [B, L, …].
    """
    packed, padding = pack_padded(input_ids, attention_mask, token_type_ids)
    every_token = torch.arange(packed.num_tokens)
    of_tokens, of_sequences = padding.unpack_tokens, padding.unpack_sequences
    match model:
        case BertModel():
            output = model.forward_packed(packed)
            return {
                "last_hidden_state": of_tokens(output.sequence_output),
                "pooler_output": of_sequences(output.pooled_output),
            }
        case BertForFeatureExtraction():
            return {"last_hidden_state": of_tokens(model(packed))}
        case BertForPreTraining():
            logits = model(packed, every_token)
            return {
                "prediction_logits": of_tokens(logits.masked_lm_logits),
                "seq_relationship_logits": of_sequences(logits.next_sentence_logits),
            }
        case BertForMaskedLM():
            return {"logits": of_tokens(model(packed, every_token))}
        case BertForTokenClassification():
            return {"logits": of_tokens(model(packed))}
        case BertForQuestionAnswering():
            start_logits_BL, end_logits_BL = of_tokens(model(packed)).unbind(-1)
            return {"start_logits": start_logits_BL, "end_logits": end_logits_BL}
        case SentenceEncoder():
            return {"sentence_embedding": of_sequences(model(packed))}
    return {"logits": of_sequences(model(packed))}
