"""Word embeddings for tokens that were added to a vocabulary.

Shapes: V vocabulary, D hidden.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from cloze.models.heads import BertForPreTraining


@torch.no_grad()
def resize_token_embeddings(model: BertForPreTraining, rows: Mapping[int, Sequence[int]]) -> None:
    """Set the embedding and output bias of each new token to the mean of those of its old tokens.

    The word embeddings are also the output matrix, so that the head grows with them where an id is beyond their end.

    Args:
        rows: the id of each new token, with the ids of the old tokens that spell it, at least one.
    """
    vocab_size = max([model.config.vocab_size, *(new_id + 1 for new_id in rows)])
    table = model.bert.embeddings.word_embeddings
    table.weight = nn.Parameter(_with_new_rows(table.weight, rows, vocab_size))
    table.num_embeddings = vocab_size
    model.masked_lm.bias = nn.Parameter(_with_new_rows(model.masked_lm.bias, rows, vocab_size))
    model.bert.config = replace(model.config, vocab_size=vocab_size)


def _with_new_rows(values: Tensor, rows: Mapping[int, Sequence[int]], vocab_size: int) -> Tensor:
    grown = values.new_zeros(vocab_size, *values.shape[1:])
    grown[: len(values)] = values
    for new_id, old_ids in rows.items():
        grown[new_id] = values[list(old_ids)].mean(0)
    return grown
