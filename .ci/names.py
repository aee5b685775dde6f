"""Refuse names that this project once invented where the field has a term; `make lint` runs it on all Python files."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

INVENTED = re.compile(
    r"Material|work_of|Work|merit|World|join_world|by_first|Replica|_?Door|Stretch|seal|Cursor|Position"
    r"|not_as_begun|begun_from|alone_at|is_solved|two_way|given|found|own|each|there"
    r"|_?(?:MOST|LEAST)_\w+|_?(?:most|least)_(?!cut|frequent|repeated|similar)\w+"
    r"|(?:\w+_)?pieces?(?:_\w+)?|\w*(?<!Word)Pieces?(?:[A-Z]\w*)?"
)


def defined_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each function, class, argument and assigned variable or attribute."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def main() -> None:
    """Exit with each invented name and its place, if there are any."""
    listed = subprocess.run(
        ["git", "ls-files", "src/*.py", "research/benchmarks/*.py", "research/experiments/*.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    refused = [
        f"{path}:{line}: {name}"
        for path in listed.stdout.split()
        if Path(path).exists()
        for line, name in defined_names(Path(path).read_text("utf-8"))
        if INVENTED.fullmatch(name)
    ]
    if refused:
        sys.exit("\n".join(refused))


if __name__ == "__main__":
    main()
