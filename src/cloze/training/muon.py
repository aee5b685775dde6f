"""Muon: the step of a matrix is its momentum with every singular value brought to about one.

Shapes: K matrices of one shape, M rows, N columns, M <= N.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from cloze.training.precision import resolve_dtype

# of the odd polynomial a x + b x^3 + c x^5 that brings each singular value to between 0.7 and 1.2 within five rounds
_A, _B, _C = 3.4445, -4.7750, 2.0315
_FLOAT32_BYTES = 4
_RMS_OF_ADAM = 0.2  # about how long an entry of AdamW's step is, at rate 1


@dataclass(frozen=True, kw_only=True, slots=True)
class MuonConfig:
    """Settings of Muon, for the matrices in the encoder's layers.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon; the rate's scale and the decay as in Liu et al. 2025
        (arXiv 2502.16982), so that a rate means what it means to AdamW.
    """

    learning_rate: float = 1e-3
    """The peak; the schedule is that of the other parameters."""
    momentum: float = 0.95
    weight_decay: float = 0.1
    """Decoupled, as AdamW's."""
    newton_schulz_steps: int = 5
    """Rounds of making the momentum orthogonal."""

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate {self.learning_rate} is not between 0 and 1")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum {self.momentum} is not in [0, 1)")
        if not 0 <= self.weight_decay < math.inf or self.newton_schulz_steps < 1:
            raise ValueError("weight_decay must be finite and not negative, newton_schulz_steps positive")


@dataclass(frozen=True, slots=True)
class HiddenMatrix:
    """A parameter that Muon trains: one matrix, or several below each other that are none of each other's business."""

    parameter: nn.Parameter
    num_parts: int = 1


_Pair: TypeAlias = tuple[Tensor, Tensor]
"""A matrix and the direction of its step, neither with more rows than columns."""


class Muon(torch.optim.Optimizer):
    """Muon for the hidden matrices and AdamW for all else, as one optimizer.

    Args:
        matrices: what Muon trains.
        others: AdamW over the other parameters; it steps with this one and shares its state.
        config: of Muon.
        relative_rate: the peak of Muon's rate, divided by that of AdamW's.

    Differs: matrices of one shape are made orthogonal in one batch, and a wide one with its transposed like; query,
        key and value, which are one parameter, each by itself.
    """

    def __init__(
        self,
        matrices: Sequence[HiddenMatrix],
        others: torch.optim.AdamW,
        config: MuonConfig,
        *,
        relative_rate: float,
    ) -> None:
        group = {"params": [matrix.parameter for matrix in matrices], "lr": 0.0}
        super().__init__([{**group, "relative_rate": relative_rate}], {})
        self._own_group = self.param_groups[0]
        self.param_groups += others.param_groups
        self.state = others.state
        self._matrices = matrices
        self._others = others
        self._config = config

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step with every parameter that has a gradient."""
        self._others.step()
        by_shape: dict[tuple[int, ...], list[_Pair]] = defaultdict(list)
        for matrix in self._matrices:
            parameter = matrix.parameter
            if parameter.grad is None:
                continue
            for part, direction in zip(
                parameter.chunk(matrix.num_parts),
                self._direction(parameter).chunk(matrix.num_parts),
                strict=True,
            ):
                is_wide = part.shape[0] <= part.shape[1]
                wide = (part, direction) if is_wide else (part.T, direction.T)
                by_shape[tuple(wide[0].shape)].append(wide)
        for pairs in by_shape.values():
            self._update(pairs)

    def _update(self, pairs: Sequence[_Pair]) -> None:
        """Take a step with matrices of one shape: what that needs is given back before it is another's turn."""
        rate = self._own_group["lr"]
        step_KMN = orthogonalize(
            torch.stack([direction for _, direction in pairs]), self._config.newton_schulz_steps
        )
        for (part, _), step_MN in zip(pairs, step_KMN, strict=True):
            part.mul_(1 - rate * self._config.weight_decay)
            part.add_(step_MN, alpha=-rate * _RMS_OF_ADAM * max(part.shape) ** 0.5)

    def transient_bytes(self) -> int:
        """Return the bytes that a step needs for a moment, beside gradients and averages.

        Directions of all matrices; and for those of one shape, whichever takes most, these once more, what becomes of
        them in the format of products and again in their own, and two products of rows with rows.
        """
        counts = Counter(
            tuple(sorted(part.shape))
            for matrix in self._matrices
            for part in matrix.parameter.chunk(matrix.num_parts)
        )
        directions = sum(matrix.parameter.nbytes for matrix in self._matrices)
        element = _product_dtype(self._matrices[0].parameter.device).itemsize
        return directions + max(
            count * (rows * columns * (2 * _FLOAT32_BYTES + element) + 2 * rows**2 * element)
            for (rows, columns), count in counts.items()
        )

    def _direction(self, parameter: nn.Parameter) -> Tensor:
        """Return Nesterov's momentum after the new gradient."""
        assert parameter.grad is not None
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(parameter.grad, 1 - self._config.momentum)
        return parameter.grad.lerp(state["momentum"], self._config.momentum)


def orthogonalize(matrices: Tensor, num_steps: int) -> Tensor:
    """Bring the singular values of each matrix to about one, by Newton and Schulz's iteration.

    The products are in bfloat16 where the device is faster by it: the result need not be exact.

    Args:
        matrices: [K, M, N], with no more rows than columns.
        num_steps: rounds; five bring values from 0.001 of the largest to between 0.7 and 1.2.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon.
    """
    x_KMN = matrices.to(_product_dtype(matrices.device))
    x_KMN = x_KMN / (x_KMN.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(num_steps):
        gram_KMM = x_KMN @ x_KMN.mT
        polynomial_KMM = torch.baddbmm(gram_KMM, gram_KMM, gram_KMM, beta=_B, alpha=_C)
        x_KMN = torch.baddbmm(x_KMN, polynomial_KMM, x_KMN, beta=_A)
    return x_KMN.to(matrices.dtype)


def _product_dtype(device: torch.device) -> torch.dtype:
    return resolve_dtype("auto", device)
