"""The settings of a fine-tuning run; the defaults are the paper's or Google's for GLUE.

In TOML the settings of the run and `task` come first, those of the task in a table of its name:

    task = "classification"
    model = "pretrained"
    train = "reviews.tsv"

    [classification]
    text_column = "review"
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from cloze.choices import Head
from cloze.config import MOVABLE, Changeable, Positive, Range, Settings, read_toml
from cloze.errors import InputError
from cloze.tasks.config import resolve_task
from cloze.tasks.task import Task
from cloze.training.config import MAX_EVALUATIONS, RunSettings
from cloze.training.optimizer import OptimizerConfig

DEV_FRACTION = 0.1
MAX_SEQ_LENGTH = 128
_MAX_RUNS = 10_000
_TEMPERATURE, _WEIGHT = 2.0, 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class DistillationConfig(Settings):
    """A run whose model, the student, learns the outputs of a teacher (Hinton et al. 2015)."""

    teacher: str | None = None
    """The checkpoint or run to learn from, fine-tuned for the task; None learns from the labels alone."""
    teacher_sha256: str | None = None
    """SHA-256 of the teacher, set at the start of the run; another teacher is refused."""
    unlabeled: str | None = None
    """More texts to learn from, in the format of `cloze predict`; only the teacher says what is right."""
    temperature: Annotated[float, Range("(0, inf)")] = _TEMPERATURE
    """Divides the logits of both; a higher one stresses the less probable classes. Numbers and cosines have none."""
    weight: Annotated[float, Range("(0, 1]")] = _WEIGHT
    """Share of the teacher's outputs in the loss; labels have the rest. Hinton et al. give labels a low weight."""
    student_layers: tuple[int, ...] = ()
    """The layers of the initial model that the student keeps, counted from 0; empty keeps all (Sanh et al. 2019)."""

    def _check(self) -> None:
        if self.teacher is None:
            if self.unlabeled is not None:
                raise ValueError("unlabeled texts need a teacher")
            if (self.temperature, self.weight) != (_TEMPERATURE, _WEIGHT):
                raise ValueError("temperature and weight need a teacher")
        layers = list(self.student_layers)
        if layers != sorted(set(layers)) or min(layers, default=0) < 0:
            raise ValueError(f"student_layers {layers} must be distinct, in order, and 0 or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class GridConfig(Settings):
    """Values to try in all combinations; an empty setting keeps the value of the run."""

    batch_sizes: Annotated[tuple[int, ...], Range("[1, 100000]")] = ()
    learning_rates: Annotated[tuple[float, ...], Range("(0, 1)")] = ()
    epochs: Annotated[tuple[int, ...], Range("[1, 100000]")] = ()
    data_fractions: Annotated[tuple[float, ...], Range("(0, 1]")] = ()
    """Shares of the training examples, for a learning curve; a larger sample contains the smaller ones."""

    def _check(self) -> None:
        for name in ("batch_sizes", "learning_rates", "epochs", "data_fractions"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name} {list(values)} must be distinct")

    @property
    def size(self) -> int:
        """The number of combinations."""
        axes = (self.batch_sizes, self.learning_rates, self.epochs, self.data_fractions)
        return math.prod(max(1, len(values)) for values in axes)


PAPER_GRID = GridConfig(batch_sizes=(16, 32), learning_rates=(5e-5, 3e-5, 2e-5), epochs=(2, 3, 4))
"""Devlin et al. 2019, A.3."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FinetuneConfig(RunSettings):
    """A fine-tuning run (Devlin et al. 2019, 4 and A.3; google-research/bert run_classifier.py @eedf571)."""

    replaced: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "batch_size": ("grid.batch_sizes",),
        "optimizer.learning_rate": ("grid.learning_rates",),
        "epochs": ("grid.epochs",),
    }

    model: Annotated[str, MOVABLE]
    """The checkpoint or run to start from, or the name of a model; a head with the same classes is trained further."""
    model_commit: str | None = None
    """Commit of a model of the Hugging Face Hub, set at the start of the run, which keeps it."""
    train: Changeable[str]
    """Training data: a file, or a directory with files of the task's names."""
    dev: Changeable[str | None] = None
    """Dev data to score on; without them a share of `train` is held out."""
    dev_fraction: Annotated[float, Range("(0, 1)")] = DEV_FRACTION
    """The held-out share, of each class."""
    train_examples: Positive[int | None] = None
    """Train on this many random examples, for a learning curve; None uses all."""
    head: Head = "dense"
    """Train the encoder and a dense layer, or fit the layer alone: a logistic regression on the encoder's vectors."""
    data_fraction: Annotated[float, Range("(0, 1]")] = 1.0
    """Train on this share of them, at random."""
    epochs: Annotated[int, Range("[1, 100000]")] = 3
    """Passes over the training data."""
    patience: Changeable[Positive[int | None]] = None
    """Number of evaluations without a better score after which the run stops; None runs all epochs."""
    freeze_embeddings: bool = False
    """Leave the embeddings as they are."""
    freeze_layers: Annotated[int, Range("[0, inf]")] = 0
    """Number of the lowest layers that are not trained; above 0, the embeddings are not trained either."""
    dropout: Annotated[float | None, Range("[0, 1)")] = None
    """Probability of dropout of hidden states, of attention weights and before the head's output layer; None: those of
    the encoder's config, and 0.1 in the head."""
    batch_size: Annotated[int, Range("[1, 100000]")] = 32
    """Sequences per optimizer step; each window of a text is one."""
    max_seq_length: Annotated[int, Range("[8, 10000000]")] = MAX_SEQ_LENGTH
    """Maximum number of tokens of a sequence, including [CLS] and [SEP]; longer texts are cut."""
    seeds: Annotated[int, Range("[1, 10000]")] = 1
    """Number of runs, each with the next seed."""
    folds: Annotated[int, Range("[1, 1000]")] = 1
    """Number of parts of the training data, each scored by a run that learns from the others; 1 holds out a share."""
    fold: Positive[int | None] = None
    """The part that this run scores, counted from 1; a cross-validation sets it for each of its runs."""
    grid: GridConfig = GridConfig()
    """Values to try, each combination with every seed."""
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    """A teacher to learn from."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(learning_rate=5e-5, warmup_fraction=0.1)
    )
    evaluations_per_epoch: Annotated[int, Range("[1, 1000]")] = 1
    """Evaluations on the dev data per epoch; the best score decides the best checkpoint."""
    best_metric: str | None = None
    """The score that decides, for checkpoints and runs; None uses the task's main score."""
    log_every_steps: Changeable[Positive[int]] = 10

    def _check(self) -> None:
        self.check_run(self.max_seq_length)
        if self.num_runs > _MAX_RUNS:
            raise ValueError(f"seeds, folds and grid make {self.num_runs:,} runs, more than {_MAX_RUNS:,}")
        if self.fold is not None and (self.folds == 1 or self.fold > self.folds):
            raise ValueError(f"fold {self.fold} is not one of {self.folds}")
        shares = self.train_examples is not None or self.data_fraction < 1 or self.grid.data_fractions
        if self.folds > 1 and (self.dev is not None or shares or self.distillation.teacher is not None):
            what = "cannot be combined with `dev`, `train_examples`, `data_fractions` or `teacher`"
            raise InputError(what, where="folds", remedy="Leave out one of them")
        if self.head == "logistic" and self.precision == "bfloat16":
            raise ValueError("head logistic is fitted in float32")
        evaluations = max(self.grid.epochs or (self.epochs,)) * self.evaluations_per_epoch
        if evaluations > MAX_EVALUATIONS:
            what = f"epochs and evaluations_per_epoch make {evaluations:,} evaluations"
            raise ValueError(f"{what}, more than {MAX_EVALUATIONS:,}")
        if self.grid.data_fractions and (self.data_fraction < 1 or self.distillation.teacher is not None):
            raise ValueError("data_fractions cannot be combined with data_fraction or a teacher")
        if self.seed + self.seeds > 2**31:
            raise ValueError(f"seeds {self.seeds} from seed {self.seed} go beyond 2147483647")

    @property
    def num_runs(self) -> int:
        """Number of runs over seeds, folds and the grid."""
        return self.seeds * self.grid.size * (self.folds if self.fold is None else 1)

    @property
    def has_trials(self) -> bool:
        """Whether there are several runs."""
        return self.num_runs > 1 or self.grid != GridConfig()


def selection_metric(task: Task, best_metric: str | None) -> str:
    """Return the name of the score that decides the best checkpoint."""
    if best_metric is None:
        return task.metrics[0]
    if best_metric not in task.metrics:
        what = f"{task.name} has no score {best_metric!r} to choose by"
        raise InputError(what, where="best_metric", remedy=f"It has {', '.join(task.metrics)}")
    return best_metric


def load_finetuning(path: Path, task: str | None = None) -> tuple[Task, FinetuneConfig]:
    """Return the task and the settings in a TOML file, such as a run's `run.toml`, which may name the task."""
    return resolve_task(FinetuneConfig, task, read_toml(path), where=str(path))
