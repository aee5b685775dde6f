"""Rows of the word embeddings for pieces that were added to a vocabulary.

Shapes: V vocabulary, D hidden.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from cloze.model.heads import BertForPreTraining


@torch.no_grad()
def set_new_rows(model: BertForPreTraining, rows: Mapping[int, Sequence[int]]) -> None:
    """Set the rows of new pieces to the mean of those of their old pieces, and their output biases likewise.

    The word embeddings are the output matrix, too, of which there is no second copy: with the table the head has grown.

    Args:
        model: is changed; its table grows where an id is beyond it.
        rows: the id of each new piece, with the ids of the pieces that stood for it, one at least.
    """
    vocab_size = max([model.config.vocab_size, *(number + 1 for number in rows)])
    table = model.bert.embeddings.word_embeddings
    table.weight = nn.Parameter(_with_new_rows(table.weight, rows, vocab_size))
    table.num_embeddings = vocab_size
    model.masked_lm.bias = nn.Parameter(_with_new_rows(model.masked_lm.bias, rows, vocab_size))
    model.bert.config = replace(model.config, vocab_size=vocab_size)


def _with_new_rows(values: Tensor, rows: Mapping[int, Sequence[int]], vocab_size: int) -> Tensor:
    grown = values.new_zeros(vocab_size, *values.shape[1:])
    grown[: len(values)] = values
    for number, pieces in rows.items():
        grown[number] = values[list(pieces)].mean(0)
    return grown
