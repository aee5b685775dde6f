"""`cloze tasks formats`: list the formats of labeled data that are read."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.api.labeled import describe_formats
from cloze.cli.parser import verb
from cloze.cli.tasks import wrap_after

if TYPE_CHECKING:
    from cloze.data.reading.formats import FormatDescription


@verb(describe_formats)
def show(formats: "list[FormatDescription]") -> tuple[Any, str]:
    """Return a paragraph for each format."""
    width = max(len(entry.name) for entry in formats)
    lines = []
    for entry in formats:
        text = f"{', '.join(entry.files)}: {entry.about} [{', '.join(entry.tasks)}]"
        lines.append(wrap_after(f"{entry.name:<{width}}  ", text))
    return [asdict(entry) for entry in formats], "\n".join(lines)
