"""`cloze info DIR`: describe a directory and verify its files."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from cloze.cli import options


def run(directory: Annotated[str, options.Flag(metavar="DIR")], /, *, flags: options.Flags) -> None:
    """Describe a directory and verify its files against the manifest.

    Args:
        directory: Checkpoint, data set, vocabulary or run, or hf://org/name.
    """
    from cloze.reports.describe import describe

    description = describe(directory)
    verified = [f"{path}: {count} files, as written" for path, count in description.checked.items()]
    lines = [
        f"{description.path}: {'an' if description.kind[0] in 'aeio' else 'a'} {description.kind}",
        *_format_facts(description.facts, "  "),
        *(verified or ["no manifest to verify the files against"]),
    ]
    flags.print(description.as_dict(), "\n".join(lines))


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
