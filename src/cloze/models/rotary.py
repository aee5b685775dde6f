"""Rotary positions (Su et al. 2021): query and key are rotated by angles that grow with the position.

Shapes: T tokens in the packed batch, B sequences, L columns, N heads, H head size, P positions.
"""

from functools import lru_cache
from typing import TypeAlias

import torch
from torch import Tensor

from cloze.models.graph import Graph

Rotation: TypeAlias = tuple[Tensor, Tensor]
"""Cosine and sine of the angles of each token, [T, 1, H / 2] each."""
GraphRotation: TypeAlias = tuple[str, str]
"""The same in ONNX for each column, [L, 1, H / 2] each."""


def _rotation_rates(theta: float, head_size: int) -> Tensor:
    """Return the angle between two neighbors for each pair of numbers of a head, [H / 2], in float32 as elsewhere."""
    rates_H: Tensor = 1.0 / theta ** (torch.arange(0, head_size, 2).float() / head_size)
    return rates_H


@lru_cache(maxsize=8)
def angles(theta: float, head_size: int, num_positions: int, device: torch.device) -> Tensor:
    """Return cosine and sine of each position times each rate, [2, P, H / 2], computed on the CPU for every device."""
    # outside of inference mode and the device meta, since training may use the table, too
    with torch.inference_mode(mode=False), torch.device("cpu"):
        angles_PH = torch.arange(num_positions).float()[:, None] * _rotation_rates(theta, head_size)
        return torch.stack([angles_PH.cos(), angles_PH.sin()]).to(device)


def rotate(values_TNH: Tensor, rotation: Rotation) -> Tensor:
    """Rotate each pair of numbers, one of either half of a head, by the angle of the token's position and the pair."""
    cosine_T1H, sine_T1H = rotation
    first, second = values_TNH.chunk(2, -1)
    rotated = torch.cat(
        [first * cosine_T1H - second * sine_T1H, second * cosine_T1H + first * sine_T1H], dim=-1
    )
    return rotated.to(values_TNH.dtype)


def write_rotation(graph: Graph, row_L1: str, theta: float, head_size: int) -> GraphRotation:
    """Write cosine and sine of each position, [L, 1], times each rate."""
    rates_H = _rotation_rates(theta, head_size).numpy()
    angles_LH = graph.add("Mul", graph.cast(row_L1, "float32"), graph.constant(rates_H, rates_H.dtype))
    angles_L1H = graph.add("Unsqueeze", angles_LH, graph.constant([1]))
    one = graph.constant(1, graph.dtype)
    cosine, sine = (graph.add("CastLike", graph.add(name, angles_L1H), one) for name in ("Cos", "Sin"))
    return cosine, sine


def write_rotated(graph: Graph, values_BLNH: str, rotation: GraphRotation) -> str:
    """Write `rotate`, [B, L, N, H]."""
    cosine, sine = rotation
    first = graph.add("Split", values_BLNH, outputs=2, axis=-1, num_outputs=2)
    second = f"{first}/1"
    turned_first = graph.add("Sub", graph.add("Mul", first, cosine), graph.add("Mul", second, sine))
    turned_second = graph.add("Add", graph.add("Mul", second, cosine), graph.add("Mul", first, sine))
    return graph.add("Concat", turned_first, turned_second, axis=-1)
