"""Descriptions of tasks: data, metrics and settings, from their classes and docstrings."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from cloze.tasks.task import Task


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSetting:
    """A setting of a task."""

    default: Any
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskDescription:
    """What a task reads and measures, and its settings."""

    task: str
    summary: str
    data: str
    """The files it reads, in a few words."""
    train: tuple[str, ...]
    """Possible names of the training file in a directory of data."""
    dev: tuple[str, ...]
    """Possible names of the dev file."""
    metrics: tuple[str, ...]
    """The first selects the best epoch and run."""
    source: str
    settings: Mapping[str, TaskSetting]
    """By dotted key, as in "classification.text_column"."""
    defaults: tuple[str, ...]
    """Settings of a run that differ from GLUE's."""


def describe_task(task: Task) -> TaskDescription:
    """Return what a task reads and measures, and its settings with their defaults and docstrings."""
    texts: dict[str, str] = {}
    for base in (*reversed(type(task.reader).__mro__), *reversed(type(task.answer).__mro__)):
        if dataclasses.is_dataclass(base):
            texts |= _field_docstrings(base)
    return TaskDescription(
        task=task.name,
        summary=task.about,
        data=task.data_format,
        train=task.train_files,
        dev=task.dev_files,
        metrics=task.metrics,
        source=task.source,
        settings={
            f"{task.name}.{name}": TaskSetting(default=value, description=texts.get(name, ""))
            for name, value in task.settings.items()
        },
        defaults=task.defaults,
    )


@cache
def _field_docstrings(kind: type) -> Mapping[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
