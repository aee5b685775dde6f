"""The mean of the weights over the end of a run, which is evaluated and saved in the place of the last weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

AVERAGE_COUNT = "count"


@dataclass(frozen=True, kw_only=True, slots=True)
class AveragingConfig:
    """The steps over which weights are averaged."""

    tail_fraction: float = 0.1
    """Share of the run, at its end, whose steps count equally."""

    def __post_init__(self) -> None:
        if not 0 < self.tail_fraction <= 1:
            raise ValueError(f"tail_fraction {self.tail_fraction} is not in (0, 1]")


class TailAverage:
    """The running mean of a model's weights.

    The mean is evaluated and saved as the model; the optimizer continues with the weights themselves.

    Source: Izmailov et al. 2018, "Averaging weights leads to wider optima and better generalization".
    """

    def __init__(self, model: nn.Module, config: AveragingConfig) -> None:
        self._parameters = dict(model.named_parameters())
        self._start = 1 - config.tail_fraction
        self._count = 0
        self._means: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self, progress: float) -> None:
        """Add the weights to the mean if `progress`, the share of the run that is over, is within the tail."""
        if progress < self._start:
            return
        self._count += 1
        for name, parameter in self._parameters.items():
            if self._count == 1:
                self._means[name] = parameter.detach().clone()
            else:
                self._means[name].lerp_(parameter, 1 / self._count)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Set the model's weights to the mean, if there is one yet, and restore them at the end."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, mean in self._means.items():
            parameter = self._parameters[name]
            self._means[name], parameter.data = parameter.data, mean

    def tensors(self) -> dict[str, Tensor]:
        """Return the state for `restore` while the mean is applied: the weights, and the number of steps averaged."""
        weights = {name: weight.detach().cpu().contiguous() for name, weight in self._means.items()}
        return {**weights, AVERAGE_COUNT: torch.tensor(self._count)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state, and the weights of a model that was saved with the mean."""
        self._count = int(tensors[AVERAGE_COUNT])
        self._means = {
            name: tensors[name].to(parameter.device)
            for name, parameter in self._parameters.items()
            if name in tensors
        }
        self._swap()
