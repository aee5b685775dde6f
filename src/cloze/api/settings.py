"""The settings of a run, resolved in one place, in layers.

Those of a fine-tuning, each over the layers before it: the defaults of `FinetuneConfig`, the defaults of the task, the
length that the model takes, the recipe (or TOML file or config object), the argument `settings`, and the keywords.
Those of a pre-training: the defaults of `PretrainConfig`, the defaults of the model's size, and then the same.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from cloze.api.run_options import FinetuneOptions, PretrainOptions
from cloze.arguments import check_exclusive, check_path, check_type
from cloze.artifacts import RUN_DATA_FOLDER, is_free
from cloze.config import (
    SETTINGS,
    differences,
    find_recipe,
    merge,
    read_dict,
    read_toml,
    resolve,
    to_dict,
)
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
from cloze.tasks.config import resolve_task, settings_of_keywords
from cloze.tasks.data import find_files, read_memory
from cloze.tasks.registry import find_task
from cloze.tasks.task import Task
from cloze.training.distributed import num_restarts
from cloze.training.optimizer import parse_duration
from cloze.training.run_directory import changed_settings, is_run, run_settings_file

Resolved = TypeVar("Resolved")
TaskAndConfig: TypeAlias = tuple[Task, FinetuneConfig]
Recipe: TypeAlias = FinetuneConfig | PretrainConfig | str | Path | None
"""A config object, the path of a TOML file, or the name of a recipe."""
_SETTINGS_OF_RUNS = (
    "batch_size", "device", "epochs", "max_seq_length", "patience", "precision", "seed", "seeds", "train_examples",
)  # fmt: skip
_SETTINGS_OF_DISTILLATION = ("teacher", "student_layers", "unlabeled")
"""Keywords of `finetune` that are settings of the same name."""
_REQUIRED = {
    "model": "Give cloze-mini, a checkpoint, a run or hf://org/name",
    "train": "Give a file, the directory of a benchmark, or rows in memory",
}


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The settings that a caller gives to a run, as nested dictionaries."""

    run: Path
    resume: bool
    source: str
    """Where they are from, for messages."""
    explicit: dict[str, Any]
    """Those of arguments, which may change a run that is resumed."""
    table: dict[str, Any]
    """Those, over the recipe's."""


@dataclass(frozen=True, kw_only=True)
class FinetuningLayers(Layers):
    """The settings of a fine-tuning, with files in the place of data in memory."""

    task: str
    keywords: dict[str, Any] = field(default_factory=dict)
    in_memory: dict[str, Any] = field(default_factory=dict)


def finetuning_layers(
    task: str | Task | None, output: str | Path | None, options: FinetuneOptions
) -> FinetuningLayers:
    """Return the settings that the arguments of `finetune` give; left-out options are not given."""
    run, resume, config = _check_options(output, options), options.get("resume", False), options.get("config")
    recipe = _read_recipe(config, FinetuneConfig, "finetuning")
    data: dict[str, Any] = {"train": options.get("train"), "dev": options.get("dev")}
    is_new = bool(recipe) or data["train"] is not None or options.get("model") is not None
    task = task or _task_of_run(recipe, run, config, resume=resume and (is_run(run) or not is_new))
    if not isinstance(task, str):
        check_type(task, Task, "task", remedy="Give its name, or a task")
    name: str = task.name if isinstance(task, Task) else task
    registered = find_task(name)
    in_memory = {key: rows for key, rows in data.items() if not isinstance(rows, (str, Path, type(None)))}
    data |= {key: run / RUN_DATA_FOLDER / f"{key}.jsonl" for key in in_memory}
    of_teacher = options.get("teacher") if options.get("student_layers") is not None else None
    keywords = merge(
        {
            "model": of_teacher if options.get("model") is None else options.get("model"),
            **data,
            name: settings_of_keywords(registered, options) or None,
            **{f"distillation.{name}": options.get(name) for name in _SETTINGS_OF_DISTILLATION},
            "grid.data_fractions": options.get("data_fractions"),
            "optimizer.learning_rate": options.get("learning_rate"),
            **{name: options.get(name) for name in _SETTINGS_OF_RUNS},
        }
    )
    of_object = task.settings if isinstance(task, Task) else {}
    of_object = {key: value for key, value in of_object.items() if value != registered.settings[key]}
    grid = to_dict(PAPER_GRID) if options.get("grid") else None
    explicit = merge(options.get("settings", {}), keywords)
    of_task = {name: of_object or None, "grid": grid}
    return FinetuningLayers(
        run=run,
        resume=resume,
        source=_source(config),
        explicit=explicit,
        table=merge(recipe, of_task, explicit, replaced=FinetuneConfig.replaced),
        task=name,
        keywords=keywords,
        in_memory=in_memory,
    )


