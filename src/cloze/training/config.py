"""Settings of the training loop that pre-training and fine-tuning share."""

from dataclasses import dataclass, field

from cloze.choices import Precision
from cloze.config import Settings, check_interval, check_positive, check_types
from cloze.training.checkpoints import CheckpointConfig
from cloze.training.distributed import DistributionConfig
from cloze.training.model_card import UNKNOWN_LICENSE, check_license
from cloze.training.optimizer import OptimizerConfig

MAX_BATCH_SIZE = 100_000
MAX_TOKENS = 10_000_000
"""Of a sequence, or of a micro-batch."""
MAX_EVALUATIONS = 1_000_000


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
        check_positive(self, "log_every_steps", "patience", times=MAX_EVALUATIONS, max_instances=10_000_000)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings(Settings):
    """Settings that pre-training and fine-tuning share."""

    data_sha256: str | None = None
    """SHA-256 of the data, set at the start of the run; other data are refused."""
    budget_seconds: float | None = None
    """Training time, which phases and learning rate follow; it takes the place of `steps`, or cuts epochs short."""
    license: str = UNKNOWN_LICENSE
    """License of the weights for the model card: an identifier such as apache-2.0."""
    seed: int = 12345
    """Seed of new weights, dropout and the order of the data; in pre-training, of pairs and masks, too."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    distribution: DistributionConfig = field(default_factory=DistributionConfig)
    precision: Precision = "auto"
    device: str = "auto"
    micro_batch_tokens: int = 4096
    """Tokens that pass through the model at once: it determines memory, and results only by rounding and random numbers
    of dropout."""

    def check(self) -> None:
        """Check these settings, and the types of all.

        Raises:
            ValueError: a value is out of range.
        """
        check_types(self)
        check_license(self.license)
        check_positive(self, micro_batch_tokens=MAX_TOKENS)
        check_interval(self, "(0, inf)", "budget_seconds")
        check_interval(self, "[0, 2147483647]", "seed")
        if self.micro_batch_tokens < self.longest_sequence:
            what = f"micro_batch_tokens {self.micro_batch_tokens} is less than a sequence"
            raise ValueError(f"{what} ({self.longest_sequence})")

    @property
    def longest_sequence(self) -> int:
        """Maximum number of tokens of a sequence."""
        raise NotImplementedError
