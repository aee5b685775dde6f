"""The verbs about labeled data: evaluate and predict, score predictions, baselines, GLUE's server, tasks."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # not needed for --help
    from cloze.tasks.description import TaskDescription


def describe_tasks(task: str | None = None) -> "list[TaskDescription]":
    """Describe the tasks by their data, metrics, sources and settings, or one of them.

    Args:
        task: name of the task to describe (default: all of them).

    Raises:
        InputError: there is no such task.
    """
    from cloze.tasks.description import describe_task
    from cloze.tasks.registry import find_task, tasks

    kinds = [kind for _, kind in sorted(tasks().items())] if task is None else [find_task(task)]
    return [describe_task(kind) for kind in kinds]
