"""The settings of a run, resolved in one place, in layers.

Those of a fine-tuning, each over the layers before it: the defaults of `FinetuneConfig`, the defaults of the task, the
length that the model takes, the recipe (or TOML file), the argument `settings`, and the keywords.
Those of a pre-training: the defaults of `PretrainConfig`, the defaults of the model's size, and then the same.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from cloze.artifacts import RUN_DATA_FOLDER, is_free
from cloze.config import (
    SETTINGS,
    differences,
    find_recipe,
    flatten,
    merge,
    read_dict,
    read_toml,
    resolve,
    setting_names,
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
from cloze.options import FinetuneOptions, PretrainOptions
from cloze.pretraining.config import (
    MODEL_OVERRIDES_WITH_INIT,
    PretrainConfig,
    check_model_of_init,
    model_defaults,
)
from cloze.suggestions import list_names
from cloze.tasks.config import resolve_task, settings_of_keywords
from cloze.tasks.data import find_files, read_memory, select_splits
from cloze.tasks.registry import find_task
from cloze.tasks.task import Task
from cloze.training.optimizer import parse_duration
from cloze.training.run_directory import changed_settings, run_settings_file

_REQUIRED = {
    "model": "Give cloze-mini, a checkpoint, a run or hf://org/name",
    "train": "Give a file, the directory of a benchmark, or rows in memory",
}

_KEYS = {
    "data_fractions": "grid.data_fractions",
    "learning_rate": "optimizer.learning_rate",
    **{name: f"distillation.{name}" for name in ("teacher", "student_layers", "unlabeled")},
}
"""The settings of keywords with other names; all other settings that have a keyword share its name."""
_OF_STEPS = {
    *("epochs", "batch_size", "optimizer", "patience", "dropout", "freeze_layers", "freeze_embeddings"),
    *("budget_seconds", "evaluations_per_epoch", "seeds", "distillation.teacher"),
    *("grid.batch_sizes", "grid.learning_rates", "grid.epochs"),
}
"""Settings that change nothing in a logistic head, which has the same weights for every seed."""


class Layers(NamedTuple):
    """The settings that the arguments of a verb give to a run, as nested dictionaries."""

    task: str | None
    """None for a pre-training."""
    explicit: dict[str, Any]
    """What `settings` and keywords give, which may change a run that is resumed."""
    table: dict[str, Any]
    """The same, over the recipe, a task object and the paper's grid."""
    where: str
    """Where they are from, for messages."""
    options: FinetuneOptions | PretrainOptions
    rows: dict[str, Any] = {}  # noqa: RUF012 (nobody writes it)
    """Data in memory, by train and dev."""

    def build(
        self, *tables: Mapping[str, Any], where: str = SETTINGS
    ) -> tuple[Task | None, FinetuneConfig | PretrainConfig]:
        """Return the task and the config of tables, each over those before it."""
        if self.task is None:
            return None, resolve(PretrainConfig, *tables, where=where)
        return resolve_task(FinetuneConfig, self.task, *tables, where=where)


def finetuning_layers(task: str | Task | None, output: str | Path | None, options: FinetuneOptions) -> Layers:
    """Return the settings that the arguments of `finetune` give; left-out options are not given."""
    run, config = Path(output or ""), options.get("config")
    recipe, source = _read_recipe(config, "finetuning")
    name = task.name if isinstance(task, Task) else task or recipe.get("task")
    if name is None and options.get("resume"):
        name = read_toml(run_settings_file(run, verb="finetune")).get("task")
    if not isinstance(name, str):
        remedy = "Name one, as in cloze finetune classification; cloze tasks lists them"
        raise InputError("no task is named", where=config, remedy=remedy)
    registered = find_task(name)
    data = dict(zip(("train", "dev"), select_splits(options.get("train"), options.get("dev")), strict=True))
    rows = {key: value for key, value in data.items() if not isinstance(value, (str, Path, type(None)))}
    arguments = dict[str, Any](options)
    keywords = {key: arguments[key] for key in setting_names(FinetuneConfig) if key in arguments}
    keywords |= {key: arguments.get(keyword) for keyword, key in _KEYS.items()}
    if keywords.get("model") is None and arguments.get("student_layers") is not None:
        keywords["model"] = arguments.get("teacher")
    keywords |= {**data, **{key: run / RUN_DATA_FOLDER / f"{key}.jsonl" for key in rows}}
    keywords[name] = settings_of_keywords(registered, options) or None
    of_object = task.settings if isinstance(task, Task) else {}
    of_object = {key: value for key, value in of_object.items() if value != registered.settings[key]}
    grid = to_dict(PAPER_GRID) if options.get("grid") else None
    explicit = merge(options.get("settings", {}), keywords)
    values = dict(flatten(explicit))
    for key, (grid_key,) in FinetuneConfig.replaced.items():
        if key in values and values.get(grid_key):
            what, remedy = f"cannot be combined with `{grid_key}`", "Leave out one of them"
            raise InputError(what, where=key.rpartition(".")[2], remedy=remedy)
    of_task = {name: of_object or None, "grid": grid}
    table = merge(recipe, of_task, explicit, replaced=FinetuneConfig.replaced)
    return Layers(name, explicit, table, source, options, rows)


