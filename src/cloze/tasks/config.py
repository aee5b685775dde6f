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
from typing import TypeVar

from cloze import config as configuration
from cloze.errors import InputError
from cloze.tasks.registry import find_task
from cloze.tasks.task import AnyTask
from cloze.training.checkpoints import CheckpointConfig
from cloze.training.loop import EvaluationConfig
from cloze.training.optimizer import OptimizerConfig
from cloze.training.precision import Precision

TASK_FILE = "task.toml"

Config = TypeVar("Config")


def _optimizer() -> OptimizerConfig:
    return OptimizerConfig(learning_rate=5e-5, warmup_fraction=0.1)


def _evaluation() -> EvaluationConfig:
    return EvaluationConfig(times=3)


@dataclass(frozen=True, kw_only=True, slots=True)
class FinetuneConfig:
    """A fine-tuning run (Devlin et al. 2019, 4 and A.3; google-research/bert run_classifier.py @eedf571)."""

    model: str
    """The checkpoint or run to start from."""
    train: str
    """The data to learn from."""
    dev: str | None = None
    """The data to be scored on; where None, a share of `train` is held out."""
    dev_fraction: float = 0.1
    """That share."""
    data_sha256: str | None = None
    """The SHA-256 of the data: filled in when the run begins, and other data are refused."""
    epochs: int = 3
    """How often each example is seen."""
    budget_seconds: float | None = None
    """Time to train at most: where the epochs would take longer, the schedule follows the clock."""
    batch_size: int = 32
    """Examples an optimizer step."""
    max_seq_length: int = 128
    """Tokens of a sequence, [CLS] and [SEP] included; longer texts are cut."""
    seed: int = 12345
    optimizer: OptimizerConfig = field(default_factory=_optimizer)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    evaluation: EvaluationConfig = field(default_factory=_evaluation)
    precision: Precision = "auto"
    device: str = "auto"
    micro_batch_tokens: int = 4096
    """Tokens that pass through the model at once: memory depends on it, results only by rounding."""

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError("epochs and batch_size must be positive")
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
    return _load(FinetuneConfig, task, path, overrides)


def load_task(checkpoint: Path) -> tuple[AnyTask, TaskSettings] | None:
    """Return the task that a checkpoint was fine-tuned for; None where it does not say."""
    path = checkpoint / TASK_FILE
    return _load(TaskSettings, None, path, ()) if path.exists() else None


def to_toml(task: AnyTask, config: FinetuneConfig | TaskSettings) -> str:
    """Write a task and settings as TOML that reads back to equal ones."""
    own = "\n" + configuration.to_toml(task)
    own = own.replace("\n[", f"\n[{task.name}.").strip("\n")
    return f'task = "{task.name}"\n{configuration.to_toml(config)}\n[{task.name}]\n{own}\n'


def _load(
    config: type[Config], task: str | None, path: Path | None, overrides: Iterable[str]
) -> tuple[AnyTask, Config]:
    where = "settings" if path is None else str(path)
    table = configuration.read_table(path, overrides)
    named = table.pop("task", task)
    if named is None or (task is not None and named != task):
        what = "no task is named" if named is None else f"is for the task {named!r}, not {task!r}"
        raise InputError(what, where=where)
    task_class = find_task(str(named), where=where)
    own = table.pop(task_class.name, {})
    if not isinstance(own, Mapping):
        raise InputError(f"{task_class.name} must be a table, not {own!r}", where=where)
    settings = configuration.from_table(task_class, own, where=where, prefix=f"{task_class.name}.")
    return settings, configuration.from_table(config, table, where=where)
