"""Rotary positions (Su et al. 2021): query and key are rotated by angles that grow with the position.

Shapes: T tokens in the packed batch, N heads, H head size, P positions.
"""

from functools import cache, lru_cache
from typing import TypeAlias

import torch
from torch import Tensor

Rotation: TypeAlias = tuple[Tensor, Tensor]
"""Cosine and sine of the angles of each token, [T, 1, H / 2] each."""


@cache
def _rotation_rates(theta: float, head_size: int) -> tuple[float, ...]:
    """Return the angle between two neighbors for each pair of numbers of a head, in float32 as elsewhere.

    They are no tensor, which an exporter would trace and round again.
    """
    rates_H = 1.0 / theta ** (torch.arange(0, head_size, 2, device="cpu").float() / head_size)
    rates: list[float] = rates_H.tolist()
    return tuple(rates)


def compute_angles(theta: float, head_size: int, num_positions: int, device: torch.device) -> Tensor:
    """Return cosine and sine of each position times each rate, [2, P, H / 2]."""
    rates_H = torch.tensor(_rotation_rates(theta, head_size))
    angles_PH = torch.arange(num_positions).float()[:, None] * rates_H
    return torch.stack([angles_PH.cos(), angles_PH.sin()]).to(device)


@lru_cache(maxsize=8)
def angles(theta: float, head_size: int, num_positions: int, device: torch.device) -> Tensor:
    """Return `compute_angles`, computed on the CPU for every device."""
    # outside of inference mode and the device meta, since training may use the table, too
    with torch.inference_mode(mode=False), torch.device("cpu"):
        return compute_angles(theta, head_size, num_positions, device)


def rotate(values_TNH: Tensor, rotation: Rotation) -> Tensor:
    """Rotate each pair of numbers, one of either half of a head, by the angle of the token's position and the pair."""
    cosine_T1H, sine_T1H = rotation
    first, second = values_TNH.chunk(2, -1)
    rotated = torch.cat(
        [first * cosine_T1H - second * sine_T1H, second * cosine_T1H + first * sine_T1H], dim=-1
    )
    return rotated.to(values_TNH.dtype)
