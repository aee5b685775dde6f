"""The settings of a fine-tuning run; every default is the paper's or Google's for GLUE.

In TOML the run's settings stand at the top, `task` among them, and the task's own in a table of the task's name:

    task = "classification"
    model = "pretrained"
    train = "reviews.tsv"

    [classification]
    text_column = "review"
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cloze import config as configuration
from cloze.errors import InputError
from cloze.model.checkpoint import TASK_FILE
from cloze.tasks.registry import find_task
from cloze.tasks.task import AnyTask
from cloze.training.checkpoints import CheckpointConfig
from cloze.training.distribution import DistributionConfig
from cloze.training.model_card import UNKNOWN_LICENSE, check_license
from cloze.training.optimizer import OptimizerConfig
from cloze.training.precision import Precision

DEV_FRACTION = 0.1

Config = TypeVar("Config")


def _optimizer() -> OptimizerConfig:
    return OptimizerConfig(learning_rate=5e-5, warmup_fraction=0.1)


@dataclass(frozen=True, kw_only=True, slots=True)
class GridConfig:
    """Settings to try, each with each; what is empty stays as the run's."""

    batch_sizes: tuple[int, ...] = ()
    learning_rates: tuple[float, ...] = ()
    epochs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("batch_sizes", "learning_rates", "epochs"):
            values = getattr(self, name)
            if any(value <= 0 for value in values) or len(set(values)) < len(values):
                raise ValueError(f"{name} {list(values)} are not positive and each another")


PAPER_GRID = GridConfig(batch_sizes=(16, 32), learning_rates=(5e-5, 3e-5, 2e-5), epochs=(2, 3, 4))
"""Devlin et al. 2019, A.3."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FinetuneConfig:
    """A fine-tuning run (Devlin et al. 2019, 4 and A.3; google-research/bert run_classifier.py @eedf571)."""

    model: str
    """The checkpoint or run to start from."""
    train: str
    """The data to learn from: a file, or a directory with files that the task knows by name."""
    dev: str | None = None
    """The data to be scored on, likewise; where there are none, a share of `train` is held out."""
    dev_fraction: float = DEV_FRACTION
    """That share."""
    train_examples: int | None = None
    """Learn from so many examples, drawn at random, for a learning curve; None: from all."""
    data_sha256: str | None = None
    """The SHA-256 of the data: filled in when the run begins, and other data are refused."""
    epochs: int = 3
    """How often each example is seen."""
    budget_seconds: float | None = None
    """Time to train at most: where the epochs would take longer, the schedule follows the clock."""
    batch_size: int = 32
    """Sequences an optimizer step; of a text in windows each is one."""
    max_seq_length: int = 128
    """Tokens of a sequence, [CLS] and [SEP] included; longer texts are cut."""
    license: str = UNKNOWN_LICENSE
    """Of the weights, for the model card: an identifier such as apache-2.0."""
    seed: int = 12345
    """Of head, dropout and the order of the data."""
    seeds: int = 1
    """Runs, each with the next seed."""
    grid: GridConfig = field(default_factory=GridConfig)
    """Settings to try, each with every seed."""
    optimizer: OptimizerConfig = field(default_factory=_optimizer)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    evaluations_per_epoch: int = 1
    """How often the dev data are scored; the best checkpoint is that of the best score."""
    best_metric: str | None = None
    """What that score is, for epochs and for several runs; None: the task's main one."""
    log_every_steps: int = 10
    distribution: DistributionConfig = field(default_factory=DistributionConfig)
    precision: Precision = "auto"
    device: str = "auto"
    micro_batch_tokens: int = 4096
    """Tokens that pass through the model at once: memory depends on it, results only by rounding and by how dropout
    falls."""

    def __post_init__(self) -> None:
        check_license(self.license)
        self.distribution.check({"optimizer.muon": self.optimizer.muon is not None})
        for name in ("epochs", "batch_size", "seeds", "evaluations_per_epoch", "log_every_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} is not positive")
        if self.train_examples is not None and self.train_examples < 1:
            raise ValueError(f"train_examples {self.train_examples} is not positive")
        if self.budget_seconds is not None and self.budget_seconds <= 0:
            raise ValueError(f"budget_seconds {self.budget_seconds} is not positive")
        if not 0 < self.dev_fraction < 1:
            raise ValueError(f"dev_fraction {self.dev_fraction} is not between 0 and 1")
        if self.max_seq_length < 8:
            raise ValueError(f"max_seq_length {self.max_seq_length} is less than 8")
        if self.micro_batch_tokens < self.max_seq_length:
            what = f"micro_batch_tokens {self.micro_batch_tokens} is less than a sequence"
            raise ValueError(f"{what} ({self.max_seq_length})")
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed {self.seed} is not in 0..2147483647")
        if self.seed + self.seeds > 2**31:
            raise ValueError(f"seeds {self.seeds} from seed {self.seed} go beyond 2147483647")

    def metric_of(self, task: AnyTask) -> str:
        """Return the name of the score that chooses.

        Raises:
            InputError: the task has none that may, of that name.
        """
        if self.best_metric is None:
            return task.main_metric
        if self.best_metric not in task.metrics:
            what = f"{task.name} has no score {self.best_metric!r} to choose by"
            raise InputError(what, where="best_metric", remedy=f"It has {', '.join(task.metrics)}")
        return self.best_metric

    @property
    def has_trials(self) -> bool:
        """Whether it asks for several runs."""
        return self.seeds > 1 or self.grid != GridConfig()


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSettings:
    """What prediction must know of the fine-tuning: `task.toml` in a checkpoint, beside the task's own table."""

    max_seq_length: int


