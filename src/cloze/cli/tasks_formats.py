"""`cloze tasks formats`: list the formats of labeled data that are read."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.api.labeled import describe_formats
from cloze.cli.parser import verb
from cloze.cli.tasks import wrap_after

if TYPE_CHECKING:
    from cloze.tasks.data_formats import DataFormat


@verb(describe_formats)
def show(formats: "list[DataFormat]") -> tuple[Any, str]:
    """Return a paragraph for each format."""
    width = max(len(entry.name) for entry in formats)
    lines = []
    for entry in formats:
        named = f"; --format {entry.format}" if entry.format else ""
        text = f"{', '.join(entry.files)}: {entry.content}{named} [{', '.join(entry.tasks)}]"
        lines.append(wrap_after(f"{entry.name:<{width}}  ", text))
    return [asdict(entry) for entry in formats], "\n".join(lines)
