"""The settings of a run, resolved in one place, in layers.

Those of a fine-tuning, each over the layers before it: the defaults of `FinetuneConfig`, the defaults of the task, the
length that the model takes, the recipe (or TOML file or config object), the argument `settings`, and the keywords.
Those of a pre-training: the defaults of `PretrainConfig`, the defaults of the model's size, and then the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from cloze import config as configuration
from cloze.api.run_options import FinetuneOptions, PretrainOptions
from cloze.arguments import check_exclusive, check_path, check_type
from cloze.artifacts import RUN_DATA_FOLDER, is_free
from cloze.config import SETTINGS, differences, find_recipe, merge, read_dict, read_toml, resolve, to_dict
from cloze.data.reading.files import file_sha256
from cloze.errors import MISSING, InputError, RunError
from cloze.finetuning.config import MAX_SEQ_LENGTH, PAPER_GRID, FinetuneConfig
from cloze.hub import parse_hub_name
from cloze.model_paths import LOG, find_model_directory, resolve_checkpoint
from cloze.models.config_file import load_config
from cloze.models.encoder import all_sizes
from cloze.models.encoder_config import SIZES, EncoderConfig
from cloze.pretraining.config import (
    MODEL_OVERRIDES_WITH_INIT,
    PretrainConfig,
    check_model_of_init,
    model_defaults,
)
from cloze.suggestions import list_names
from cloze.tasks.config import resolve_task, settings_of_keywords, to_toml
from cloze.tasks.data import find_files, read_memory
from cloze.tasks.registry import find_task
from cloze.tasks.task import AnyTask, Task
from cloze.training.distributed import num_restarts
from cloze.training.optimizer import parse_duration
from cloze.training.run_directory import changed_settings, is_run, run_settings_file

Resolved = TypeVar("Resolved")
"""The settings of a run."""
TaskAndConfig: TypeAlias = tuple[AnyTask, FinetuneConfig]
Changes: TypeAlias = dict[str, tuple[Any, Any]]
"""By dotted key, the values in a run to resume and in the arguments."""
Recipe: TypeAlias = FinetuneConfig | PretrainConfig | str | Path | None
"""A config object, the path of a TOML file, or the name of a recipe."""


class RunRequest(ABC, Generic[Resolved]):
    """What `finetune` and `pretrain` are asked for: a run to start or to resume, and its settings."""

    verb: ClassVar[Literal["finetune", "pretrain"]]
    config_class: ClassVar[type[FinetuneConfig | PretrainConfig]]
    recipes: ClassVar[str] = ""
    """The folder of the recipes."""
    explicit: dict[str, Any]
    """The settings of arguments, as nested dictionaries."""
    table: dict[str, Any]
    """Those over the recipe's."""

    def __init__(self, output: str | Path | None, options: FinetuneOptions | PretrainOptions) -> None:
        self.run = Path() if output is None else check_path(output, "output")
        check_exclusive(options)
        self.resume = options.get("resume", False)
        self.config: Recipe = options.get("config")
        self.source = f"{self.config} and settings" if isinstance(self.config, (str, Path)) else SETTINGS
        self.settings = options.get("settings", {})
        remedy = 'Give a dict, as in {"optimizer.weight_decay": 0.1}'
        check_type(self.settings, Mapping, "settings", remedy=remedy)

    def read_recipe(self, config: Recipe) -> dict[str, Any]:
        """Return the settings that a config object, a TOML file or a recipe gives, as nested dictionaries."""
        if config is None:
            return {}
        if isinstance(config, (str, Path)):
            return read_toml(find_recipe(str(config), self.recipes))
        remedy = f"Give a cloze.{self.config_class.__name__}, a TOML file or a recipe"
        check_type(config, self.config_class, "config", remedy=remedy)
        return config.explicit()

    def resumed(self) -> Resolved | None:
        """Return the settings of the run to resume, with the permitted changes; None to start one."""
        if self.resume:
            return None if is_free(self.run) and self.table else self._resumed(self.explicit)
        if num_restarts():  # after a failure torchrun repeats the command
            with suppress(InputError):
                return self._resumed({})
        return None

    def _resumed(self, explicit: Mapping[str, Any]) -> Resolved:
        """Return the settings of the run; `explicit` are those that may change one."""
        file = run_settings_file(self.run, verb=self.verb)
        saved = read_toml(file)
        old = self._build(saved, where=str(file))
        explicit = explicit if self._may_change(old) else {}
        try:
            changes = self._changes(old, self._build(saved, self.table))
        except InputError as error:
            if isinstance(error.__cause__, ValueError):  # the new values contradict the run's
                table = merge(saved, self.table, replaced=self.config_class.replaced)
                changed_settings(self.run, self.config_class, differences(saved, table), explicit)
            raise
        return self._build(saved, changed_settings(self.run, self.config_class, changes, explicit))

    def _may_change(self, old: Resolved) -> bool:
        """Return whether a run may change settings."""
        return True

    @abstractmethod
    def _build(self, *layers: Mapping[str, Any], where: str = SETTINGS) -> Resolved:
        """Return the settings of layers, each over those before it."""

    @abstractmethod
    def _changes(self, old: Resolved, new: Resolved) -> Changes:
        """Return the settings in which a run and the arguments differ."""

    def _print(self, to_toml: Callable[[], str], **placeholders: Any) -> str:
        """Return settings as TOML, without required settings that are missing."""
        missing = {name: value for name, value in placeholders.items() if name not in self.table}
        self.table |= missing
        lines = to_toml().splitlines(keepends=True)
        return "".join(line for line in lines if line.partition(" = ")[0] not in missing)


