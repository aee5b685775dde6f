"""`cloze tasks`: list the tasks, or describe one."""

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.api.labeled import describe_tasks
from cloze.cli.parser import verb
from cloze.tables import terminal_width

if TYPE_CHECKING:
    from cloze.tasks.description import TaskDescription


@verb(describe_tasks)
def show(descriptions: "list[TaskDescription]", *, task: str | None) -> tuple[Any, str]:
    """Return a line for each task, or all about one."""
    if task is not None:
        [description] = descriptions
        return asdict(description), _format_description(description)
    rows = [
        {"task": d.task, "metric": d.metrics[0], "data": d.data, "source": d.source} for d in descriptions
    ]
    widths = {key: max(len(row[key]) for row in rows) for key in ("task", "metric")}
    lines = [
        wrap_after(
            f"{row['task']:<{widths['task']}}  {row['metric']:<{widths['metric']}}  ",
            f"{row['data']} [{row['source']}]",
        )
        for row in rows
    ]
    return rows, "\n".join(lines)


def _format_description(description: "TaskDescription") -> str:
    name = description.task
    lines = [wrap_after(f"{name}: ", description.summary)]
    rows = {
        "data": description.data,
        "files": f"{' or '.join(description.train)}, {' or '.join(description.dev)} in a directory",
        "metrics": f"{', '.join(description.metrics)}; the first decides",
        "defaults": ", ".join(description.defaults),
        "source": description.source,
    }
    lines += [wrap_after(f"  {label:<10}", text) for label, text in rows.items() if text]
    lines.append(wrap_after("settings, ", "as in --set " + next(iter(description.settings)) + "=VALUE"))
    for key, setting in description.settings.items():
        value = setting.default if isinstance(setting.default, str) else json.dumps(setting.default)
        default = "" if setting.default in (None, "", ()) else f" (default: {value})"
        lines += [f"  {key}", *_indented(f"{setting.description}{default}")]
    return "\n".join([*lines, wrap_after("train:  ", f"cloze finetune {name} -m cloze-mini -d DATA -o RUN")])


def _indented(text: str) -> Iterator[str]:
    if text.strip():
        yield wrap_after("      ", text.strip())


def wrap_after(start: str, text: str) -> str:
    """Return text after a start, with a hanging indent if the terminal is narrower."""
    width = terminal_width()
    if width is None:
        return start + text
    indent = " " * min(len(start), width // 2)
    return textwrap.fill(text, max(width, 40), initial_indent=start, subsequent_indent=indent)