def load_finetuning(
    task: str | None = None, path: Path | None = None, overrides: Iterable[str] = ()
) -> tuple[AnyTask, FinetuneConfig]:
    """Build a task and its run's settings from their defaults, then a TOML file, then overrides.

    Args:
        task: the task's name; None where the file has it.
        path: a TOML file, such as a run's `run.toml`.
        overrides: `key=value` texts; the task's own keys are called `classification.text_column` and so on.

    Raises:
        InputError: no such task, a key that nobody reads, a wrong type, a value out of range.
    """
    overrides = list(overrides)
    where = configuration.name_of(path, overrides)
    return finetuning_from_table(task, configuration.read_table(path, overrides), where=where)


def finetuning_from_table(
    task: str | None, given: dict[str, Any], *, where: str
) -> tuple[AnyTask, FinetuneConfig]:
    """Build a task and its run's settings from their defaults and a table, as `load_finetuning` reads it from a file.

    Raises:
        InputError: as there.
    """
    task_class = _find_task(given, task, where)
    table = configuration.read_table(overrides=task_class.defaults)
    configuration.merge(table, given)
    return _build(task_class, FinetuneConfig, table, where)


def load_task(checkpoint: Path) -> tuple[AnyTask, TaskSettings] | None:
    """Return the task that a checkpoint was fine-tuned for; None where it does not say."""
    path = checkpoint / TASK_FILE
    if not path.is_file():
        return None
    table = configuration.read_table(path)
    return _build(_find_task(table, None, str(path)), TaskSettings, table, str(path))


def with_settings(task: AnyTask, overrides: Iterable[str], *, is_trained: bool = False) -> AnyTask:
    """Return a task with other settings of its own, as in `classification.text_column=review`.

    Args:
        task: as it is.
        overrides: its settings by name.
        is_trained: whether it is that of a model, whose weights some settings belong to.

    Raises:
        InputError: a key that nobody reads, a wrong type, a value out of range, or a setting of the weights.
    """
    table = configuration.read_table(overrides=overrides)
    own = table.pop(task.name, {})
    if table or not isinstance(own, Mapping):
        what = f"{', '.join(table) or task.name} is no setting of the task"
        raise InputError(what, where="--set", remedy=f"Write {task.name}.KEY=VALUE")
    if is_trained and (learned := [name for name in own if name in task.learned_settings]):
        what = f"{task.name}.{learned[0]} is what the model was trained with"
        raise InputError(what, where="--set", remedy="Leave it out, or fine-tune another")
    return configuration.from_table(type(task), own, where="--set", prefix=f"{task.name}.", default=task)


def to_toml(task: AnyTask, config: FinetuneConfig | TaskSettings) -> str:
    """Write a task and settings as TOML that reads back to equal ones."""
    own = "\n" + configuration.to_toml(task)
    own = own.replace("\n[", f"\n[{task.name}.").strip("\n")
    return f'task = "{task.name}"\n{configuration.to_toml(config)}\n[{task.name}]\n{own}\n'


def _find_task(table: dict[str, Any], task: str | None, where: str) -> type[AnyTask]:
    """Take the task's name out of a table, where it must be `task` unless that is None."""
    named = table.pop("task", task)
    if named is None or (task is not None and named != task):
        what = "no task is named" if named is None else f"is for the task {named!r}, not {task!r}"
        raise InputError(what, where=where)
    return find_task(str(named), where=where)


def _build(
    task_class: type[AnyTask], config: type[Config], table: dict[str, Any], where: str
) -> tuple[AnyTask, Config]:
    own = table.pop(task_class.name, {})
    if not isinstance(own, Mapping):
        raise InputError(f"{task_class.name} must be a table, not {own!r}", where=where)
    task = configuration.from_table(task_class, own, where=where, prefix=f"{task_class.name}.")
    return task, configuration.from_table(config, table, where=where)
