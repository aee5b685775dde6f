"""The settings of a pre-training run; every default is the paper's BERT-base."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from cloze.corpus.masking import MaskingConfig
from cloze.corpus.pairs import PairsConfig
from cloze.model.attention import AttendsTo
from cloze.model.bert import SIZES, BertConfig
from cloze.training.averaging import AveragingConfig
from cloze.training.checkpoints import CheckpointConfig
from cloze.training.distribution import DistributionConfig
from cloze.training.loop import EvaluationConfig
from cloze.training.model_card import UNKNOWN_LICENSE, check_license
from cloze.training.optimizer import OptimizerConfig
from cloze.training.precision import Precision

Size = Literal["tiny", "mini", "small", "medium", "base", "large"]
SET_BESIDE_INIT = ("model.hidden_dropout_prob", "model.attention_probs_dropout_prob", "model.attends_to")
"""What of the encoder is said where a run goes on from a checkpoint, which has all else."""
WIDTHS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
"""What tells the released sizes apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """The encoder: a released size, and what shall differ from it."""

    size: Size | None = "base"
    """None: none of the released, the four widths below say it."""
    num_hidden_layers: int | None = None
    hidden_size: int | None = None
    num_attention_heads: int | None = None
    intermediate_size: int | None = None
    hidden_act: Literal["gelu", "gelu_tanh"] = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    initializer_range: float = 0.02
    attends_to: AttendsTo = "all"
    """left or right: each token sees itself and that side alone, and learns to name its neighbour on the other side in
    the place of hidden pieces."""
    positions: Literal["learned", "sinusoidal"] = "learned"
    """sinusoidal: the table of positions is made of waves and does not learn."""

    def __post_init__(self) -> None:
        self.encoder(vocab_size=1)

    def encoder(self, *, vocab_size: int) -> BertConfig:
        """Return the encoder's architecture for a vocabulary."""
        given = {name: getattr(self, name) for name in WIDTHS if getattr(self, name) is not None}
        if self.size is None and len(given) < len(WIDTHS):
            raise ValueError(f"without a size all of {', '.join(WIDTHS)} must be given")
        return replace(
            BertConfig() if self.size is None else SIZES[self.size],
            vocab_size=vocab_size,
            hidden_act=self.hidden_act,
            hidden_dropout_prob=self.hidden_dropout_prob,
            attention_probs_dropout_prob=self.attention_probs_dropout_prob,
            max_position_embeddings=self.max_position_embeddings,
            initializer_range=self.initializer_range,
            attends_to=self.attends_to,
            **given,
        )

    def of(self, encoder: BertConfig) -> "ModelConfig":
        """Return the settings of an encoder that is there, with the dropout of these."""
        widths = {name: getattr(encoder, name) for name in WIDTHS}
        fitting = (size for size in get_args(Size) if replace(SIZES[size], **widths) == SIZES[size])
        return replace(
            self,
            size=next(fitting, None),
            **widths,
            hidden_act=encoder.hidden_act,
            max_position_embeddings=encoder.max_position_embeddings,
            initializer_range=encoder.initializer_range,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseConfig:
    """A stretch of the run with sequences of one maximal length."""

    max_seq_length: int
    """[CLS] and both [SEP] included."""
    fraction: float
    """Share of the run."""
    batch_size: int = 256
    """Sequences an optimizer step."""
    max_predictions_per_seq: int | None = None
    """Masked pieces a sequence at most; None sets no limit."""

    def __post_init__(self) -> None:
        if self.max_seq_length < 8:
            raise ValueError(f"max_seq_length {self.max_seq_length} is less than 8")
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction {self.fraction} is not in (0, 1]")
        if self.batch_size < 1:
            raise ValueError(f"batch_size {self.batch_size} is not positive")
        if self.max_predictions_per_seq is not None and self.max_predictions_per_seq < 1:
            raise ValueError(f"max_predictions_per_seq {self.max_predictions_per_seq} is not positive")


@dataclass(frozen=True, kw_only=True, slots=True)
class GoogleInstancesConfig:
    """Build the instances as Google's create_pretraining_data.py does, masks and all, before training.

    Source: google-research/bert create_pretraining_data.py @eedf571.
    """

    dupe_factor: int = 10
    """How often the corpus is gone through, each time with other pairs and masks."""

    def __post_init__(self) -> None:
        if self.dupe_factor < 1:
            raise ValueError(f"dupe_factor {self.dupe_factor} is not positive")


PAPER_PHASES = (
    PhaseConfig(max_seq_length=128, fraction=0.9, max_predictions_per_seq=20),
    PhaseConfig(max_seq_length=512, fraction=0.1, max_predictions_per_seq=77),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainConfig:
    """A pre-training run (Devlin et al. 2019, 3.1 and A.2)."""

    data: str
    """The data set that `cloze corpus` wrote."""
    data_sha256: str | None = None
    """Of its files: filled in when the run begins, and another data set is refused."""
    steps: int | None = None
    """Optimizer steps; either these or `budget_seconds`."""
    budget_seconds: float | None = None
    """Time to train; phases and learning rate then follow the clock."""
    init: str | None = None
    """A checkpoint to go on from: its encoder and weights, a fresh optimizer. Of `model` the dropout is this run's."""
    old_data: str | None = None
    """A data set of the text that the checkpoint was trained on, to see what is forgotten of it: its held-out documents
    are measured, too, as old_masked_lm_loss and so on."""
    license: str = UNKNOWN_LICENSE
    """Of the weights, for the model card: an identifier such as apache-2.0."""
    seed: int = 12345
    model: ModelConfig = field(default_factory=ModelConfig)
    phases: tuple[PhaseConfig, ...] = PAPER_PHASES
    pairs: PairsConfig = field(default_factory=PairsConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    google_instances: GoogleInstancesConfig | None = None
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    averaging: AveragingConfig | None = None
    """The weights that are evaluated and saved are a mean over the last steps; None: they are the last ones."""
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    distribution: DistributionConfig = field(default_factory=DistributionConfig)
    precision: Precision = "auto"
    device: str = "auto"
    micro_batch_tokens: int = 4096
    """Tokens that pass through the model at once: memory depends on it, results only by rounding and by how dropout
    falls."""

    def __post_init__(self) -> None:
        check_license(self.license)
        self.distribution.check(
            {"optimizer.muon": self.optimizer.muon is not None, "averaging": self.averaging is not None}
        )
        if (self.steps is None) == (self.budget_seconds is None):
            raise ValueError("a run takes either steps or a budget: say --steps 10000 or --budget 30m")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps {self.steps} is not positive")
        if self.budget_seconds is not None and not 0 < self.budget_seconds < math.inf:
            raise ValueError(f"budget_seconds {self.budget_seconds} is not positive and finite")
        if self.init is not None and self.model.positions != "learned":
            raise ValueError("model.positions: a checkpoint to go on from has its own")
        if self.google_instances is not None:
            self._check_google_instances()
        if self.model.attends_to != "all" and self.masking != MaskingConfig():
            raise ValueError(
                f"masking: nothing is hidden from what attends to the {self.model.attends_to} alone"
            )
        if self.model.attends_to != "all" and self.google_instances is not None:
            raise ValueError("google_instances: they have hidden pieces, model.attends_to wants none")
        if not self.phases or abs(sum(phase.fraction for phase in self.phases) - 1) > 1e-6:
            raise ValueError("the fractions of the phases do not add up to 1")
        longest = max(phase.max_seq_length for phase in self.phases)
        # that of a checkpoint to go on from is known when it is read
        if self.init is None and longest > self.model.max_position_embeddings:
            limit = self.model.max_position_embeddings
            raise ValueError(f"max_seq_length {longest} is more than model.max_position_embeddings {limit}")
        if self.micro_batch_tokens < longest:
            raise ValueError(
                f"micro_batch_tokens {self.micro_batch_tokens} is less than a sequence ({longest})"
            )
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed {self.seed} is not in 0..2147483647")

    def _check_google_instances(self) -> None:
        """Refuse what Google's program does not ask for, or has numbers of its own for."""
        if self.masking.initial_masked_lm_prob is not None:
            raise ValueError(
                "masking.initial_masked_lm_prob: google_instances are masked before training begins"
            )
        own = MaskingConfig()
        for name in ("mask_token_prob", "random_token_prob"):
            if getattr(self.masking, name) != getattr(own, name):
                raise ValueError(f"masking.{name}: google_instances have {getattr(own, name)}")
        if not self.pairs.next_sentence:
            raise ValueError("pairs.next_sentence: google_instances are always pairs")
