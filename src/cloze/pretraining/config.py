"""The settings of a pre-training run; the defaults are those of the paper's BERT-base."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Literal

from cloze.choices import AttendsTo
from cloze.config import MOVABLE, Changeable, Range, Settings, flatten, to_dict
from cloze.data.instances.masking import MaskingConfig
from cloze.data.instances.pairs import PairsConfig
from cloze.errors import InputError
from cloze.models.encoder import all_sizes, find_size, get_encoder_class
from cloze.models.encoder_config import EncoderConfig, Layers, Probability, Size, Small
from cloze.training.config import EvaluationConfig, RunSettings

_DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob")
MODEL_OVERRIDES_WITH_INIT = (*(f"model.{name}" for name in _DROPOUT), "model.attends_to")
"""Model settings that may be set when starting from a checkpoint, which has all others."""
SIZE_FIELDS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
"""Settings in which the released sizes differ."""
_FIELDS_OF_SIZE = (*_DROPOUT, "hidden_act", "max_position_embeddings", "initializer_range")
"""Settings whose defaults are those of the size."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig(Settings):
    """The encoder: a released size, and settings that override it."""

    size: str | None = "base"
    """A released size of BERT, a size of another encoder, as in modern-tiny or xlm-roberta-base, or None to set the
    four sizes below."""
    num_hidden_layers: Layers | None = None
    hidden_size: Size | None = None
    num_attention_heads: Size | None = None
    intermediate_size: Size | None = None
    hidden_act: Literal["gelu", "gelu_tanh"] = "gelu"
    hidden_dropout_prob: Probability = 0.1
    attention_probs_dropout_prob: Probability = 0.1
    max_position_embeddings: Size = 512
    initializer_range: Small = 0.02
    attends_to: AttendsTo = "all"
    """left or right: each token attends to itself and that side alone, and the model predicts the adjacent token on
    the other side instead of masked tokens."""
    options: dict[str, int | float | str] | None = None
    """Other fields of the encoder's config, as in {local_attention = 64} of ModernBERT."""

    def _check(self) -> None:
        self.encoder(vocab_size=1)

    def encoder(self, *, vocab_size: int) -> EncoderConfig:
        """Return the config of the encoder."""
        sizes = {name: getattr(self, name) for name in SIZE_FIELDS if getattr(self, name) is not None}
        if self.size is None and len(sizes) < len(SIZE_FIELDS):
            raise ValueError(f"without a size, set all of {', '.join(SIZE_FIELDS)}")
        base = find_size(self.size or "base")
        settings = {name: getattr(self, name) for name in _FIELDS_OF_SIZE} | sizes | (self.options or {})
        if self.attends_to != base.attends_to:
            settings["attends_to"] = self.attends_to
        if unknown := settings.keys() - {field.name for field in fields(base)}:
            raise ValueError(f"{min(unknown)} is not a setting of the size {self.size}")
        return replace(base, vocab_size=vocab_size, **settings)

    def with_architecture(self, encoder: EncoderConfig) -> "ModelConfig":
        """Return the settings with the architecture of an existing encoder."""
        encoder_class = get_encoder_class(encoder)
        sizes = {name: getattr(encoder, name) for name in SIZE_FIELDS}
        released = encoder_class.sizes()
        default = f"{encoder_class.size_prefix}base"  # all sizes are set besides
        size = next((name for name, base in released.items() if replace(base, **sizes) == base), default)
        base = released[size]
        names = {field.name for field in fields(encoder)} - {field.name for field in fields(self)}
        options = {name: getattr(encoder, name) for name in sorted(names - {"vocab_size"})}
        options = {name: value for name, value in options.items() if value != getattr(base, name)}
        return replace(
            self,
            size=size,
            **sizes,
            hidden_act=encoder.hidden_act,
            max_position_embeddings=encoder.max_position_embeddings,
            initializer_range=encoder.initializer_range,
            options=options or None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseConfig(Settings):
    """A part of the run with one maximum sequence length."""

    max_seq_length: Annotated[int, Range("[8, 10000000]")]
    """Maximum number of tokens, including [CLS] and both [SEP]."""
    fraction: Annotated[float, Range("(0, 1]")]
    """Share of the run."""
    batch_size: Annotated[int, Range("[1, 100000]")] = 256
    """Sequences per optimizer step."""
    max_predictions_per_seq: Annotated[int | None, Range("[1, 10000000]")] = None
    """Maximum number of masked tokens per sequence; None sets no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GoogleInstancesConfig(Settings):
    """Build the instances as Google's create_pretraining_data.py does, masks and all, before training.

    Source: google-research/bert create_pretraining_data.py @eedf571.
    """

    dupe_factor: Annotated[int, Range("[1, 1000]")] = 10
    """Passes over the corpus, each with other pairs and masks."""


PAPER_PHASES = (
    PhaseConfig(max_seq_length=128, fraction=0.9, max_predictions_per_seq=20),
    PhaseConfig(max_seq_length=512, fraction=0.1, max_predictions_per_seq=77),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainConfig(RunSettings):
    """A pre-training run (Devlin et al. 2019, 3.1 and A.2)."""

    replaced: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "steps": ("budget_seconds",),
        "budget_seconds": ("steps",),
        "model.size": tuple(f"model.{name}" for name in SIZE_FIELDS),
    }

    data: Changeable[str]
    """The data set that `cloze corpus` wrote."""
    steps: Annotated[int | None, Range("[1, 1000000000]")] = None
    """Optimizer steps; set either this or `budget_seconds`."""
    init: Annotated[str | None, MOVABLE] = None
    """A checkpoint or the name of a model to start from: its architecture and weights, a new optimizer. Of `model` only
    dropout applies, by default the checkpoint's."""
    init_commit: str | None = None
    """Commit of a model of the Hugging Face Hub to start from, set at the start of the run, which keeps it."""
    model: ModelConfig = field(default_factory=ModelConfig)
    phases: tuple[PhaseConfig, ...] = PAPER_PHASES
    pairs: PairsConfig = field(default_factory=PairsConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    google_instances: GoogleInstancesConfig | None = None
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def _check(self) -> None:
        longest = max((phase.max_seq_length for phase in self.phases), default=0)
        self.check_run(longest)
        if (self.steps is None) == (self.budget_seconds is None):
            raise ValueError("set either steps or a budget: `steps=10000` or `budget=30m`")
        if self.google_instances is not None:
            masking, default = self.masking, MaskingConfig()
            fixed = (masking.initial_masked_lm_prob, masking.mask_token_prob, masking.random_token_prob)
            usual = (default.initial_masked_lm_prob, default.mask_token_prob, default.random_token_prob)
            if fixed != usual or not self.pairs.next_sentence or self.model.attends_to != "all":
                what = "Google's program always makes pairs and replaces masked tokens with the usual shares"
                raise ValueError(f"google_instances: {what}")
        if self.model.attends_to != "all" and self.masking != MaskingConfig():
            raise ValueError(
                f"masking: nothing is masked for an encoder that attends to the {self.model.attends_to} alone"
            )
        if not self.phases or abs(sum(phase.fraction for phase in self.phases) - 1) > 1e-6:
            raise ValueError("the fractions of the phases do not add up to 1")
        # the limit of a checkpoint to start from is known when it is loaded
        if self.init is None and longest > self.model.max_position_embeddings:
            limit = self.model.max_position_embeddings
            raise ValueError(f"max_seq_length {longest} is more than model.max_position_embeddings {limit}")


def check_model_of_init(recipe: Mapping[str, Any], explicit: Mapping[str, Any]) -> None:
    """Refuse settings of the encoder, of a recipe or arguments, beside a checkpoint to start from, which has them."""
    if "init" not in {**recipe, **explicit}:
        return
    fixed = {key for key, _ in flatten(explicit)}
    if "init" in recipe and "data_sha256" not in recipe:  # run.toml has the encoder of the checkpoint
        usual = dict(flatten({"model": to_dict(ModelConfig())}))  # which --print-config prints
        fixed |= {key for key, value in flatten(recipe) if value != usual.get(key)}
    if fixed := {key for key in fixed if key.startswith("model.")} - {*MODEL_OVERRIDES_WITH_INIT}:
        raise InputError("init takes it from the checkpoint", where=min(fixed), remedy="Leave it out")


def model_defaults(table: Mapping[str, Any], initial: EncoderConfig | None = None) -> dict[str, Any]:
    """Return the defaults of the model's size, or of the checkpoint to start from, where they differ from BERT's."""
    model = table.get("model")
    size = model.get("size") if isinstance(model, Mapping) else None
    encoder = initial or (all_sizes().get(size) if isinstance(size, str) else None)
    if encoder is None:
        return {}
    names = _FIELDS_OF_SIZE if initial is None else _DROPOUT
    defaults: dict[str, Any] = {"model": {name: getattr(encoder, name) for name in names}}
    if not get_encoder_class(encoder).trains_on_pairs:
        defaults["pairs"] = {"next_sentence": False}
    return defaults
