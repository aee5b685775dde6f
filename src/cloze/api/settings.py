"""Settings from keyword arguments, recipes and config objects."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from cloze import config as configuration
from cloze.arguments import check_type
from cloze.config import find_recipe
from cloze.errors import InputError
from cloze.pretraining.config import PretrainConfig, overlay_settings, with_size_defaults
from cloze.tasks.config import FinetuneConfig, finetuning_from_dict
from cloze.tasks.registry import find_task
from cloze.tasks.task import AnyTask, Task
from cloze.training.budget import parse_duration


def read_settings(config: object, kind: type, folder: str = "") -> dict[str, Any]:
    """Return the settings that a config object, a TOML file or a recipe gives, as a dictionary.

    Args:
        config: an object of `kind`, a path, or the name of a recipe; None has no settings.
        kind: the class of its settings.
        folder: folder of the recipes.

    Raises:
        InputError: there is no such recipe, or `config` is something else.
    """
    if config is None:
        return {}
    if isinstance(config, (str, Path)):
        return configuration.read_dict(find_recipe(str(config), folder, where="config"))
    check_type(config, kind, "config", remedy=f"Give a cloze.{kind.__name__}, a TOML file or a recipe")
    assert isinstance(config, configuration.Settings)
    return config.explicit()


def finetuning_settings(
    task: str | AnyTask, config: FinetuneConfig | str | Path | None, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of a run with those of its task under the task's name: all, and the keyword arguments alone.

    Args:
        task: a task or its name.
        config: a config object, a TOML file or a recipe.
        settings: keyword arguments: settings of the run and of the task, `learning_rate` for
            `optimizer.learning_rate`.
    """
    task_class = type(task) if isinstance(task, Task) else find_task(task)
    of_task = {field.name for field in fields(task_class)} - {field.name for field in fields(FinetuneConfig)}
    renamed = {"learning_rate": "optimizer.learning_rate"} | {
        name: f"{task_class.name}.{name}" for name in of_task
    }
    keywords = configuration.nest({renamed.get(name, name): value for name, value in settings.items()})
    table = read_settings(config, FinetuneConfig, "finetuning")
    if isinstance(task, Task):
        table[task.name] = configuration.to_dict(task)
    configuration.merge_dicts(table, keywords)
    return table, keywords


def resolve_finetuning(task: str | AnyTask, table: Mapping[str, Any]) -> tuple[AnyTask, FinetuneConfig]:
    """Return the task and the config of a run.

    Raises:
        InputError: an unknown or missing setting, a wrong type, or a value out of range.
    """
    for name, remedy in (
        ("model", 'Give one, as in model="cloze-mini"'),
        ("train", "Give rows or the path of a file"),
    ):
        if name not in table:
            raise InputError("is missing", where=name, remedy=remedy)
    return finetuning_from_dict(task if isinstance(task, str) else task.name, dict(table), where="settings")


def pretraining_settings(
    config: PretrainConfig | str | Path | None, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of a config object, TOML file or recipe with keyword arguments over them, and these alone."""
    settings = dict(settings)
    if isinstance(model := settings.get("model"), str):
        settings["model"] = {"size": model}
    if (budget := settings.pop("budget", None)) is not None:
        settings["budget_seconds"] = parse_duration(str(budget))
    keywords = configuration.nest(settings)
    return overlay_settings(read_settings(config, PretrainConfig), keywords), keywords


def resolve_pretraining(
    config: PretrainConfig | str | Path | None, settings: Mapping[str, Any]
) -> PretrainConfig:
    """Return the config of a run; the recipe adapt is the default for a checkpoint to start from.

    Raises:
        InputError: as for `resolve_finetuning`.
    """
    if config is None and settings.get("init") is not None:
        config = "adapt"
    table, _ = pretraining_settings(config, settings)
    if "data" not in table:
        raise InputError("is missing", where="data", remedy="Give a data set, or texts in memory as texts")
    return configuration.from_dict(PretrainConfig, with_size_defaults(table), where="settings")


def check_resume(*, resume: bool, overwrite: bool) -> None:
    """Refuse to resume a run and to overwrite it.

    Raises:
        InputError: both are asked for.
    """
    if resume and overwrite:
        raise InputError("excludes resume", where="overwrite", remedy="Leave out one of them")
