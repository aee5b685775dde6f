"""`cloze info DIR`: describe a directory and verify its files."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cloze.api.tools import info
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.reports.describe import Description


@verb(info)
def show(description: "Description") -> tuple[dict[str, Any], str]:
    """Return what a directory is, and which files were verified."""
    verified = [f"{path}: {count} files, as written" for path, count in description.checked.items()]
    lines = [
        f"{description.path}: {'an' if description.kind[0] in 'aeio' else 'a'} {description.kind}",
        *_format_facts(description.facts, "  "),
        *(verified or ["no manifest to verify the files against"]),
    ]
    return description.as_dict(), "\n".join(lines)


def _format_facts(facts: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}"
            yield from _format_facts(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield from _format_facts({f"{name} {n}": item for n, item in enumerate(value, 1)}, indent)
        else:
            yield f"{indent}{name:<{30 - len(indent)}} {_format_value(value)}"


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_format_value, value)) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
