"""The mean of the weights over the last stretch of a run, which stands in for the last ones."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_COUNT = "count"


@dataclass(frozen=True, kw_only=True, slots=True)
class AveragingConfig:
    """Over which steps the weights are averaged."""

    tail_fraction: float = 0.1
    """Share of the run, at its end, after each of whose steps the weights count alike."""

    def __post_init__(self) -> None:
        if not 0 < self.tail_fraction <= 1:
            raise ValueError(f"tail_fraction {self.tail_fraction} is not in (0, 1]")


class TailAverage:
    """The running mean of a model's weights.

    What is evaluated and saved as the model is the mean; what the optimizer goes on with are the weights themselves.

    Source: Izmailov et al. 2018, "Averaging weights leads to wider optima and better generalization".
    """

    def __init__(self, model: nn.Module, config: AveragingConfig) -> None:
        self._parameters = dict(model.named_parameters())
        self._begins_at = 1 - config.tail_fraction
        self._count = 0
        self._means: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self, progress: float) -> None:
        """Count the weights in, where a share `progress` of the run that has begun its last stretch is over."""
        if progress < self._begins_at:
            return
        self._count += 1
        for name, parameter in self._parameters.items():
            if self._count == 1:
                self._means[name] = parameter.detach().clone()
            else:
                self._means[name].lerp_(parameter, 1 / self._count)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Have the model hold the mean for a while, where there is one yet."""
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
        """Return what `restore` needs, while the model holds the mean: the weights, and how many the mean is of."""
        weights = {name: weight.detach().cpu().contiguous() for name, weight in self._means.items()}
        return {**weights, _COUNT: torch.tensor(self._count)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on with a mean that the model was saved with, and give the model its own weights back."""
        self._count = int(tensors[_COUNT])
        self._means = {
            name: tensors[name].to(parameter.device)
            for name, parameter in self._parameters.items()
            if name in tensors
        }
        self._swap()
