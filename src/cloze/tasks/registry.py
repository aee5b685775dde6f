"""Tasks by name. Every module of `cloze.tasks` is searched, so a new task needs no entry in a list."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar, dataclass_transform

import cloze.tasks
from cloze.arguments import check_text
from cloze.errors import InputError
from cloze.suggestions import did_you_mean, suggests_keywords
from cloze.tasks.task import AnyTask

TaskClass = TypeVar("TaskClass", bound=type[AnyTask])

TASKS: dict[str, type[AnyTask]] = {}
"""Registered tasks by name; only those whose module is imported, see `tasks`."""
_SYNONYMS = {
    "ner": "tagging",
    "nli": "classification",
    "pos": "tagging",
    "qa": "squad_v2",
    "question-answering": "squad_v2",
    "sentiment": "classification",
    "similarity": "scored-pairs",
    "squad": "squad_v1",
    "sts": "scored-pairs",
    "token-classification": "tagging",
}
"""The tasks that have other names elsewhere."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def register_task(name: str) -> Callable[[TaskClass], TaskClass]:
    """Make a class a task of this name: a frozen dataclass whose fields are its settings.

    Raises:
        ValueError: the name is taken.
    """

    def register(task: TaskClass) -> TaskClass:
        if name in TASKS:
            raise ValueError(f"task {name!r} is registered twice: {TASKS[name]} and {task}")
        task.name = name
        TASKS[name] = task
        dataclass(frozen=True, kw_only=True)(task)
        task.__init__ = suggests_keywords()(task.__init__)  # type: ignore[method-assign]
        return task

    return register


def tasks() -> Mapping[str, type[AnyTask]]:
    """Import every module of `cloze.tasks` and return all tasks by name."""
    for module in pkgutil.walk_packages(cloze.tasks.__path__, f"{cloze.tasks.__name__}."):
        importlib.import_module(module.name)
    return MappingProxyType(TASKS)


def find_task(name: str, *, where: object = None, others: Iterable[str] = ()) -> type[AnyTask]:
    """Return the task called `name`.

    Args:
        others: further names that the error may suggest.

    Raises:
        InputError: there is no such task.
    """
    name, known = check_text(name, "task"), tasks()
    if name not in known:
        remedy = did_you_mean(name, sorted({*known, *others}), synonyms=_SYNONYMS, full_list="cloze tasks")
        raise InputError(f"no task {name!r}", where=where, remedy=remedy)
    return known[name]
