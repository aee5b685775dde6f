"""Settings of the training loop that pre-training and fine-tuning share."""

from dataclasses import dataclass, field
from typing import Annotated

import torch

from cloze.choices import Precision
from cloze.config import Changeable, Positive, Range, Settings
from cloze.training.checkpoints import CheckpointConfig
from cloze.training.distributed import DistributionConfig
from cloze.training.model_card import LICENSE, UNKNOWN_LICENSE
from cloze.training.optimizer import OptimizerConfig

MAX_EVALUATIONS = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationConfig(Settings):
    """When a run is evaluated on held-out data."""

    times: Annotated[int, Range("[1, 1000000]")] = 10
    """Number of evaluations, evenly over the run; the last is at its end."""
    max_instances: Annotated[int, Range("[1, 10000000]")] = 2000
    """Held-out instances of each evaluation, always the same ones."""
    log_every_steps: Changeable[Positive[int]] = 10
    patience: Changeable[Positive[int | None]] = None
    """Stop after so many evaluations without a better one; None uses up the budget."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings(Settings):
    """Settings that pre-training and fine-tuning share."""

    data_sha256: str | None = None
    """SHA-256 of the data, set at the start of the run; other data are refused."""
    budget_seconds: Annotated[float | None, Range("(0, inf)")] = None
    """Training time, which phases and learning rate follow; it takes the place of `steps`, or cuts epochs short."""
    license: Changeable[str] = UNKNOWN_LICENSE
    """License of the weights for the model card: an identifier such as apache-2.0."""
    seed: Annotated[int, Range("[0, 2147483647]")] = 12345
    """Seed of new weights, dropout and the order of the data; in pre-training, of pairs and masks, too."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    checkpoints: Changeable[CheckpointConfig] = field(default_factory=CheckpointConfig)
    distribution: Changeable[DistributionConfig] = field(default_factory=DistributionConfig)
    precision: Changeable[Precision] = "auto"
    device: Changeable[str] = "auto"
    deterministic: Changeable[bool] = True
    """Use kernels that add in the same order each time; a GPU may be faster without."""
    micro_batch_tokens: Changeable[Annotated[int | None, Range("[1, 10000000]")]] = None
    """Tokens that pass through the model at once; None is 4,096 on a CPU and 16,384 on other devices. They determine
    memory, and results only by rounding and random numbers of dropout."""

    def micro_batch_on(self, device: torch.device) -> int:
        """Return the tokens of a micro-batch on a device."""
        return self.micro_batch_tokens or (4096 if device.type == "cpu" else 16_384)

    def check_run(self, longest: int) -> None:
        """Raise ValueError for no license, or for micro-batches of fewer tokens than the longest sequence."""
        if not LICENSE.fullmatch(self.license):
            examples = f"apache-2.0, cc-by-sa-4.0 or {UNKNOWN_LICENSE}"
            raise ValueError(f"license {self.license!r} is not an identifier such as {examples}")
        if (tokens := self.micro_batch_tokens) is not None and tokens < longest:
            raise ValueError(f"micro_batch_tokens {tokens} is less than a sequence ({longest})")
