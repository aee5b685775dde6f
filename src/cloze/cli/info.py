"""`cloze info DIR`: what a directory is, and whether its files are as they were written."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro

from cloze.cli.common import Flags


def run(
    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")], /, *, flags: Flags
) -> None:
    """Say what a checkpoint, data set, vocabulary or run is, and check its manifest.

    Args:
        directory: what to look at.
        flags: flags of every verb.
    """
    from cloze.evidence.describe import describe

    found = describe(directory)
    if found.checked:
        verdicts = [f"{path}: {count} files, each as it was written" for path, count in found.checked.items()]
    else:
        verdicts = ["no manifest: there is nothing to check its files against"]
    text = "\n".join([f"{found.path}: a {found.kind}", *_lines(found.facts, "  "), *verdicts])
    flags.print(found.as_dict(), text)


def _lines(facts: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}"
            yield from _lines(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield from _lines({f"{name} {number}": item for number, item in enumerate(value, 1)}, indent)
        else:
            yield f"{indent}{name:<{30 - len(indent)}} {_text(value)}"


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
