"""The settings of a run, resolved in one place: what was given, laid over the defaults.

The layers of a fine-tuning, each over those before it: the defaults of `FinetuneConfig`, those of the task, the length
that the model takes, the recipe (or TOML file or config object), and the arguments. Those of a pre-training: the
defaults of `PretrainConfig`, those of the model's size, the recipe, and the arguments.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from cloze import config as configuration
from cloze.arguments import check_path, check_type, split_names
from cloze.artifacts import RUN_DATA_FOLDER, is_free
from cloze.data.reading.files import file_sha256
from cloze.errors import MISSING, InputError, RunError
from cloze.finetuning.config import (
    GRID_SETTINGS,
    MAX_SEQ_LENGTH,
    PAPER_GRID,
    FinetuneConfig,
    finetuning_from_dict,
)
from cloze.finetuning.finetune import resumed_settings as resumed_finetuning
from cloze.hub import parse_hub_name
from cloze.model_paths import LOG, find_model_directory, resolve_checkpoint
from cloze.models.config_file import load_config
from cloze.models.encoder import all_sizes
from cloze.models.encoder_config import SIZES, EncoderConfig
from cloze.pretraining.config import PretrainConfig, overlay_settings, pairs_defaults, size_defaults
from cloze.pretraining.run import resumed_settings as resumed_pretraining
from cloze.suggestions import list_names
from cloze.tasks.config import check_has_settings, to_toml
from cloze.tasks.data import read_memory
from cloze.tasks.registry import find_task
from cloze.tasks.task import KEYWORDS, AnyTask, Task
from cloze.training.budget import parse_duration
from cloze.training.distributed import num_restarts
from cloze.training.run_directory import is_run, run_settings_file

Resolved = TypeVar("Resolved")
"""The settings of a run."""
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
        path = configuration.find_recipe(str(config), folder, where="config")
        assert path is not None
        return configuration.read_toml(path)
    check_type(config, kind, "config", remedy=f"Give a cloze.{kind.__name__}, a TOML file or a recipe")
    return config.explicit()


def source_of(config: Recipe) -> str:
    """Return where the settings of a run come from, for messages."""
    return f"{config} and settings" if isinstance(config, (str, Path)) else configuration.SETTINGS


def overlay(
    keywords: Mapping[str, Any], settings: Mapping[str, Any], names: Mapping[str, str]
) -> dict[str, Any]:
    """Return keywords, over settings by their dotted keys, as nested dictionaries.

    Args:
        keywords: of a function; those that are None are not given.
        settings: of its argument `settings`.
        names: the settings of keywords that are called otherwise.
    """
    check_type(settings, Mapping, "settings", remedy='Give a dict, as in {"optimizer.weight_decay": 0.1}')
    table = configuration.nest(settings)
    configuration.merge_dicts(
        table, configuration.nest({names.get(name, name): v for name, v in keywords.items()})
    )
    return table


class RunRequest(ABC, Generic[Resolved]):
    """What `finetune` and `pretrain` are asked for: a run to start or to resume, and a recipe."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Read arguments by name."""
        self.run = check_path(values["output"], "output") if "output" in values else Path()
        self.resume: bool = values.get("resume", False)
        if self.resume and values.get("overwrite", False):
            what = "cannot be combined with `resume`"
            raise InputError(what, where="overwrite", remedy="Leave out one of them")
        self.config: Recipe = values.get("config")
        self.explicit: dict[str, Any] = {}
        """The settings of arguments, as nested dictionaries."""
        self.table: dict[str, Any] = {}
        """Those over the recipe's."""

    def resumed(self) -> Resolved | None:
        """Return the settings of the run to resume, with the permitted changes; None to start one."""
        if self.resume:
            return None if is_free(self.run) and self.table else self._resumed(self.explicit)
        if num_restarts():  # after a failure torchrun repeats the command
            with suppress(InputError):
                return self._resumed({})
        return None

    @abstractmethod
    def _resumed(self, explicit: Mapping[str, Any]) -> Resolved:
        """Return the settings of the run; `explicit` are those that may change one."""


