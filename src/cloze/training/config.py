"""Settings of the training loop that pre-training and fine-tuning share."""

from dataclasses import dataclass, field

from cloze.choices import Precision
from cloze.config import check_positive
from cloze.training.checkpoints import CheckpointConfig
from cloze.training.distributed import DistributionConfig
from cloze.training.optimizer import OptimizerConfig

MAX_BATCH_SIZE = 100_000
MAX_TOKENS = 10_000_000
"""Of a sequence, or of a micro-batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationConfig:
    """When a run is evaluated on held-out data."""

    times: int = 10
    """Number of evaluations, evenly over the run; the last is at its end."""
    max_instances: int = 2000
    """Held-out instances of each evaluation, always the same ones."""
    log_every_steps: int = 10
    patience: int | None = None
    """Stop after so many evaluations without a better one; None uses up the budget."""

    def __post_init__(self) -> None:
        check_positive(self, "log_every_steps", "patience", times=1_000_000, max_instances=10_000_000)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingConfig:
    """Settings of the training loop."""

    seed: int
    """Seed of dropout."""
    micro_batch_tokens: int
    """Tokens that pass through the model at once, until memory runs out."""
    optimizer: OptimizerConfig
    evaluation: EvaluationConfig
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    distribution: DistributionConfig = field(default_factory=DistributionConfig)
    precision: Precision = "auto"
    evaluate_first: bool = False
    """Also evaluate before the first step, so that a loss or gain against the initial model is seen."""
    max_skipped_steps: int = 2
    """Steps with an infinite or NaN loss that may follow each other; one more ends the run."""
    max_evaluation_share: float = 0.2
    """Evaluations take at most this share of a run on the clock, unless the last one alone takes more."""