def resolve_finetuning(
    layers: FinetuningLayers, folder: Path | None = None, *, draft: bool = False
) -> TaskAndConfig:
    """Return the task and the config of a new run.

    Args:
        folder: where data in memory are written, for a run that reads them.
        draft: do without required settings, and download nothing for the length that a model takes.
    """
    missing = [name for name in _REQUIRED if name not in layers.table]
    length = _length_of_model(layers.task, layers.table, downloads=not draft)
    empty = dict.fromkeys(missing, "")
    try:
        task, config = resolve_task(
            FinetuneConfig, layers.task, length, layers.table, empty, where=layers.source
        )
    except InputError as error:
        section, _, name = str(error.where).rpartition(".")
        if isinstance(of_section := layers.keywords.get(section), dict) and name in of_section:
            error.where = name
        raise
    if missing and not draft:
        raise InputError(MISSING, where=missing[0], remedy=_REQUIRED[missing[0]])
    if folder is not None:
        for name, data in layers.in_memory.items():
            task, rows = read_memory(task, data, name)
            file: dict[str, Any] = {name: str(rows.write(folder))}
            config = replace(config, **file)
    return task, config


def resume_finetuning(layers: FinetuningLayers) -> TaskAndConfig | None:
    """Return the task and the config of the run to resume, with the permitted changes; None to start one."""

    def build(*tables: Mapping[str, Any], where: str = SETTINGS) -> TaskAndConfig:
        return resolve_task(FinetuneConfig, layers.task, *tables, where=where)

    def to_table(resolved: TaskAndConfig, old: TaskAndConfig) -> dict[str, Any]:
        task, config = resolved
        if (config.train, config.dev) != (old[1].train, old[1].dev):  # maybe a directory of them
            train, dev = find_files(task, config.train, layers.table.get("dev", old[1].dev))
            config = replace(config, train=train, dev=dev)
        return {**to_dict(config), task.name: task.to_dict()}

    resumed = _resume(layers, "finetune", build, to_table, is_fixed=lambda old: old[1].has_trials)
    if resumed is not None:
        task, config = resumed
        for name, value in layers.in_memory.items():
            path = getattr(config, name)
            _, rows = read_memory(task, value, name)
            if path is None or not Path(path).is_file() or file_sha256(path) != rows.sha256:
                remedy = "Leave them out, or start a new run in another output"
                raise InputError("are not the data of the run to resume", where=name, remedy=remedy)
    return resumed


def pretraining_layers(output: str | Path | None, options: PretrainOptions) -> Layers:
    """Return the settings that the arguments of `pretrain` give; left-out options are not given."""
    run, resume, config = _check_options(output, options), options.get("resume", False), options.get("config")
    data, model, budget = options.get("data"), options.get("model"), options.get("budget")
    if isinstance(model, str) and model not in all_sizes() and _is_model(model):
        remedy = f"Continue from it with `init={model}`, or choose a size: {list_names(SIZES)}"
        raise InputError(f"{model!r} is a checkpoint, not a size", where="model", remedy=remedy)
    keywords = {
        "data": data if options.get("texts") is None else f"{run}-data",
        "model.size" if isinstance(model, str) else "model": model,
        "steps": options.get("steps"),
        "budget_seconds": None if budget is None else parse_duration(str(budget)),
        "init": options.get("init"),
        "seed": options.get("seed"),
        "device": options.get("device"),
        "precision": options.get("precision"),
    }
    explicit = merge(options.get("settings", {}), keywords)
    if config is None and "init" in explicit and (is_free(run) or not resume):
        LOG.info("settings: the recipe adapt, for init; config chooses others")
        config = "adapt"
    recipe = _read_recipe(config, PretrainConfig)
    check_model_of_init(recipe, explicit)
    table = merge(recipe, explicit, replaced=PretrainConfig.replaced)
    source = _source(options.get("config"))
    return Layers(run=run, resume=resume, source=source, explicit=explicit, table=table)


def resolve_pretraining(layers: Layers, *, draft: bool = False) -> PretrainConfig:
    """Return the config of a new run; `draft` is as in `resolve_finetuning`."""
    table = layers.table
    if draft:
        table = {"data": "", **({} if "budget_seconds" in table else {"steps": 1}), **table}
    if "data" not in table:
        raise InputError(MISSING, where="data", remedy="Give a data set, as cloze corpus writes it")
    initial = _config_of_model(table.get("init"), table.get("init_commit"), downloads=not draft)
    return resolve(PretrainConfig, model_defaults(table, initial), table, where=layers.source)


