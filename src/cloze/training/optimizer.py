"""The optimizer and its schedule, by default Google's: AdamW without bias correction, a clipped global norm; and Muon.

Muon's update of a matrix is its momentum with every singular value brought to about one.

Shapes: K matrices of one shape, M rows, N columns, M <= N.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from cloze.config import Changeable, Range, Settings
from cloze.errors import InputError
from cloze.models.encoder import HiddenMatrix, find_encoder
from cloze.models.torch_internals import scale_
from cloze.training.precision import resolve_dtype

_Pair: TypeAlias = tuple[Tensor, Tensor]
"""A matrix and the direction of its step, neither with more rows than columns."""
# The kernels divide by 1 - beta ** step, which is 1 at this step for every beta.
_STEP_WITHOUT_CORRECTION = math.inf
# The odd polynomial a x + b x^3 + c x^5 brings each singular value from 0.001 of the largest to between 0.7 and 1.2 in
# five iterations.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig(Settings):
    """Settings of the optimizer and its schedule.

    Source: Devlin et al. 2019, A.2; google-research/bert optimization.py:25-171 @eedf571.
    """

    learning_rate: Changeable[Annotated[float, Range("(0, 1)")]] = 1e-4
    """The peak, reached at the end of the warm-up."""
    warmup_fraction: Annotated[float, Range("[0, 1)")] = 0.01
    """Share of the run over which the rate rises from 0: the paper's 10,000 of 1,000,000 steps."""
    decay_fraction: Annotated[float, Range("(0, 1]")] = 1.0
    """Share of the run, at its end, over which the rate falls to 0. Below 1, it stays at its peak before that."""
    beta1: Annotated[float, Range("[0, 1)")] = 0.9
    beta2: Annotated[float, Range("[0, 1)")] = 0.999
    epsilon: Annotated[float, Range("(0, inf)")] = 1e-6
    weight_decay: Annotated[float, Range("[0, inf)")] = 0.01
    """Decoupled decay of the weights. Biases and LayerNorms are exempt, embeddings are not."""
    bias_correction: bool = False
    """Adam's correction of its averages for their start at zero, which Google's code leaves out."""
    max_grad_norm: Annotated[float, Range("(0, inf]")] = 1.0
    """Maximum global norm: larger gradients are scaled down to it; inf disables this."""
    layer_decay: Annotated[float, Range("(0, 1]")] = 1.0
    """Rate of each layer relative to the one above it; the head has the full rate, the embeddings the lowest."""
    muon: MuonConfig | None = None
    """Train the matrices in the encoder's layers with Muon, and all other parameters with the settings above."""

    def _check(self) -> None:
        if self.layer_decay < 1 and self.muon is not None:
            raise ValueError("layer_decay and muon exclude each other")


class AdamW:
    """Adam with decoupled weight decay; without bias correction it is Google's AdamWeightDecayOptimizer.

    It is not a `torch.optim.Optimizer`, whose constructor imports torch's compiler: 1.4 s at the start of every run.

    Source: Loshchilov and Hutter 2019 (arXiv 1711.05101); google-research/bert optimization.py:87-171 @eedf571.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], config: OptimizerConfig) -> None:
        self.param_groups = [{"lr": 0.0, **group} for group in groups]
        self.state = defaultdict[Tensor, dict[str, Tensor]](dict)
        self._betas, self._epsilon = (config.beta1, config.beta2), config.epsilon
        self._bias_correction = config.bias_correction

    def zero_grad(self) -> None:
        """Free the gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self, found_inf: Tensor | None = None) -> None:
        """Update the parameters unless `found_inf` is 1, which the device checks without a wait."""
        for group in self.param_groups:
            self._adamw_step(group, found_inf)

    def _adamw_step(self, group: dict[str, Any], found_inf: Tensor | None) -> None:
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
            found_inf=found_inf,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=self._epsilon,
            maximize=False,
        )