class FinetuningRequest(RunRequest[tuple[AnyTask, FinetuneConfig]]):
    """What `finetune` is asked for: a task, its run, and settings, with files in place of data in memory."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """Read the arguments of `finetune` by name; None is not given."""
        values = {name: value for name, value in arguments.items() if value is not None}
        super().__init__(values)
        recipe = read_recipe(self.config, FinetuneConfig, "finetuning")
        self.has_data = bool({"model", "train"} & values.keys())
        self.task: AnyTask | str = values.get("task") or self._task_of(recipe)
        if not isinstance(self.task, str):
            check_type(self.task, Task, "task", remedy="Give its name, or a task")
        self.task_name: str = self.task if isinstance(self.task, str) else self.task.name
        self.in_memory = {
            name: values[name]
            for name in ("train", "dev")
            if not isinstance(values.get(name, ""), (str, Path))
        }
        for name in self.in_memory:
            values[name] = self.run / RUN_DATA_FOLDER / f"{name}.jsonl"
        if "student_layers" in values:
            values.setdefault("model", values.get("teacher"))
        self._keyword_of = {key: name for name, key in _NAMES.items() if name in values}
        self.explicit = overlay(self._keywords(values), values.get("settings", {}), _NAMES)
        self.table = lay_over_recipe(recipe, self.task, self.explicit, grid=values.get("grid", False))

    def _task_of(self, recipe: Mapping[str, Any]) -> str:
        task = recipe.get("task")
        if task is None and self.resume and is_run(self.run):
            task = configuration.read_toml(run_settings_file(self.run, verb="finetune")).get("task")
        if not isinstance(task, str):
            if self.resume and not recipe and not self.has_data:
                run_settings_file(self.run, verb="finetune")  # says that there is no run to resume
            where = self.config if isinstance(self.config, (str, Path)) else None
            remedy = "Name one, as in cloze finetune classification; cloze tasks lists them"
            raise InputError("no task is named", where=where, remedy=remedy)
        return task

    def _keywords(self, values: Mapping[str, Any]) -> dict[str, Any]:
        of_task = {name: values[name] for name in KEYWORDS if name in values}
        if (names := split_names(of_task.get("column_names"))) is not None:
            of_task["column_names"] = list(names)
        check_has_settings(find_task(self.task_name), of_task)
        keywords = {f"{self.task_name}.{name}": value for name, value in of_task.items()}
        paths = {name: str(values[name]) for name in _PATHS if name in values}
        return keywords | {name: values[name] for name in _RUN_ARGUMENTS if name in values} | paths

    def _resumed(self, explicit: Mapping[str, Any]) -> tuple[AnyTask, FinetuneConfig]:
        changes = {key: value for key, value in self.table.items() if key not in self.in_memory}
        if isinstance(self.task, Task):  # the run knows labels and others that this one lacks
            different = configuration.differences(self.task.settings, find_task(self.task_name).settings)
            changes[self.task_name] = configuration.nest(
                {key: value for key, (value, _) in different.items()}
            )
            configuration.merge_dicts(changes, {self.task_name: self.explicit.get(self.task_name, {})})
        task, config = resumed_finetuning(self.run, self.task_name, changes, explicit)
        for key, value in self.in_memory.items():
            path = getattr(config, key)
            _, data = read_memory(task, value, key)
            if path is None or not Path(path).is_file() or file_sha256(path) != data.sha256:
                remedy = "Leave them out, or start a new run in another output"
                raise InputError("are not the data of the run to resume", where=key, remedy=remedy)
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
        if "max_seq_length" not in self.table:
            self.table |= _length_of_model(self.task_name, self.table, downloads=downloads)
        try:
            task, config = finetuning_from_dict(
                self.task_name, self.table | missing, where=source_of(self.config)
            )
        except InputError as error:
            error.where = self._keyword_of.get(str(error.where), error.where)
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


_NAMES = {
    "learning_rate": "optimizer.learning_rate",
    "data_fractions": "grid.data_fractions",
    "teacher": "distillation.teacher",
    "student_layers": "distillation.student_layers",
    "unlabeled": "distillation.unlabeled",
}
"""The settings of arguments that are called otherwise."""
_REQUIRED = {
    "model": "Give cloze-mini, a checkpoint, a run or hf://org/name",
    "train": "Give a file, the directory of a benchmark, or rows in memory",
}
_PATHS = ("model", "train", "dev", "teacher", "unlabeled")
_RUN_ARGUMENTS = (
    "student_layers", "max_seq_length", "train_examples", "data_fractions", "epochs", "patience", "batch_size",
    "learning_rate", "seed", "seeds", "device", "precision",
)  # fmt: skip


def resolve_finetuning(
    task: str | AnyTask, config: Recipe = None, settings: Mapping[str, Any] = {}
) -> tuple[AnyTask, FinetuneConfig]:
    """Return the task and the config of a fine-tuning, of a recipe with settings by their dotted keys."""
    return FinetuningRequest({"task": task, "config": config, "settings": settings}).resolve()


def lay_over_recipe(
    recipe: dict[str, Any], task: str | AnyTask, explicit: Mapping[str, Any], *, grid: bool
) -> dict[str, Any]:
    """Merge the settings of a fine-tuning: those of a recipe, then of a task, then of arguments.

    Args:
        explicit: settings of arguments, as nested dictionaries.
        grid: whether the paper's grid is searched. No grid searches a setting that is explicit.
    """
    table = dict(recipe)
    if isinstance(task, Task):
        table[task.name] = {name: value for name, value in task.settings.items() if value is not None}
    if grid:
        table["grid"] = configuration.to_dict(PAPER_GRID)
    configuration.merge_dicts(table, explicit)
    keys = configuration.differences(explicit, {}).keys()
    for setting, values in GRID_SETTINGS.items():
        if setting in keys and values not in keys:
            configuration.merge_dicts(table, configuration.nest({values: []}))
    return table


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
    defaults = configuration.read_dict(overrides=find_task(task).defaults)
    default = defaults.get("max_seq_length", MAX_SEQ_LENGTH)
    encoder = _config_of_model(table.get("model"), table.get("model_commit"), downloads=downloads)
    if encoder is None or not 8 <= encoder.max_position_embeddings < default:
        return {}
    positions = encoder.max_position_embeddings
    LOG.info("max_seq_length %d: %s takes no more tokens", positions, table["model"])
    return {"max_seq_length": positions}


class PretrainingRequest(RunRequest[PretrainConfig]):
    """What `pretrain` is asked for: a run and its settings."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """Read the arguments of `pretrain` by name; None is not given."""
        values = {name: value for name, value in arguments.items() if value is not None}
        super().__init__(values)
        if "texts" in values:
            if "data" in values:
                raise InputError("excludes texts", where="data", remedy="Give one of them")
            values["data"] = f"{self.run}-data"
        if "budget" in values:
            values["budget"] = parse_duration(str(values["budget"]))
        keywords: dict[str, Any] = {
            name: values.get(name) for name in ("steps", "budget", "seed", "device", "precision")
        }
        keywords |= {name: str(values[name]) for name in ("data", "init") if name in values}
        model = values.get("model")
        if isinstance(model, str) and model not in all_sizes() and _is_model(model):
            remedy = f"Continue from it with `init={model}`, or choose a size: {list_names(SIZES)}"
            raise InputError(f"{model!r} is a checkpoint, not a size", where="model", remedy=remedy)
        keywords["model.size" if isinstance(model, str) else "model"] = model
        self.explicit = overlay(keywords, values.get("settings", {}), {"budget": "budget_seconds"})
        starts = is_free(self.run) or not self.resume
        self.is_adaptation = self.config is None and "init" in self.explicit and starts
        recipe = "adapt" if self.is_adaptation else self.config
        if self.is_adaptation:
            LOG.info("settings: the recipe adapt, for init; config chooses others")
        self.table = overlay_settings(read_recipe(recipe, PretrainConfig), self.explicit)

    def _resumed(self, explicit: Mapping[str, Any]) -> PretrainConfig:
        return resumed_pretraining(self.run, self.table, explicit)

    def resolve(self, *, downloads: bool = True) -> PretrainConfig:
        """Return the config of a new run.

        Args:
            downloads: whether a model of the Hub may be downloaded for the defaults of its family.
        """
        if "data" not in self.table:
            raise InputError(MISSING, where="data", remedy="Give a data set, as cloze corpus writes it")
        encoder = _config_of_model(self.table.get("init"), self.table.get("init_commit"), downloads=downloads)
        table = size_defaults(self.table) if encoder is None else pairs_defaults(encoder)
        configuration.merge_dicts(table, self.table)
        return configuration.from_dict(PretrainConfig, table, where=source_of(self.config))

    def to_toml(self) -> str:
        """Return all settings as TOML; data and length are optional."""
        missing = [] if "data" in self.table else ["data"]
        if "steps" not in self.table and "budget_seconds" not in self.table:
            missing.append("steps")
        self.table |= {name: {"data": "", "steps": 1}[name] for name in missing}
        return without_settings(configuration.to_toml(self.resolve(downloads=False)), missing)


def _is_model(name: str) -> bool:
    """Return whether a word names a model: one of the Hub, a bundled one, or a path that exists."""
    if parse_hub_name(name) is not None:
        return True
    with suppress(InputError):
        return find_model_directory(name).exists()
    return False


def resolve_pretraining(config: Recipe = None, settings: Mapping[str, Any] = {}) -> PretrainConfig:
    """Return the config of a pre-training, of a recipe with settings by their dotted keys."""
    return PretrainingRequest({"config": config, "settings": settings}).resolve()
