"""The settings of a task, and task.toml, which keeps them in a checkpoint.

In TOML the name of the task and the settings of a run come first, those of the task in a table of its name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from cloze import config as configuration
from cloze.arguments import split_names
from cloze.errors import InputError
from cloze.file_names import TASK_FILE
from cloze.tasks.registry import find_task
from cloze.tasks.task import KEYWORDS, Task
from cloze.tasks.task_batch import Module
from cloze.tokenization.tokenizer import Tokenizer

Config = TypeVar("Config")


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSettings:
    """Settings of fine-tuning that prediction needs: `task.toml` in a checkpoint has them and those of the task."""

    max_seq_length: int


def load_task(checkpoint: Path) -> tuple[Task, TaskSettings] | None:
    """Return the task of a fine-tuned checkpoint; None for other checkpoints."""
    path = checkpoint / TASK_FILE
    if not path.is_file():
        return None
    return resolve_task(TaskSettings, None, configuration.read_toml(path), where=str(path))


def load_finetuned_task(checkpoint: Path) -> Task:
    """Return the task of a checkpoint that a run of fine-tuning has written."""
    stored = load_task(checkpoint)
    assert stored is not None
    return stored[0]


def with_settings(
    task: Task | str,
    settings: Mapping[str, Any],
    *,
    is_trained: bool = False,
    **by_name: str | bool | Sequence[str] | None,
) -> Task:
    """Return a task with other settings: by dotted key, and over these by name; None and False are not given.

    The weights of a trained model depend on some, which cannot change.
    """
    task = task if isinstance(task, Task) else find_task(task)
    table = configuration.merge(settings)
    changes = table.pop(task.name, {})
    if table or not isinstance(changes, Mapping):
        what = f"{', '.join(table) or task.name} is not a setting of the task"
        raise InputError(what, where="settings", remedy=f"Write {task.name}.KEY=VALUE")
    changes = {**changes, **settings_of_keywords(task, by_name)}
    by_label = {
        key: value for key, value in task.settings.items() if key in changes and isinstance(value, dict)
    }
    changes = configuration.merge(by_label, changes)
    if is_trained and (fixed := [name for name in changes if name in task.answer.weight_settings]):
        what = f"{task.name}.{fixed[0]} cannot change after training"
        raise InputError(what, where="settings", remedy="Leave it out, or fine-tune another model")
    return task.with_settings(changes)


def settings_of_keywords(task: Task, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a task among keywords, of which None and False are not given."""
    settings = {name: keywords[name] for name in KEYWORDS if keywords.get(name) not in (None, False)}
    if unknown := settings.keys() - task.settings.keys():
        what = f"the task {task.name} has no such setting"
        raise InputError(what, where=min(unknown), remedy="Leave it out")
    if "column_names" in settings:
        settings["column_names"] = split_names(settings["column_names"])
    return settings


def to_toml(task: Task, config: Any) -> str:
    """Return a task and settings as TOML."""
    table = {"task": task.name, **configuration.to_dict(config), task.name: task.to_dict()}
    return configuration.to_toml(table)


def save_finetuned(
    directory: Path, model: Module, tokenizer: Tokenizer, task: Task, *, max_seq_length: int
) -> None:
    """Write config, weights, tokenizer and task into the directory of a checkpoint."""
    from cloze.models.checkpoint import save_model

    save_model(
        directory,
        model,
        tokenizer,
        labels=task.answer.class_names,
        problem_type=task.answer.problem_type,
        # without which sentence-transformers takes the sigmoid of one output
        activation=task.settings.get("activation") if len(task.answer.class_names) == 1 else None,
        max_length=max_seq_length,
    )
    task.answer.write_checkpoint_files(directory, model, max_seq_length=max_seq_length)
    # other files may be written otherwise
    defaults: dict[str, Any] = {
        part.name: part.default for part in fields(task.reader) if part.name in task.reader.file_settings
    }
    kept = replace(task, reader=replace(task.reader, **defaults))
    settings = to_toml(kept, TaskSettings(max_seq_length=max_seq_length))
    (directory / TASK_FILE).write_text(settings, encoding="utf-8")


def resolve_task(
    config: type[Config], task: str | None, *layers: Mapping[str, Any], where: str = configuration.SETTINGS
) -> tuple[Task, Config]:
    """Return a task and the settings beside its own, as `resolve` does, over the defaults of the task."""
    table = configuration.merge(*layers, replaced=getattr(config, "replaced", {}))
    name = table.pop("task", task)
    if name is None or task not in (None, name):
        what = "no task is named" if name is None else f"is for the task {name!r}, not {task!r}"
        raise InputError(what, where=where)
    named = find_task(str(name), where=where)
    settings = table.pop(named.name, {})
    if not isinstance(settings, Mapping):
        raise InputError(f"{name} must be a table, not {settings!r}", where=where)
    defaults = configuration.read_dict(overrides=named.defaults)
    table = configuration.merge({key: defaults[key] for key in defaults if hasattr(config, key)}, table)
    others = [f"{name}.{key}" for key in named.settings]
    named = named.with_settings(settings, where=where)
    return named, configuration.from_dict(config, table, where=where, others=others)