class MuonAdamW(AdamW):
    """Muon for the hidden matrices, and AdamW for all other parameters.

    Differs: matrices of one shape are made orthogonal in one batch, and a wide one with its transposed like; query,
        key and value, which are one parameter, each by itself.
    """

    def __init__(
        self,
        matrices: Sequence[HiddenMatrix],
        groups: Iterable[dict[str, Any]],
        config: OptimizerConfig,
        muon: MuonConfig,
    ) -> None:
        relative_rate = muon.learning_rate / config.learning_rate
        muon_group = {"params": [matrix.parameter for matrix in matrices], "relative_rate": relative_rate}
        super().__init__([*groups, muon_group], config)
        self._matrices = matrices
        self._momentum, self._weight_decay = muon.momentum, muon.weight_decay
        self._newton_schulz_steps = muon.newton_schulz_steps
        self._product_dtype = resolve_dtype("auto", matrices[0].parameter.device)

    @torch.no_grad()
    def step(self, found_inf: Tensor | None = None) -> None:
        *adamw_groups, muon_group = self.param_groups
        for group in adamw_groups:
            self._adamw_step(group, found_inf)
        skip = torch.zeros((), device=self._matrices[0].parameter.device) if found_inf is None else found_inf
        self._muon_step(muon_group["lr"], skip.bool())

    def _muon_step(self, rate: float, skip: Tensor) -> None:
        by_shape: dict[tuple[int, ...], list[_Pair]] = defaultdict(list)
        for parameter, num_parts in self._matrices:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:
                state["momentum"] = torch.zeros_like(parameter)
            momentum = state["momentum"]
            momentum.copy_(torch.where(skip, momentum, momentum.lerp(parameter.grad, 1 - self._momentum)))
            nesterov = parameter.grad.lerp(momentum, self._momentum)
            directions = nesterov.chunk(num_parts)
            for part, direction in zip(parameter.chunk(num_parts), directions, strict=True):
                is_wide = part.shape[0] <= part.shape[1]
                wide = (part, direction) if is_wide else (part.T, direction.T)
                by_shape[tuple(wide[0].shape)].append(wide)
        for pairs in by_shape.values():
            self._update(pairs, rate, skip)

    def _update(self, pairs: Sequence[_Pair], rate: float, skip: Tensor) -> None:
        """Update matrices of one shape; their temporary memory is freed before the next shape.

        Newton and Schulz's iteration brings the singular values of each direction to about one; the result need not
        be exact, so that bfloat16 suffices for the products.

        Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon.
        """
        directions_KMN = torch.stack([direction for _, direction in pairs]).masked_fill_(skip, 0.0)
        decay = torch.where(skip, 1.0, 1 - rate * self._weight_decay)
        x_KMN = directions_KMN.to(self._product_dtype)
        x_KMN = x_KMN / (x_KMN.norm(dim=(1, 2), keepdim=True) + 1e-7)
        for _ in range(self._newton_schulz_steps):
            gram_KMM = x_KMN @ x_KMN.mT
            polynomial_KMM = torch.baddbmm(gram_KMM, gram_KMM, gram_KMM, beta=_B, alpha=_C)
            x_KMN = torch.baddbmm(x_KMN, polynomial_KMM, x_KMN, beta=_A)
        for (part, _), step_MN in zip(pairs, x_KMN.to(directions_KMN.dtype), strict=True):
            part.mul_(decay)
            part.add_(step_MN, alpha=-rate * _RMS_OF_ADAM * max(part.shape) ** 0.5)


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> AdamW:
    """Return the optimizer of the trainable parameters.

    Differs: vectors are exempt from decay, not names that match a pattern: in BERT these are its biases and LayerNorms.
    """
    encoder = find_encoder(model) if config.muon is not None else None
    matrices = [] if encoder is None else encoder.hidden_matrices()
    matrices = [matrix for matrix in matrices if matrix.parameter.requires_grad]
    muon_parameters = {matrix.parameter for matrix in matrices}
    parameters = [p for p in model.parameters() if p.requires_grad and p not in muon_parameters]
    decays = ((True, config.weight_decay), (False, 0.0))
    groups = [
        {"params": [p for p in of_rate if (p.ndim >= 2) == is_matrix], "weight_decay": decay, **rate}
        for rate, of_rate in _by_rate(model, parameters, config.layer_decay)
        for is_matrix, decay in decays
    ]
    if config.muon is None:
        return AdamW(groups, config)
    if not matrices:
        raise InputError("optimizer.muon: the model has no layer to train", remedy="Leave the setting out")
    return MuonAdamW(matrices, groups, config, config.muon)


