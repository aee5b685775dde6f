"""Tasks by name: each is a file of this package; no list is kept."""

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import cloze.tasks
from cloze.errors import InputError
from cloze.tasks.task import AnyTask

TaskClass = TypeVar("TaskClass", bound=type[AnyTask])

_TASKS: dict[str, type[AnyTask]] = {}


def register_task(name: str) -> Callable[[TaskClass], TaskClass]:
    """Give a task the name it has on the command line and in settings.

    Raises:
        ValueError: the name is taken.
    """

    def register(task: TaskClass) -> TaskClass:
        if name in _TASKS:
            raise ValueError(f"task {name!r} is registered twice: {_TASKS[name]} and {task}")
        task.name = name
        _TASKS[name] = task
        return task

    return register


def tasks() -> Mapping[str, type[AnyTask]]:
    """Return every task there is; imports the modules of this package to find them."""
    for module in pkgutil.iter_modules(cloze.tasks.__path__):
        importlib.import_module(f"{cloze.tasks.__name__}.{module.name}")
    return MappingProxyType(_TASKS)


def find_task(name: str, *, where: object = None) -> type[AnyTask]:
    """Return the task called `name`.

    Raises:
        InputError: there is none.
    """
    known = tasks()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        remedy = f"Did you mean {near[0]}" if near else f"The tasks are {', '.join(sorted(known))}"
        raise InputError(f"no task {name!r}", where=where, remedy=remedy)
    return known[name]