class FinetuningRequest(RunRequest[TaskAndConfig]):
    """What `finetune` is asked for: a task, its run, and settings, with files in place of data in memory."""

    verb = "finetune"
    config_class = FinetuneConfig
    recipes = "finetuning"

    def __init__(
        self, task: str | AnyTask | None, output: str | Path | None, options: FinetuneOptions
    ) -> None:
        super().__init__(output, options)
        recipe = self.read_recipe(self.config)
        data = {"train": options.get("train"), "dev": options.get("dev")}
        names_data = data["train"] is not None or options.get("model") is not None
        task = task or self._task_of(recipe, is_new=bool(recipe) or names_data)
        if not isinstance(task, str):
            check_type(task, Task, "task", remedy="Give its name, or a task")
        self.task_name: str = task.name if isinstance(task, Task) else task
        registered = find_task(self.task_name)
        self.in_memory = {
            name: rows for name, rows in data.items() if not isinstance(rows, (str, Path, type(None)))
        }
        data |= {name: self.run / RUN_DATA_FOLDER / f"{name}.jsonl" for name in self.in_memory}
        of_teacher = options.get("teacher") if options.get("student_layers") is not None else None
        self.keywords = merge(
            {
                "model": of_teacher if options.get("model") is None else options.get("model"),
                **data,
                self.task_name: settings_of_keywords(registered, options) or None,
                "distillation.teacher": options.get("teacher"),
                "distillation.student_layers": options.get("student_layers"),
                "distillation.unlabeled": options.get("unlabeled"),
                "max_seq_length": options.get("max_seq_length"),
                "train_examples": options.get("train_examples"),
                "grid.data_fractions": options.get("data_fractions"),
                "epochs": options.get("epochs"),
                "patience": options.get("patience"),
                "batch_size": options.get("batch_size"),
                "optimizer.learning_rate": options.get("learning_rate"),
                "seed": options.get("seed"),
                "seeds": options.get("seeds"),
                "device": options.get("device"),
                "precision": options.get("precision"),
            }
        )
        self.explicit = merge(self.settings, self.keywords)
        of_object = task.settings if isinstance(task, Task) else {}
        of_object = {name: value for name, value in of_object.items() if value != registered.settings[name]}
        self.table = merge(
            recipe,
            {self.task_name: merge(of_object) or None},
            {"grid": to_dict(PAPER_GRID) if options.get("grid") else None},
            self.explicit,
            replaced=FinetuneConfig.replaced,
        )

    def _task_of(self, recipe: Mapping[str, Any], *, is_new: bool) -> str:
        task = recipe.get("task")
        if task is None and self.resume and (is_run(self.run) or not is_new):
            task = read_toml(run_settings_file(self.run, verb="finetune")).get("task")
        if not isinstance(task, str):
            where = self.config if isinstance(self.config, (str, Path)) else None
            remedy = "Name one, as in cloze finetune classification; cloze tasks lists them"
            raise InputError("no task is named", where=where, remedy=remedy)
        return task

    def _build(self, *layers: Mapping[str, Any], where: str = SETTINGS) -> TaskAndConfig:
        return resolve_task(FinetuneConfig, self.task_name, *layers, where=where)

    def _may_change(self, old: TaskAndConfig) -> bool:
        return not old[1].has_trials

    def _changes(self, old: TaskAndConfig, new: TaskAndConfig) -> Changes:
        (old_task, old_config), (task, config) = old, new
        if (config.train, config.dev) != (old_config.train, old_config.dev):  # maybe a directory of them
            train, dev = find_files(task, config.train, self.table.get("dev", old_config.dev))
            config = replace(config, train=train, dev=dev)
        tables = [{**to_dict(c), t.name: t.to_dict()} for t, c in ((old_task, old_config), (task, config))]
        return differences(*tables)

    def _resumed(self, explicit: Mapping[str, Any]) -> TaskAndConfig:
        task, config = super()._resumed(explicit)
        for name, value in self.in_memory.items():
            path = getattr(config, name)
            _, rows = read_memory(task, value, name)
            if path is None or not Path(path).is_file() or file_sha256(path) != rows.sha256:
                remedy = "Leave them out, or start a new run in another output"
                raise InputError("are not the data of the run to resume", where=name, remedy=remedy)
        return task, config

    def resolve(self, folder: Path | None = None, *, downloads: bool = True) -> TaskAndConfig:
        """Return the task and the config of a new run.

        Args:
            folder: where data in memory are written, for a run that reads them.
            downloads: whether a model of the Hub may be downloaded for the length that it takes.
        """
        missing = [name for name in _REQUIRED if name not in self.table]
        length = _length_of_model(self.task_name, self.table, downloads=downloads)
        try:
            task, config = self._build(length, self.table, dict.fromkeys(missing, ""), where=self.source)
        except InputError as error:
            section, _, name = str(error.where).rpartition(".")
            of_section = self.keywords.get(section)
            if isinstance(of_section, dict) and name in of_section:
                error.where = name
            raise
        for name in missing:
            raise InputError(MISSING, where=name, remedy=_REQUIRED[name])
        if folder is not None:
            for name, data in self.in_memory.items():
                task, rows = read_memory(task, data, name)
                file: dict[str, Any] = {name: str(rows.write(folder))}
                config = replace(config, **file)
        return task, config

    def to_toml(self) -> str:
        """Return all settings as TOML; model and training data are optional."""
        return self._print(lambda: to_toml(*self.resolve(downloads=False)), model="", train="")


