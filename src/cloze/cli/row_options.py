"""Flags that say how the rows of a task's data are read, and the task with its settings."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cloze.cli import options
from cloze.errors import InputError

if TYPE_CHECKING:
    from cloze.tasks.task import AnyTask

TextColumn: TypeAlias = Annotated[
    str | None,
    options.Flag(metavar="NAME", help="Column with the text (default: text, or as in training)."),
]
LabelColumn: TypeAlias = Annotated[
    str | None,
    options.Flag(
        metavar="NAME",
        help="Column with the label (default: label, or as in training).",
    ),
]
MissingLabels: TypeAlias = Annotated[
    Literal["refuse", "drop"] | None,
    options.Flag(
        help="Refuse rows without a label (default), or drop and count them.",
    ),
]
SkipBadRows: TypeAlias = Annotated[
    bool, options.Flag(help="Leave out rows that cannot be read, and count them.")
]
TaggingFormat: TypeAlias = Annotated[
    Literal["columns", "conllu", "json", "table", "text"] | None,
    options.Flag(
        help="For tagging, how files are written, if name and lines do not say so.",
    ),
]


@dataclass(frozen=True)
class RowOptions:
    """How rows with labels are read."""

    text_column: TextColumn = None
    label_column: LabelColumn = None
    missing_labels: MissingLabels = None
    skip_bad_rows: SkipBadRows = False
    format: TaggingFormat = None


RowFlags: TypeAlias = Annotated[RowOptions, options.Flag(name="")]
AS_THE_TASK_SAYS = RowOptions()


def configure(
    task: "AnyTask",
    settings: Sequence[str],
    *,
    is_trained: bool = False,
    **by_flag: str | bool | None,
) -> "AnyTask":
    """Return a task with the settings of `--set` and of other flags.

    Args:
        task: the task.
        settings: values of `--set`.
        is_trained: whether it is the task of a model.
        by_flag: settings of the task by name; None or False where their flag is not given.

    Raises:
        InputError: as for `with_task_settings`, or the task has no setting for a flag.
    """
    from cloze.config import nest
    from cloze.tasks.config import with_settings, with_task_settings

    table = nest(task_settings(task.name, **by_flag)).get(task.name, {})
    configured = with_task_settings(task, settings, is_trained=is_trained)
    return with_settings(configured, table, is_trained=is_trained)


def task_settings(task: str, **by_flag: str | bool | None) -> dict[str, str | bool | None]:
    """Return the settings of a task that flags give, by key; None for a flag that is not given.

    Raises:
        InputError: the task has no such setting.
    """
    from cloze.tasks.registry import find_task

    for name in (name for name, value in by_flag.items() if value):
        if name not in {field.name for field in fields(find_task(task))}:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"the task {task} has no such setting", where=flag, remedy="Leave it out")
    return {f"{task}.{name}": value or None for name, value in by_flag.items()}