def resolve_finetuning(
    layers: Layers, folder: Path | None = None, *, draft: bool = False
) -> tuple[Task, FinetuneConfig]:
    """Return the task and the config of a new run.

    Args:
        folder: where data in memory are written, for a run that reads them.
        draft: do without required settings, and download nothing for the length that a model takes.
    """
    missing = sorted(_REQUIRED.keys() - layers.table.keys())
    if missing and not draft:
        raise InputError(MISSING, where=missing[0], remedy=_REQUIRED[missing[0]])
    table = layers.table | dict.fromkeys(missing, "")
    length: dict[str, int] = {}
    if "max_seq_length" not in table:
        encoder = _config_of_model(table["model"], table.get("model_commit"), downloads=not draft)
        usual = read_dict(overrides=find_task(str(layers.task)).defaults).get(
            "max_seq_length", MAX_SEQ_LENGTH
        )
        if encoder is not None and 8 <= encoder.max_position_embeddings < usual:
            length["max_seq_length"] = encoder.max_position_embeddings
            LOG.info("max_seq_length %d: %s takes no more tokens", *length.values(), table["model"])
    try:
        task, config = resolve_task(FinetuneConfig, layers.task, length, table, where=layers.where)
        if config.head == "logistic":
            _refuse_steps(layers, config)
    except InputError as error:
        name = str(error.where).rpartition(".")[2]
        error.where = name if layers.options.get(name) is not None else error.where
        raise
    if folder is not None:
        for name, data in layers.rows.items():
            task, rows = read_memory(task, data, name)
            file: dict[str, Any] = {name: str(rows.write(folder))}
            config = replace(config, **file)
    return task, config


def _refuse_steps(layers: Layers, config: FinetuneConfig) -> None:
    """Refuse settings of steps, which a logistic head would ignore; a `run.toml` has their defaults."""
    explicit, draft = dict(flatten(layers.explicit)), dict.fromkeys(_REQUIRED, "")
    defaults = dict(flatten(to_dict(resolve_task(FinetuneConfig, layers.task, draft)[1])))
    for key, value in flatten(to_dict(config)):
        section = key.partition(".")[0]
        if {key, section} & _OF_STEPS and (key in explicit or value != defaults[key]):
            what = "is not used by a logistic head, which is fitted without steps"
            keyword = "grid" if section == "grid" else key.rpartition(".")[2]
            if layers.options.get(keyword) or key in explicit:
                where = keyword if layers.options.get(keyword) else key
            else:
                where, what = layers.where, f"{key} {what}"
            raise InputError(what, where=where, remedy="Leave it out")


def pretraining_layers(output: str | Path | None, options: PretrainOptions) -> Layers:
    """Return the settings that the arguments of `pretrain` give; left-out options are not given."""
    run, config = Path(output or ""), options.get("config")
    data, model, budget = options.get("data"), options.get("model"), options.get("budget")
    if isinstance(model, str) and model not in all_sizes() and _is_model(model):
        remedy = f"Continue from it with `init={model}`, or choose a size: {list_names(SIZES)}"
        raise InputError(f"{model!r} is a checkpoint, not a size", where="model", remedy=remedy)
    keywords = {
        **{name: options.get(name) for name in ("steps", "init", "seed", "device", "precision")},
        "data": data if options.get("texts") is None else f"{run}-data",
        "model.size" if isinstance(model, str) else "model": model,
        "budget_seconds": None if budget is None else parse_duration(str(budget)),
    }
    recipe, source = _read_recipe(config)
    explicit = merge(options.get("settings", {}), keywords)
    if config is None and "init" in explicit and (is_free(run) or not options.get("resume")):
        LOG.info("settings: the recipe adapt, for init; config chooses others")
        recipe, _ = _read_recipe("adapt")
    check_model_of_init(recipe, explicit)
    table = merge(recipe, explicit, replaced=PretrainConfig.replaced)
    return Layers(None, explicit, table, source, options)


