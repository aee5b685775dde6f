"""Find the directory of a model: a checkpoint, a run, or the name of a bundled model."""

import logging
from pathlib import Path
from typing import Literal, TypeAlias

from cloze import artifacts, file_io
from cloze.errors import InputError

Pointer: TypeAlias = Literal["latest", "best"]
"""A file in a run that contains the path of one of its checkpoints."""

LOG = logging.getLogger(__name__)
"""Which checkpoint of a run was read, and what followed from it; the command line shows this."""
_BUNDLED_MODELS = Path(__file__).parent / "pretrained"
_MAX_POINTER_BYTES = 1 << 12


def find_bundled(path: Path | str) -> Path:
    """Return the directory of a bundled model by its name; return any other path unchanged.

    An existing file or directory of that name takes precedence.

    Raises:
        InputError: a name without slashes that is neither a path nor a bundled model.
    """
    path = Path(path)
    if path.exists() or path.parts != (path.name,):
        return path
    bundled = {file.parent.name: file.parent for file in _BUNDLED_MODELS.glob("*/config.json")}
    if path.name not in bundled:
        remedy = f"Give a path or one of the bundled models: {', '.join(sorted(bundled))}"
        raise InputError("no such file, directory or bundled model", where=path, remedy=remedy)
    return bundled[path.name]


def resolve_checkpoint(path: Path, prefer: Pointer = "best") -> Path:
    """Return the directory of a model: of a run, its best or its latest checkpoint; of a name, the bundled model.

    A run that was not evaluated has no best checkpoint; its latest is returned. Which one it is, is logged.

    Raises:
        InputError: the name is unknown, or the run has no checkpoint.
    """
    path = find_bundled(path)
    pointers: tuple[Pointer, ...] = ("best", "latest") if prefer == "best" else ("latest",)
    for pointer in pointers:
        if (path / pointer).is_file():
            checkpoint = follow_pointer(path, pointer)
            LOG.info("%s: %s checkpoint, %s", path, pointer, checkpoint.relative_to(path))
            return checkpoint
    if (path / artifacts.RUN_CONFIG).is_file():
        raise InputError("is a run without a checkpoint", where=path, remedy="Continue it with --resume")
    return path


def follow_pointer(run: Path, pointer: Pointer) -> Path:
    """Return the checkpoint whose path is in the file `latest` or `best` of a run.

    Raises:
        InputError: the checkpoint does not exist.
    """
    text = file_io.read_file(run / pointer, max_bytes=_MAX_POINTER_BYTES)
    name = text.decode(errors="replace").strip()
    if not file_io.safe_join(run, name, where=run / pointer).is_dir():
        raise InputError(f"names {name}, which does not exist", where=run / pointer)
    return run / name
