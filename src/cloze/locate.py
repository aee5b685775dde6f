"""Where a model lies: under the name of one that comes with cloze, in a run, in a directory."""

from pathlib import Path
from typing import Literal, TypeAlias

from cloze import artifacts
from cloze.errors import InputError

Pointer: TypeAlias = Literal["latest", "best"]
"""A file of a run that names one of its checkpoints."""

_MODELS = Path(__file__).parent / "models"
_MOST_POINTER_BYTES = 1 << 12


def find_shipped(path: Path | str) -> Path:
    """Return the directory of the model that comes with cloze under this name, else the path as it is.

    What is there under that name already goes before it.

    Raises:
        InputError: it is a mere name, and nothing has it.
    """
    path = Path(path)
    if path.exists() or path.parts != (path.name,):
        return path
    shipped = {file.parent.name: file.parent for file in _MODELS.glob("*/config.json")}
    if path.name not in shipped:
        remedy = f"Give a path, or a model that comes with cloze: {', '.join(sorted(shipped))}"
        raise InputError("nothing here has this name", where=path, remedy=remedy)
    return shipped[path.name]


def resolve_checkpoint(path: Path, prefer: Pointer = "latest") -> Path:
    """Return the directory that holds a model: where `path` is a run, its newest or its best checkpoint.

    A run that was not measured yet has no best one: then it is the newest.
    The name of a model that comes with cloze stands for its directory.

    Raises:
        InputError: nothing has that name, or a run has no checkpoint.
    """
    path = find_shipped(path)
    pointers: tuple[Pointer, ...] = ("best", "latest") if prefer == "best" else ("latest",)
    for pointer in pointers:
        if (path / pointer).is_file():
            return follow(path, pointer)
    if (path / artifacts.RUN_CONFIG).is_file():
        raise InputError(
            "is a run without a checkpoint", where=path, remedy="Go on with it by --resume first"
        )
    return path


def follow(run: Path, pointer: Pointer) -> Path:
    """Return the checkpoint that `latest` or `best` names.

    Raises:
        InputError: it is not there.
    """
    text = artifacts.read_file(run / pointer, most_bytes=_MOST_POINTER_BYTES)
    name = text.decode(errors="replace").strip()
    if not artifacts.file_in(run, name, where=run / pointer).is_dir():
        raise InputError(f"names {name}, which is not there", where=run / pointer)
    return run / name