def resolve_pretraining(layers: Layers, *, draft: bool = False) -> PretrainConfig:
    """Return the config of a new run; `draft` is as in `resolve_finetuning`."""
    table = layers.table
    if draft:
        table = {"data": "", **({} if "budget_seconds" in table else {"steps": 1}), **table}
    if "data" not in table:
        raise InputError(MISSING, where="data", remedy="Give a data set, as cloze corpus writes it")
    initial = _config_of_model(table.get("init"), table.get("init_commit"), downloads=not draft)
    return resolve(PretrainConfig, model_defaults(table, initial), table, where=layers.where)


def resume_run(layers: Layers, run: Path) -> tuple[Any, Any] | None:
    """Return the task and the config of the run to resume, with the permitted changes; None to start one.

    Without the option `resume` torchrun has started the command again.
    """
    resume, table = layers.options.get("resume", False), layers.table
    if resume and is_free(run) and table:
        return None
    kind = PretrainConfig if layers.task is None else FinetuneConfig
    try:
        file = run_settings_file(run, verb="pretrain" if layers.task is None else "finetune")
        saved = read_toml(file)
        old = layers.build(saved, where=str(file))
        has_trials = isinstance(old[1], FinetuneConfig) and old[1].has_trials  # which may change nothing
        explicit = layers.explicit if resume and not has_trials else {}
        try:
            new = _comparable(layers.build(saved, table), old[1], table)
        except InputError as error:
            if isinstance(error.__cause__, ValueError):  # the new values contradict the run's
                new = merge(saved, table, replaced=kind.replaced)
                changed_settings(run, kind, differences(saved, new), explicit)
            raise
        changes = differences(_comparable(old, old[1], table), new)
        resumed: tuple[Any, Any] = layers.build(saved, changed_settings(run, kind, changes, explicit))
    except InputError:
        if resume:
            raise
        return None
    for name, data in layers.rows.items():
        path, (_, rows) = getattr(resumed[1], name), read_memory(resumed[0], data, name)
        if path is None or not Path(path).is_file() or file_sha256(path) != rows.sha256:
            remedy = "Leave them out, or start a new run in another output"
            raise InputError("are not the data of the run to resume", where=name, remedy=remedy)
    if isinstance(resumed[1], FinetuneConfig) and resumed[1].head == "logistic":
        _refuse_steps(layers, resumed[1])
    return resumed


def _comparable(
    resolved: tuple[Task | None, Any], old: FinetuneConfig | PretrainConfig, table: Mapping[str, Any]
) -> dict[str, Any]:
    """Return settings as nested dictionaries, without what may differ from the old ones of the run."""
    task, config = resolved
    settings = to_dict(config)
    if isinstance(old, PretrainConfig):
        if old.init is not None:  # the checkpoint has all else of the model
            may_differ = {name.partition(".")[2] for name in MODEL_OVERRIDES_WITH_INIT}
            settings["model"] = {
                name: settings["model"][name] for name in settings["model"].keys() & may_differ
            }
        return settings
    assert task is not None
    if (config.train, config.dev) != (old.train, old.dev):  # maybe a directory of them
        settings["train"], settings["dev"] = find_files(task, config.train, table.get("dev", old.dev))
    return {**settings, task.name: task.to_dict()}


def find_initial_checkpoint(config: PretrainConfig) -> Path | None:
    """Return the directory of the checkpoint that a pre-training starts from; None for random weights."""
    return None if config.init is None else resolve_checkpoint(config.init, commit=config.init_commit)


def without_lines(toml: str, keys: Iterable[str]) -> str:
    """Return TOML without the lines of some keys."""
    return "".join(line for line in toml.splitlines(keepends=True) if line.partition(" = ")[0] not in {*keys})


def _read_recipe(config: str | Path | None, folder: str = "") -> tuple[dict[str, Any], str]:
    """Return the settings that a TOML file or a recipe gives, and their source for messages."""
    if config is None:
        return {}, SETTINGS
    return read_toml(find_recipe(str(config), folder)), f"{config} and settings"


def _config_of_model(name: object, commit: str | None, *, downloads: bool) -> EncoderConfig | None:
    """Return the config of a model; None of one that cannot be read, which is reported when the run starts."""
    if not isinstance(name, str) or (not downloads and parse_hub_name(name) is not None):
        return None
    try:
        return load_config(resolve_checkpoint(name, commit=commit))
    except (InputError, RunError, OSError):
        return None


def _is_model(name: str) -> bool:
    """Return whether a word names a model: one of the Hub, a bundled one, or a path that exists."""
    if parse_hub_name(name) is not None:
        return True
    with suppress(InputError):
        return find_model_directory(name).exists()
    return False