def _by_rate(
    model: nn.Module, parameters: Sequence[nn.Parameter], layer_decay: float
) -> list[tuple[dict[str, float], list[nn.Parameter]]]:
    """Return the parameters of each learning rate, and that rate relative to the head's if it differs.

    Source: Clark et al. 2020, "ELECTRA", A.2; Howard and Ruder 2018, "ULMFiT", 3.2.
    """
    encoder = find_encoder(model) if layer_decay < 1 else None
    if encoder is None:
        return [({}, list(parameters))]
    rates: dict[nn.Parameter, float] = {}
    parts = [encoder.embeddings, *encoder.layers]
    for height, part in enumerate(parts):
        rates |= dict.fromkeys(part.parameters(), layer_decay ** (len(parts) - height))
    groups: dict[float, list[nn.Parameter]] = {}
    for parameter in parameters:
        groups.setdefault(rates.get(parameter, 1.0), []).append(parameter)
    return [({"relative_rate": rate}, of_rate) for rate, of_rate in groups.items()]


def set_learning_rate(optimizer: AdamW, rate: float) -> None:
    """Set the learning rate of AdamW, and that of Muon in proportion."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("relative_rate", 1.0)


@dataclass(frozen=True, slots=True)
class Budget:
    """A number of optimizer steps, a time, or steps cut short after a time; the schedule and the phases follow it."""

    steps: int | None = None
    seconds: float | None = None
    """Time of steps and of saving; evaluations come on top."""

    @property
    def total(self) -> float:
        """Total units."""
        return self.seconds or 0.0 if self.steps is None else self.steps

    @property
    def unit(self) -> str:
        """The name of a unit."""
        return "seconds" if self.steps is None else "steps"

    def used(self, step: int, elapsed_seconds: float) -> float:
        """Return the units used up; of steps within a time, the larger share of both."""
        if self.seconds is None:
            return step
        share = min(elapsed_seconds / self.seconds, 1.0)
        return self.total * share if self.steps is None else max(float(step), self.total * share)


def parse_duration(text: str) -> float:
    """Read "90s", "30m", "1.5h" or "2h30m" as seconds.

    >>> parse_duration("2h30m")
    9000.0
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    seconds = sum(float(number) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or seconds <= 0:
        raise InputError(f"cannot read {text!r} as a time", where="budget", remedy="Write 90s, 30m or 2h")
    return float(seconds)


def round_warmup(config: OptimizerConfig, budget: Budget) -> OptimizerConfig:
    """Return the settings with a warm-up of whole steps, if the budget is in steps.

    Source: google-research/bert run_classifier.py `main` @eedf571.
    """
    if not budget.steps:
        return config
    return replace(config, warmup_fraction=int(budget.steps * config.warmup_fraction) / budget.steps)


def learning_rate_at(progress: float, config: OptimizerConfig) -> float:
    """Return the learning rate after a share `progress` in [0, 1] of the run.

    Source: google-research/bert optimization.py:30-54 @eedf571: after the warm-up the rate is that of a line
    which falls from the peak at step 0, so it drops by the warm-up's share where the two meet. With a shorter
    decay: Hu et al. 2024, "MiniCPM", 4.2 (warm-up, stable, decay).
    """
    if progress < config.warmup_fraction:
        return config.learning_rate * progress / config.warmup_fraction
    return config.learning_rate * min(1.0, max(0.0, 1.0 - progress) / config.decay_fraction)


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Scale all gradients so that their global norm is at most `max_norm`; return the norm before.

    Source: tf.clip_by_global_norm, as google-research/bert optimization.py:74 @eedf571 calls it.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    scale = torch.clamp(max_norm / norm, max=1.0)  # a norm of 0 makes it infinite first, then 1
    scale_(gradients, scale)
    return norm