_REQUIRED = {
    "model": "Give cloze-mini, a checkpoint, a run or hf://org/name",
    "train": "Give a file, the directory of a benchmark, or rows in memory",
}


def resolve_finetuning(
    task: str | AnyTask, config: Recipe = None, settings: Mapping[str, Any] = {}
) -> TaskAndConfig:
    """Return the task and the config of a fine-tuning, of a recipe with settings by their dotted keys."""
    options: FinetuneOptions = {"config": config, "settings": settings}  # type: ignore[typeddict-item]
    return FinetuningRequest(task, None, options).resolve()


def find_initial_checkpoint(config: PretrainConfig) -> Path | None:
    """Return the directory of the checkpoint that a pre-training starts from; None for random weights."""
    return None if config.init is None else resolve_checkpoint(config.init, commit=config.init_commit)


def _config_of_model(name: object, commit: str | None, *, downloads: bool) -> EncoderConfig | None:
    """Return the config of a model; None of one that cannot be read, which is reported when the run starts."""
    if not isinstance(name, str) or (not downloads and parse_hub_name(name) is not None):
        return None
    try:
        return load_config(resolve_checkpoint(name, commit=commit))
    except (InputError, RunError, OSError):
        return None


def _length_of_model(task: str, table: Mapping[str, Any], *, downloads: bool) -> dict[str, int]:
    """Return the maximum length as a setting if the model takes fewer tokens than the default."""
    if "max_seq_length" in table:
        return {}
    default = read_dict(overrides=find_task(task).defaults).get("max_seq_length", MAX_SEQ_LENGTH)
    encoder = _config_of_model(table.get("model"), table.get("model_commit"), downloads=downloads)
    if encoder is None or not 8 <= encoder.max_position_embeddings < default:
        return {}
    positions = encoder.max_position_embeddings
    LOG.info("max_seq_length %d: %s takes no more tokens", positions, table["model"])
    return {"max_seq_length": positions}