def resume_pretraining(layers: Layers) -> PretrainConfig | None:
    """Return the config of the run to resume, with the permitted changes; None to start one."""

    def build(*tables: Mapping[str, Any], where: str = SETTINGS) -> PretrainConfig:
        return resolve(PretrainConfig, *tables, where=where)

    def to_table(config: PretrainConfig, old: PretrainConfig) -> dict[str, Any]:
        table = to_dict(config)
        if old.init is not None:  # the checkpoint has all else of the model
            table["model"] = {name: value for name, value in table["model"].items() if name in may_differ}
        return table

    may_differ = {name.partition(".")[2] for name in MODEL_OVERRIDES_WITH_INIT}
    return _resume(layers, "pretrain", build, to_table)


def find_initial_checkpoint(config: PretrainConfig) -> Path | None:
    """Return the directory of the checkpoint that a pre-training starts from; None for random weights."""
    return None if config.init is None else resolve_checkpoint(config.init, commit=config.init_commit)


def without_lines(toml: str, keys: Iterable[str]) -> str:
    """Return TOML without the lines of some keys."""
    return "".join(line for line in toml.splitlines(keepends=True) if line.partition(" = ")[0] not in {*keys})


def _check_options(output: str | Path | None, options: FinetuneOptions | PretrainOptions) -> Path:
    """Check the arguments of a run, and return its path."""
    check_exclusive(options)
    remedy = 'Give a dict, as in {"optimizer.weight_decay": 0.1}'
    check_type(options.get("settings", {}), Mapping, "settings", remedy=remedy)
    return Path() if output is None else check_path(output, "output")


def _source(config: Recipe) -> str:
    return f"{config} and settings" if isinstance(config, (str, Path)) else SETTINGS


def _read_recipe(
    config: Recipe, config_class: type[FinetuneConfig | PretrainConfig], folder: str = ""
) -> dict[str, Any]:
    """Return the settings that a config object, a TOML file or a recipe gives, as nested dictionaries."""
    if config is None:
        return {}
    if isinstance(config, (str, Path)):
        return read_toml(find_recipe(str(config), folder))
    remedy = f"Give a cloze.{config_class.__name__}, a TOML file or a recipe"
    check_type(config, config_class, "config", remedy=remedy)
    return config.explicit()


def _task_of_run(recipe: Mapping[str, Any], run: Path, config: Recipe, *, resume: bool) -> str:
    task = recipe.get("task")
    if task is None and resume:
        task = read_toml(run_settings_file(run, verb="finetune")).get("task")
    if not isinstance(task, str):
        where = config if isinstance(config, (str, Path)) else None
        remedy = "Name one, as in cloze finetune classification; cloze tasks lists them"
        raise InputError("no task is named", where=where, remedy=remedy)
    return task


def _resume(
    layers: Layers,
    verb: Literal["pretrain", "finetune"],
    build: Callable[..., Resolved],
    to_table: Callable[[Resolved, Resolved], dict[str, Any]],
    *,
    is_fixed: Callable[[Resolved], bool] = lambda old: False,
) -> Resolved | None:
    """Return the settings of the run to resume, with the permitted changes; None to start one.

    Args:
        build: returns the settings of tables, each over those before it.
        to_table: returns settings as nested dictionaries; it leaves out what may differ from the run.
        is_fixed: whether a run may change no settings.
    """
    if not layers.resume and not num_restarts():
        return None
    if layers.resume and is_free(layers.run) and layers.table:
        return None
    explicit = layers.explicit if layers.resume else {}
    try:
        file = run_settings_file(layers.run, verb=verb)
        saved = read_toml(file)
        old: Resolved = build(saved, where=str(file))
        explicit = {} if is_fixed(old) else explicit
        kind = FinetuneConfig if verb == "finetune" else PretrainConfig
        try:
            new = to_table(build(saved, layers.table), old)
        except InputError as error:
            if isinstance(error.__cause__, ValueError):  # the new values contradict the run's
                new = merge(saved, layers.table, replaced=kind.replaced)
                changed_settings(layers.run, kind, differences(saved, new), explicit)
            raise
        changes = differences(to_table(old, old), new)
        return build(saved, changed_settings(layers.run, kind, changes, explicit))
    except InputError:
        if layers.resume:
            raise
        return None  # after a failure torchrun repeats the command


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


def _is_model(name: str) -> bool:
    """Return whether a word names a model: one of the Hub, a bundled one, or a path that exists."""
    if parse_hub_name(name) is not None:
        return True
    with suppress(InputError):
        return find_model_directory(name).exists()
    return False
