"""Positions as waves, in the place of a table that is learned.

The table is one of weights like any other, so a model with it is a BERT to whoever reads it.

Shapes: L positions, D hidden.
"""

import torch
from torch import Tensor

from cloze.model.bert import BertModel

_HEIGHT = 5.0


def sinusoidal_positions(num_positions: int, hidden_size: int) -> Tensor:
    """Return sin(p / 10000^(2i/D)) in column 2i of row p and the cosine in column 2i + 1, [L, D] in float32.

    Source:
        Vaswani et al. 2017, 3.5.
    """
    rates = 10_000 ** (-torch.arange(0, hidden_size, 2, dtype=torch.float64) / hidden_size)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :hidden_size].float()


@torch.no_grad()
def fix_positions(bert: BertModel) -> None:
    """Give an encoder sinusoidal positions, which do not learn.

    Differs:
        Vaswani et al. have waves of height 1 beside word embeddings multiplied by sqrt(D), so that the two are alike.
        BERT's words begin at `initializer_range` and grow. Here the root of the waves' mean square is 5 times that:
        at once or 35 times the words of a small encoder are learned later (docs/ablations.md).
    """
    table = bert.embeddings.position_embeddings.weight
    waves = sinusoidal_positions(*table.shape)
    table.copy_(waves * 2**0.5 * bert.config.initializer_range * _HEIGHT)
    bert.embeddings.position_embeddings.requires_grad_(requires_grad=False)
