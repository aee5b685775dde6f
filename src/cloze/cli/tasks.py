"""`cloze tasks`: list the tasks, or describe one."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

from cloze.cli import options
from cloze.tables import terminal_width

if TYPE_CHECKING:
    from cloze.tasks.task import AnyTask


def run(
    task: Annotated[str | None, options.Flag(metavar="[TASK]")] = None,
    /,
    *,
    flags: options.Flags,
) -> None:
    """List the tasks with their metrics, data formats and sources, or describe one.

    Args:
        task: Name of the task to describe.
    """
    from cloze.tasks.registry import find_task, tasks

    if task is not None:
        description = describe(find_task(task))
        flags.print(description, _format_description(description))
        return
    rows = [
        {"task": name, "metric": kind.main_metric, "data": kind.data_format, "source": kind.source}
        for name, kind in sorted(tasks().items())
    ]
    widths = {key: max(len(row[key]) for row in rows) for key in ("task", "metric")}
    lines = (
        (
            f"{row['task']:<{widths['task']}}  {row['metric']:<{widths['metric']}}  ",
            row["data"],
            row["source"],
        )
        for row in rows
    )
    flags.print(rows, "\n".join(_wrap(start, f"{data} [{source}]") for start, data, source in lines))


def describe(task: "type[AnyTask]") -> dict[str, Any]:
    """Return what a task reads and measures, and its settings with their defaults and descriptions."""
    texts: dict[str, str] = {}
    for base in reversed(task.__mro__):
        if dataclasses.is_dataclass(base):
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            texts |= _field_docstrings(definition)
    default = task()
    return {
        "task": task.name,
        "summary": (inspect.getdoc(task) or "").partition("\n")[0],
        "data": task.data_format,
        "train": list(task.train_files),
        "dev": list(task.dev_files),
        "metrics": [task.main_metric, *(name for name in task.metrics if name != task.main_metric)],
        "source": task.source,
        "settings": {
            f"{task.name}.{field.name}": {
                "default": getattr(default, field.name),
                "description": texts.get(field.name, ""),
            }
            for field in dataclasses.fields(task)
        },
        "defaults": list(task.defaults),
    }


def _field_docstrings(definition: ast.stmt) -> dict[str, str]:
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


def _format_description(description: dict[str, Any]) -> str:
    name = description["task"]
    lines = [_wrap(f"{name}: ", description["summary"])]
    rows = {
        "data": description["data"],
        "files": f"{' or '.join(description['train'])}, {' or '.join(description['dev'])} in a directory",
        "metrics": f"{', '.join(description['metrics'])}; the first decides",
        "defaults": ", ".join(description["defaults"]),
        "source": description["source"],
    }
    lines += [_wrap(f"  {label:<10}", text) for label, text in rows.items() if text]
    lines.append(_wrap("settings, ", "as in --set " + next(iter(description["settings"])) + "=VALUE"))
    for key, setting in description["settings"].items():
        default = "" if setting["default"] in (None, "", ()) else f" (default: {setting['default']})"
        lines += [f"  {key}", *_indented(f"{setting['description']}{default}")]
    return "\n".join([*lines, _wrap("train:  ", f"cloze finetune {name} -m cloze-mini -d DATA -o RUN")])


def _indented(text: str) -> Iterator[str]:
    if text.strip():
        yield _wrap("      ", text.strip())


def _wrap(start: str, text: str) -> str:
    """Return text after a start, with a hanging indent if the terminal is narrower."""
    width = terminal_width()
    if width is None:
        return start + text
    indent = " " * min(len(start), width // 2)
    return textwrap.fill(text, max(width, 40), initial_indent=start, subsequent_indent=indent)
