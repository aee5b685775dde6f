"""BERT with sinusoidal position embeddings instead of learned ones.

Shapes: L positions, D hidden.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cloze.models.bert import BertConfig, BertModel
from cloze.models.encoder import register_encoder
from cloze.models.encoder_config import EncoderConfig

_SCALE = 5.0


@dataclass(frozen=True, kw_only=True)
class SinusoidalBertConfig(BertConfig):
    """The architecture of BERT."""


@register_encoder("sinusoidal-bert")
class SinusoidalBert(BertModel):
    """BERT whose position embeddings are sinusoids that are not trained.

    Differs:
        Vaswani et al. add waves of amplitude 1 to word embeddings multiplied by sqrt(D), so that both have the same
        scale. BERT's word embeddings start at `initializer_range` and grow. Here the root mean square of the waves is
        5 times that; with 1 or 35 times a small encoder learns words later (records/2026-11-22-table5).
    """

    config_class: ClassVar[type[EncoderConfig]] = SinusoidalBertConfig

    def __init__(self, config: SinusoidalBertConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__(config, generator=generator)
        table = self.embeddings.position_embeddings.weight.requires_grad_(requires_grad=False)
        table.copy_(sinusoidal_positions(*table.shape) * 2**0.5 * config.initializer_range * _SCALE)


def sinusoidal_positions(num_positions: int, hidden_size: int) -> Tensor:
    """Return sin(p / 10000^(2i/D)) in column 2i of row p and the cosine in column 2i + 1, [L, D] in float32.

    Source:
        Vaswani et al. 2017, 3.5.
    """
    rates = 10_000 ** (-torch.arange(0, hidden_size, 2, dtype=torch.float64) / hidden_size)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :hidden_size].float()
