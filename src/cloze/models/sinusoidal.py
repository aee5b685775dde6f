"""Sinusoidal position embeddings instead of learned ones.

They are weights like any other, so that every program reads the model as a BERT.

Shapes: L positions, D hidden.
"""

import torch
from torch import Tensor

from cloze.models.encoder import Encoder

_SCALE = 5.0


def sinusoidal_positions(num_positions: int, hidden_size: int) -> Tensor:
    """Return sin(p / 10000^(2i/D)) in column 2i of row p and the cosine in column 2i + 1, [L, D] in float32.

    Source:
        Vaswani et al. 2017, 3.5.
    """
    rates = 10_000 ** (-torch.arange(0, hidden_size, 2, dtype=torch.float64) / hidden_size)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :hidden_size].float()


@torch.no_grad()
def set_sinusoidal_positions(encoder: Encoder) -> None:
    """Set the position embeddings of an encoder to sinusoids that are not trained.

    Differs:
        Vaswani et al. add waves of amplitude 1 to word embeddings multiplied by sqrt(D), so that both have the same
        scale. BERT's word embeddings start at `initializer_range` and grow. Here the root mean square of the waves is
        5 times that; with 1 or 35 times a small encoder learns words later (records/2026-11-22-table5).
    """
    table = encoder.embeddings.position_embeddings.weight
    waves = sinusoidal_positions(*table.shape)
    table.copy_(waves * 2**0.5 * encoder.config.initializer_range * _SCALE)
    encoder.embeddings.position_embeddings.requires_grad_(requires_grad=False)
