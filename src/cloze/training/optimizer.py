"""Google's optimizer and schedule: Adam without bias correction, decoupled decay, a clipped global norm."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.training.budget import Budget
from cloze.training.muon import HiddenMatrix, Muon, MuonConfig
from cloze.training.replicas import assembled

# AdamW divides by 1 - beta ** step. Far from its start that is exactly 1, and its fused kernels then compute
# Google's update; float32 counts to 2 ** 24 in ones, so the step may stand still there without harm.
_PAST_BIAS_CORRECTION_STEP = float(2**24)


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig:
    """Settings of the optimizer and its schedule.

    Source: Devlin et al. 2019, A.2; google-research/bert optimization.py:25-171 @eedf571.
    """

    learning_rate: float = 1e-4
    """The peak, reached at the end of the warm-up."""
    warmup_fraction: float = 0.01
    """Share of the run over which the rate rises from 0: the paper's 10,000 of 1,000,000 steps."""
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    """Decoupled: taken off the weights themselves. Biases and LayerNorms are spared, embeddings are not."""
    bias_correction: bool = False
    """Adam's own correction of its young averages, which Google's code leaves out."""
    max_grad_norm: float = 1.0
    """Gradients whose global norm is larger are scaled down to it; inf leaves them as they are."""
    muon: MuonConfig | None = None
    """Train the matrices in the encoder's layers with Muon; the settings above are then for all else."""

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate {self.learning_rate} is not between 0 and 1")
        if not 0 <= self.warmup_fraction < 1:
            raise ValueError(f"warmup_fraction {self.warmup_fraction} is not in [0, 1)")
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise ValueError(f"beta1 {self.beta1} and beta2 {self.beta2} must be in [0, 1)")
        if not (0 < self.epsilon < math.inf and 0 <= self.weight_decay < math.inf):
            raise ValueError("epsilon must be positive, weight_decay not negative, and both finite")
        if not self.max_grad_norm > 0:
            raise ValueError(f"max_grad_norm {self.max_grad_norm} is not positive")


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """Build Google's AdamWeightDecayOptimizer over the trainable parameters of `model`, but for Muon's share.

    Differs: parameters are spared from decay by their shape, not by a pattern over names: the vectors of BERT
    are exactly its biases and LayerNorms.
    """
    matrices = [] if config.muon is None else list(_hidden_matrices(model))
    taken = {matrix.parameter for matrix in matrices}
    parameters = [p for p in model.parameters() if p.requires_grad and p not in taken]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        groups, lr=0.0, betas=(config.beta1, config.beta2), eps=config.epsilon, fused=True
    )
    if not config.bias_correction:
        for parameter in parameters:
            optimizer.state[parameter] = {
                "step": torch.tensor(_PAST_BIAS_CORRECTION_STEP, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
    if config.muon is None:
        return optimizer
    if not matrices:
        raise InputError("optimizer.muon: the model has no layer to train", remedy="Leave the setting out")
    relative_rate = config.muon.learning_rate / config.learning_rate
    return Muon(matrices, optimizer, config.muon, relative_rate=relative_rate)


def corrects_bias(step: Tensor) -> bool:
    """Return whether a step, as AdamW counts them for a parameter, is that of an optimizer with bias correction."""
    return step.item() < _PAST_BIAS_CORRECTION_STEP


def _hidden_matrices(model: nn.Module) -> Iterator[HiddenMatrix]:
    """Yield the trainable matrices of the encoder's layers; embeddings, pooler and heads stand outside of these."""
    for name, parameter in model.named_parameters():
        if "layers" in name.split(".") and parameter.ndim == 2 and parameter.requires_grad:
            yield HiddenMatrix(parameter, num_parts=3 if "query_key_value" in name else 1)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give AdamW's parameters a rate, and Muon's theirs in proportion."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("relative_rate", 1.0)


def with_whole_warmup(config: OptimizerConfig, budget: Budget) -> OptimizerConfig:
    """Return the settings with a warm-up of whole steps, where the budget is one of steps.

    Source: google-research/bert run_classifier.py `main` @eedf571.
    """
    return replace(config, warmup_fraction=budget.whole(config.warmup_fraction))


def learning_rate_at(progress: float, config: OptimizerConfig) -> float:
    """Return the rate when a share `progress` in [0, 1] of the run, in steps or on the clock, is over.

    Source: google-research/bert optimization.py:30-54 @eedf571: after the warm-up the rate is that of a line
    which falls from the peak at step 0, so it drops by the warm-up's share where the two meet.
    """
    if progress < config.warmup_fraction:
        return config.learning_rate * progress / config.warmup_fraction
    return config.learning_rate * max(0.0, 1.0 - progress)


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Scale all gradients so that their global norm is at most `max_norm`; return the norm they had.

    Source: tf.clip_by_global_norm, as google-research/bert optimization.py:74 @eedf571 calls it.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = assembled(torch.nn.utils.get_total_norm(gradients))
    scale = torch.clamp(max_norm / norm, max=1.0)  # a norm of 0 makes it infinite first, then 1
    torch._foreach_mul_(gradients, scale)
    return norm
