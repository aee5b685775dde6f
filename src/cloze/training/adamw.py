"""AdamW with torch's fused kernels, with or without Adam's bias correction."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

# The kernels divide by 1 - beta ** step, which is 1 at this step for every beta.
_STEP_WITHOUT_CORRECTION = math.inf


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay; without bias correction it is Google's AdamWeightDecayOptimizer.

    Source: Loshchilov and Hutter 2019 (arXiv 1711.05101); google-research/bert optimization.py:87-171 @eedf571.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        *,
        betas: tuple[float, float],
        epsilon: float,
        bias_correction: bool,
    ) -> None:
        super().__init__(groups, {"lr": 0.0})
        self._betas = betas
        self._epsilon = epsilon
        self._bias_correction = bias_correction

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            self._adamw_step(group)

    def _adamw_step(self, group: dict[str, Any]) -> None:
        parameters = [p for p in group["params"] if p.grad is not None]
        if not parameters:
            return
        for parameter in parameters:
            if state := self.state[parameter]:
                continue
            if self._bias_correction:
                state["step"] = torch.zeros((), device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        states: list[dict[str, Tensor]] = [self.state[parameter] for parameter in parameters]
        if self._bias_correction:
            steps = [state["step"] for state in states]
        else:
            steps = [torch.full((), _STEP_WITHOUT_CORRECTION, device=parameters[0].device)] * len(states)
        adamw(
            parameters,
            [parameter.grad for parameter in parameters],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            steps,  # the kernels count them up
            fused=True,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=self._epsilon,
            maximize=False,
        )
