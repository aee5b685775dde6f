"""The settings of a run, resolved in one place, in layers.

Those of a fine-tuning, each over the layers before it: the defaults of `FinetuneConfig`, the defaults of the task, the
length that the model takes, the recipe (or TOML file or config object), the argument `settings`, and the keywords.
Those of a pre-training: the defaults of `PretrainConfig`, the defaults of the model's size, and then the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from cloze.api.finetuning import FinetuneOptions
from cloze.api.pretraining import PretrainOptions
from cloze.arguments import check_path, check_type, split_names
from cloze.artifacts import RUN_DATA_FOLDER, is_free
from cloze.config import SETTINGS, differences, find_recipe, merge, read_dict, read_toml, resolve, to_dict
from cloze.config import to_toml as config_to_toml
from cloze.data.reading.files import file_sha256
from cloze.errors import MISSING, InputError, RunError
from cloze.finetuning.config import MAX_SEQ_LENGTH, PAPER_GRID, FinetuneConfig, resolve_task_and_config
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
from cloze.tasks.config import check_has_settings, to_toml
from cloze.tasks.data import find_files, read_memory
from cloze.tasks.registry import find_task
from cloze.tasks.task import AnyTask, Task
from cloze.training.distributed import num_restarts
from cloze.training.optimizer import parse_duration
from cloze.training.run_directory import changed_settings, is_run, run_settings_file

Resolved = TypeVar("Resolved")
"""The settings of a run."""
Changes: TypeAlias = dict[str, tuple[Any, Any]]
Recipe: TypeAlias = FinetuneConfig | PretrainConfig | str | Path | None
"""A config object, the path of a TOML file, or the name of a recipe."""


def read_recipe(config: Recipe, kind: type, folder: str = "") -> dict[str, Any]:
    """Return the settings that a config object, a TOML file or a recipe gives, as nested dictionaries.

    Args:
        folder: folder of the recipes.
    """
    if config is None:
        return {}
    if isinstance(config, (str, Path)):
        path = find_recipe(str(config), folder, where="config")
        assert path is not None
        return read_toml(path)
    check_type(config, kind, "config", remedy=f"Give a cloze.{kind.__name__}, a TOML file or a recipe")
    return config.explicit()


class RunRequest(ABC, Generic[Resolved]):
    """What `finetune` and `pretrain` are asked for: a run to start or to resume, and its settings."""

    verb: ClassVar[Literal["finetune", "pretrain"]]
    config_class: ClassVar[type[FinetuneConfig | PretrainConfig]]
    explicit: dict[str, Any]
    """The settings of arguments, as nested dictionaries."""
    table: dict[str, Any]
    """Those over the recipe's."""

    def __init__(self, output: str | Path | None, options: FinetuneOptions | PretrainOptions) -> None:
        self.run = Path() if output is None else check_path(output, "output")
        self.resume = options.get("resume", False)
        if self.resume and options.get("overwrite"):
            what = "cannot be combined with `resume`"
            raise InputError(what, where="overwrite", remedy="Leave out one of them")
        self.config: Recipe = options.get("config")
        self.settings = options.get("settings", {})
        remedy = 'Give a dict, as in {"optimizer.weight_decay": 0.1}'
        check_type(self.settings, Mapping, "settings", remedy=remedy)

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
        changes = self._changes(old, self._build(saved, self.table))
        changes = changed_settings(self.run, self.config_class, changes, self._may_change(old, explicit))
        return self._build(saved, {key: value for key, (_, value) in changes.items()})

    @abstractmethod
    def _build(self, *layers: Mapping[str, Any], where: str = SETTINGS) -> Resolved:
        """Return the settings of layers, each over those before it."""

    @abstractmethod
    def _changes(self, old: Resolved, new: Resolved) -> Changes:
        """Return the settings in which a run and those of the arguments differ, by dotted key, with both values."""

    def _may_change(self, old: Resolved, explicit: Mapping[str, Any]) -> Mapping[str, Any]:
        return explicit

    @property
    def _source(self) -> str:
        """Where the settings come from, for messages."""
        return f"{self.config} and settings" if isinstance(self.config, (str, Path)) else SETTINGS