class PretrainingRequest(RunRequest[PretrainConfig]):
    """What `pretrain` is asked for: a run and its settings."""

    verb = "pretrain"
    config_class = PretrainConfig

    def __init__(self, output: str | Path | None, options: PretrainOptions) -> None:
        super().__init__(output, options)
        data, model, budget = options.get("data"), options.get("model"), options.get("budget")
        if options.get("texts") is not None:
            data = f"{self.run}-data"
        if isinstance(model, str) and model not in all_sizes() and _is_model(model):
            remedy = f"Continue from it with `init={model}`, or choose a size: {list_names(SIZES)}"
            raise InputError(f"{model!r} is a checkpoint, not a size", where="model", remedy=remedy)
        keywords = {
            "data": data,
            "model.size" if isinstance(model, str) else "model": model,
            "steps": options.get("steps"),
            "budget_seconds": None if budget is None else parse_duration(str(budget)),
            "init": options.get("init"),
            "seed": options.get("seed"),
            "device": options.get("device"),
            "precision": options.get("precision"),
        }
        self.explicit = merge(self.settings, keywords)
        starts = is_free(self.run) or not self.resume
        if self.config is None and "init" in self.explicit and starts:
            LOG.info("settings: the recipe adapt, for init; config chooses others")
            recipe = self.read_recipe("adapt")
        else:
            recipe = self.read_recipe(self.config)
        check_model_of_init(recipe, self.explicit)
        self.table = merge(recipe, self.explicit, replaced=PretrainConfig.replaced)

    def _build(self, *layers: Mapping[str, Any], where: str = SETTINGS) -> PretrainConfig:
        return resolve(PretrainConfig, *layers, where=where)

    def _changes(self, old: PretrainConfig, new: PretrainConfig) -> Changes:
        changes = differences(old, new)
        if old.init is None:
            return changes
        fixed = {name for name in changes if name.startswith("model.")} - {*MODEL_OVERRIDES_WITH_INIT}
        return {name: pair for name, pair in changes.items() if name not in fixed}  # of the checkpoint

    def resolve(self, *, downloads: bool = True) -> PretrainConfig:
        """Return the config of a new run.

        Args:
            downloads: whether a model of the Hub may be downloaded for the defaults of its family.
        """
        if "data" not in self.table:
            raise InputError(MISSING, where="data", remedy="Give a data set, as cloze corpus writes it")
        initial = _config_of_model(self.table.get("init"), self.table.get("init_commit"), downloads=downloads)
        return self._build(model_defaults(self.table, initial), self.table, where=self.source)

    def to_toml(self) -> str:
        """Return all settings as TOML; data and length are optional."""
        steps = {} if "budget_seconds" in self.table else {"steps": 1}
        return self._print(lambda: configuration.to_toml(self.resolve(downloads=False)), data="", **steps)


def _is_model(name: str) -> bool:
    """Return whether a word names a model: one of the Hub, a bundled one, or a path that exists."""
    if parse_hub_name(name) is not None:
        return True
    with suppress(InputError):
        return find_model_directory(name).exists()
    return False


def resolve_pretraining(config: Recipe = None, settings: Mapping[str, Any] = {}) -> PretrainConfig:
    """Return the config of a pre-training, of a recipe with settings by their dotted keys."""
    options: PretrainOptions = {"config": config, "settings": settings}  # type: ignore[typeddict-item]
    return PretrainingRequest(None, options).resolve()
