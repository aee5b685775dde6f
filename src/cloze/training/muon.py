"""Muon: the update of a matrix is its momentum with every singular value brought to about one.

Shapes: K matrices of one shape, M rows, N columns, M <= N.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import torch
from torch import Tensor

from cloze.config import Changeable, Range, Settings
from cloze.models.encoder import HiddenMatrix
from cloze.training.adamw import AdamW
from cloze.training.precision import resolve_dtype

# The odd polynomial a x + b x^3 + c x^5 brings each singular value to between 0.7 and 1.2 in five iterations.
_A, _B, _C = 3.4445, -4.7750, 2.0315
_RMS_OF_ADAM = 0.2  # about the size of an entry of AdamW's step, at rate 1


@dataclass(frozen=True, kw_only=True, slots=True)
class MuonConfig(Settings):
    """Settings of Muon, for the matrices in the encoder's layers.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon; the rate's scale and the decay as in Liu et al. 2025
        (arXiv 2502.16982), so that learning rates compare with AdamW's.
    """

    learning_rate: Changeable[Annotated[float, Range("(0, 1)")]] = 1e-3
    """The peak; the schedule is the same as for the other parameters."""
    momentum: Annotated[float, Range("[0, 1)")] = 0.95
    weight_decay: Annotated[float, Range("[0, inf)")] = 0.1
    """Decoupled, as in AdamW."""
    newton_schulz_steps: Annotated[int, Range("[1, 100]")] = 5
    """Iterations that make the momentum orthogonal."""


_Pair: TypeAlias = tuple[Tensor, Tensor]
"""A matrix and the direction of its step, neither with more rows than columns."""


class MuonAdamW(AdamW):
    """Muon for the hidden matrices, and AdamW for all other parameters.

    Args:
        relative_rate: peak of Muon's learning rate, divided by AdamW's.
        product_dtype: format of the products; None chooses bfloat16 on devices that are faster with it.

    Differs: matrices of one shape are made orthogonal in one batch, and a wide one with its transposed like; query,
        key and value, which are one parameter, each by itself.
    """

    def __init__(
        self,
        matrices: Sequence[HiddenMatrix],
        config: MuonConfig,
        groups: Iterable[dict[str, Any]],
        *,
        relative_rate: float,
        product_dtype: torch.dtype | None = None,
        **adamw: Any,
    ) -> None:
        muon_group = {"params": [matrix.parameter for matrix in matrices], "relative_rate": relative_rate}
        super().__init__([*groups, muon_group], **adamw)
        self._matrices = matrices
        self._config = config
        self._product_dtype = product_dtype or resolve_dtype("auto", matrices[0].parameter.device)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        *adamw_groups, muon_group = self.param_groups
        for group in adamw_groups:
            self._adamw_step(group)
        self._muon_step(muon_group["lr"])

    def _muon_step(self, rate: float) -> None:
        by_shape: dict[tuple[int, ...], list[_Pair]] = defaultdict(list)
        for parameter, num_parts in self._matrices:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:
                state["momentum"] = torch.zeros_like(parameter)
            momentum = state["momentum"].lerp_(parameter.grad, 1 - self._config.momentum)
            nesterov = parameter.grad.lerp(momentum, self._config.momentum)
            directions = nesterov.chunk(num_parts)
            for part, direction in zip(parameter.chunk(num_parts), directions, strict=True):
                is_wide = part.shape[0] <= part.shape[1]
                wide = (part, direction) if is_wide else (part.T, direction.T)
                by_shape[tuple(wide[0].shape)].append(wide)
        for pairs in by_shape.values():
            self._update(pairs, rate)

    def _update(self, pairs: Sequence[_Pair], rate: float) -> None:
        """Update matrices of one shape; their temporary memory is freed before the next shape."""
        directions_KMN = torch.stack([direction for _, direction in pairs])
        step_KMN = orthogonalize(directions_KMN, self._config.newton_schulz_steps, self._product_dtype)
        for (part, _), step_MN in zip(pairs, step_KMN, strict=True):
            part.mul_(1 - rate * self._config.weight_decay)
            part.add_(step_MN, alpha=-rate * _RMS_OF_ADAM * max(part.shape) ** 0.5)


def orthogonalize(matrices: Tensor, num_steps: int, product_dtype: torch.dtype) -> Tensor:
    """Bring the singular values of each matrix to about one, by Newton and Schulz's iteration.

    Args:
        matrices: [K, M, N], with no more rows than columns.
        num_steps: iterations; five bring values from 0.001 of the largest to between 0.7 and 1.2.
        product_dtype: format of the products; bfloat16 suffices, as the result need not be exact.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon.
    """
    x_KMN = matrices.to(product_dtype)
    x_KMN = x_KMN / (x_KMN.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(num_steps):
        gram_KMM = x_KMN @ x_KMN.mT
        polynomial_KMM = torch.baddbmm(gram_KMM, gram_KMM, gram_KMM, beta=_B, alpha=_C)
        x_KMN = torch.baddbmm(x_KMN, polynomial_KMM, x_KMN, beta=_A)
    return x_KMN.to(matrices.dtype)