class FinetuningRequest(RunRequest[tuple[AnyTask, FinetuneConfig]]):
    """What `finetune` is asked for: a task, its run, and settings, with files in place of data in memory."""

    verb = "finetune"
    config_class = FinetuneConfig

    def __init__(
        self, task: str | AnyTask | None, output: str | Path | None, options: FinetuneOptions
    ) -> None:
        super().__init__(output, options)
        recipe = read_recipe(self.config, FinetuneConfig, "finetuning")
        data = {"train": options.get("train"), "dev": options.get("dev")}
        has_data = options.get("model") is not None or data["train"] is not None
        task = task or self._task_of(recipe, has_data=has_data)
        if not isinstance(task, str):
            check_type(task, Task, "task", remedy="Give its name, or a task")
        self.task_name: str = task.name if isinstance(task, Task) else task
        registered = find_task(self.task_name)
        self.in_memory = {
            name: rows
            for name, rows in data.items()
            if rows is not None and not isinstance(rows, (str, Path))
        }
        data |= {name: self.run / RUN_DATA_FOLDER / f"{name}.jsonl" for name in self.in_memory}
        of_task = {
            "text_column": options.get("text_column"),
            "label_column": options.get("label_column"),
            "missing_labels": options.get("missing_labels"),
            "skip_bad_rows": options.get("skip_bad_rows") or None,
            "format": options.get("format"),
            "encoding": options.get("encoding"),
            "clean": options.get("clean"),
            "column_names": split_names(options.get("column_names")),
            "long_texts": options.get("long_texts"),
        }
        check_has_settings(registered, [name for name, value in of_task.items() if value is not None])
        of_teacher = options.get("teacher") if options.get("student_layers") is not None else None
        self.keywords = merge(
            {
                "model": of_teacher if options.get("model") is None else options.get("model"),
                **data,
                self.task_name: merge(of_task) or None,
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
        usual = registered.settings
        of_object = {
            name: value
            for name, value in (task.settings.items() if isinstance(task, Task) else ())
            if value != usual[name]
        }
        self.table = merge(
            recipe,
            {self.task_name: merge(of_object)},
            {"grid": to_dict(PAPER_GRID) if options.get("grid") else None},
            self.explicit,
            replaced=FinetuneConfig.replaced,
        )

    def _task_of(self, recipe: Mapping[str, Any], *, has_data: bool) -> str:
        task = recipe.get("task")
        if task is None and self.resume and is_run(self.run):
            task = read_toml(run_settings_file(self.run, verb="finetune")).get("task")
        if not isinstance(task, str):
            if self.resume and not recipe and not has_data:
                run_settings_file(self.run, verb="finetune")  # says that there is no run to resume
            where = self.config if isinstance(self.config, (str, Path)) else None
            remedy = "Name one, as in cloze finetune classification; cloze tasks lists them"
            raise InputError("no task is named", where=where, remedy=remedy)
        return task

    def _build(self, *layers: Mapping[str, Any], where: str = SETTINGS) -> tuple[AnyTask, FinetuneConfig]:
        return resolve_task_and_config(self.task_name, *layers, where=where)

    def _changes(self, old: tuple[AnyTask, FinetuneConfig], new: tuple[AnyTask, FinetuneConfig]) -> Changes:
        (old_task, old_config), (task, config) = old, new
        if (config.train, config.dev) != (
            old_config.train,
            old_config.dev,
        ):  # maybe a directory of such files
            train, dev = find_files(task, config.train, self.table.get("dev", old_config.dev))
            config = replace(config, train=train, dev=dev)
        of_task = differences(old_task.to_dict(), task.to_dict())
        return differences(old_config, config) | {
            f"{task.name}.{name}": pair for name, pair in of_task.items()
        }

    def _may_change(
        self, old: tuple[AnyTask, FinetuneConfig], explicit: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        return {} if old[1].has_trials else explicit

    def _resumed(self, explicit: Mapping[str, Any]) -> tuple[AnyTask, FinetuneConfig]:
        task, config = super()._resumed(explicit)
        for name, value in self.in_memory.items():
            path = getattr(config, name)
            _, rows = read_memory(task, value, name)
            if path is None or not Path(path).is_file() or file_sha256(path) != rows.sha256:
                remedy = "Leave them out, or start a new run in another output"
                raise InputError("are not the data of the run to resume", where=name, remedy=remedy)
        return task, config

    def resolve(
        self, folder: Path | None = None, *, downloads: bool = True
    ) -> tuple[AnyTask, FinetuneConfig]:
        """Return the task and the config of a new run.

        Args:
            folder: where data in memory are written, for a run that reads them.
            downloads: whether a model of the Hub may be downloaded for the length that it takes.
        """
        missing = {name: "" for name in _REQUIRED if name not in self.table}
        length = _length_of_model(self.task_name, self.table, downloads=downloads)
        try:
            task, config = self._build(length, self.table, missing, where=self._source)
        except InputError as error:
            *section, name = str(error.where).split(".")
            of_keywords = self.keywords.get(section[0], {}) if section else {}
            error.where = name if name in of_keywords else error.where
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
        missing = [name for name in _REQUIRED if name not in self.table]
        self.table |= dict.fromkeys(missing, "")
        return without_settings(to_toml(*self.resolve(downloads=False)), missing)


_REQUIRED = {
    "model": "Give cloze-mini, a checkpoint, a run or hf://org/name",
    "train": "Give a file, the directory of a benchmark, or rows in memory",
}


def resolve_finetuning(
    task: str | AnyTask, config: Recipe = None, settings: Mapping[str, Any] = {}
) -> tuple[AnyTask, FinetuneConfig]:
    """Return the task and the config of a fine-tuning, of a recipe with settings by their dotted keys."""
    options: FinetuneOptions = {"config": config, "settings": settings}  # type: ignore[typeddict-item]
    return FinetuningRequest(task, None, options).resolve()


def without_settings(toml: str, names: Collection[str]) -> str:
    """Return TOML without the lines of some top-level settings."""
    lines = toml.splitlines(keepends=True)
    return "".join(line for line in lines if line.partition(" = ")[0] not in names)


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
            if data is not None:
                raise InputError("excludes texts", where="data", remedy="Give one of them")
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
        self.is_adaptation = self.config is None and "init" in self.explicit and starts
        if self.is_adaptation:
            LOG.info("settings: the recipe adapt, for init; config chooses others")
        recipe = read_recipe("adapt" if self.is_adaptation else self.config, PretrainConfig)
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
        return self._build(model_defaults(self.table, initial), self.table, where=self._source)

    def to_toml(self) -> str:
        """Return all settings as TOML; data and length are optional."""
        missing = [] if "data" in self.table else ["data"]
        if "steps" not in self.table and "budget_seconds" not in self.table:
            missing.append("steps")
        self.table |= {name: {"data": "", "steps": 1}[name] for name in missing}
        return without_settings(config_to_toml(self.resolve(downloads=False)), missing)


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
