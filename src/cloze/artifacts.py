"""Write directories atomically with a manifest of checksums, and verify them when they are read.

A directory is filled under a temporary name next to its destination. Every file is synced, the manifest with the size
and SHA-256 of each file is written last, and one rename puts the directory in place. Readers check the manifest
first, so a truncated or corrupted file is detected before it is used.
"""

import ctypes
import glob
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from cloze.errors import ClozeError, InputError, RunError
from cloze.file_io import (
    MAX_JSON_BYTES,
    TEMPORARY_PREFIX,
    claim_temporary,
    disk_errors,
    read_file,
    read_json,
    resolve_links,
    safe_join,
    sha256_of_file,
    sync_directory,
    sync_file,
)
from cloze.file_names import CARD_FILE, MANIFEST
from cloze.process import usable_processors
from cloze.text_encoding import LONE_SURROGATE

FORMAT_VERSION = 1
KINDS = ("checkpoint", "dataset", "examples", "graph", "instances", "record", "teacher outputs", "vocabulary")
"""Kinds of directories."""
RUN_CONFIG = "run.toml"
"""A run grows, so it has no manifest; its settings identify it."""
FIRST_SETTINGS_FILE = f".{RUN_CONFIG}"
"""The settings at the start of a run, with which `run.toml` is compared until there is a checkpoint."""
RUN_DATA_FOLDER = "data"
"""Folder of a run with data that were given in memory."""
LOCK_FILE = ".lock"
_NEW_RUN = re.compile(r"\.lock|data|\.run\.toml|\.writing-\.?run\.toml-[0-9a-f]+")
"""Files of a run that is being created, of which `run.toml` is the last."""
_REMEDIES: dict[str | None, str] = {
    "dataset": "Give a directory that cloze corpus wrote",
    "checkpoint": "Give the directory of a checkpoint or a run",
    "graph": "Export the model again: cloze export MODEL -o NEW",
}
"""By expected kind of directory."""
LEARNED_FROM, SCORED_ON = "learned from", "scored on"
"""What a run did with its data, in the table of the card."""

URL = re.compile(r"[a-z][a-z0-9+.-]+:/")
"""A URL as `Path` writes it, with one slash."""
_REPLACED_PREFIX = f"{TEMPORARY_PREFIX}replaced-"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # arguments of Linux's renameat2


class IntegrityError(InputError):
    """A file differs from what was written."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """Size and checksum of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Kind and files of a directory; the last file written into it."""

    kind: str
    format_version: int
    files: dict[str, FileRecord]


def check_output_path(
    path: Path,
    *,
    overwrite: bool,
    inputs: Iterable[Path | str | None] = (),
    resume_hint: str = "",
    hint_file: str = RUN_CONFIG,
    directory: bool = True,
) -> None:
    """Raise unless `path` is free, an empty directory, or may be overwritten.

    Args:
        inputs: files and directories that are read; they must not be inside of what is replaced.
        resume_hint: another remedy, for the message.
        hint_file: the file of directories for which it is a remedy.
    """
    choose = "Choose another name"
    if URL.match(str(path)):
        url = str(path).replace(":/", "://", 1)
        raise InputError("only a local path can be written", where=url, remedy="Copy the output afterwards")
    if directory and LONE_SURROGATE.search(str(path)):
        what = "its name is not UTF-8, and libraries open no file in it"
        raise InputError(what, where=path, remedy=choose)
    if parent := next(filter(Path.is_file, path.parents), None):
        raise InputError(f"is a file: {path} cannot be created in it", where=parent, remedy=choose)
    if path.exists() and not (path.is_dir() if directory else path.is_file()):
        what = "is a file, not a directory" if directory else "is not a regular file"
        raise InputError(what, where=path, remedy=choose)
    if is_free(path):
        return
    is_replaceable = path.is_file() or any((path / name).is_file() for name in (MANIFEST, RUN_CONFIG))
    if not overwrite:
        hint = resume_hint if (path / hint_file).is_file() else ""
        remedy = f"{choose}{hint} or pass `overwrite`" if is_replaceable else choose
        raise InputError("already exists", where=path, remedy=remedy)
    if not is_replaceable:
        what = "is not a directory that cloze wrote, so it is not deleted"
        raise InputError(what, where=path, remedy=f"{choose}, or delete it yourself")
    for source in inputs:
        if source is not None and resolve_links(Path(source)).is_relative_to(resolve_links(path)):
            what = "is an input, and would be replaced"
            raise InputError(what, where=source, remedy="Choose another `output`")


def is_free(path: Path) -> bool:
    """Return whether a path has nothing, an empty directory, or only the files of a run killed during its creation."""
    if not path.is_dir():
        return not path.exists()
    names = {entry.name for entry in path.iterdir()}
    is_started = FIRST_SETTINGS_FILE in names or RUN_DATA_FOLDER not in names
    return RUN_CONFIG not in names and is_started and all(map(_NEW_RUN.fullmatch, names))


@contextmanager
def write_directory(
    path: Path,
    *,
    kind: str,
    overwrite: bool = False,
    temporary_parent: Path | None = None,
    before_commit: Callable[[Path], object] = lambda directory: None,
) -> Iterator[Path]:
    """Yield a temporary directory to fill; rename it to `path` on success, delete it on an error.

    Args:
        path: the destination; if it is a link, the directory that it points to.
        temporary_parent: where to fill it, on the same disk; None is next to `path`. A killed writer leaves the
            temporary directory there, which the next one deletes.
        before_commit: called with the finished directory just before the rename.
    """
    assert kind in KINDS, kind
    path = Path(path)
    if path.is_symlink():  # a rename would replace the link instead of its target
        path = resolve_links(path)
    check_output_path(path, overwrite=overwrite)
    with ExitStack() as claimed:
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            # unlike tempfile.mkdtemp, mkdir respects the umask
            temporary = claimed.enter_context(claim_temporary(path, Path.mkdir, temporary_parent))
        try:
            with disk_errors(path):
                yield temporary
                _write_manifest(temporary, kind)
                before_commit(temporary)
                check_output_path(path, overwrite=overwrite)  # another process may have created it meanwhile
                old = _move_into_place(temporary, path)
        except ClozeError as error:
            if error.where is not None:
                error.where = error.where.replace(str(temporary), str(path))  # the name that the user knows
            raise
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
            if old.exists():
                what = f"the directory that {path} has replaced cannot be deleted"
                raise RunError(what, where=old, remedy="Delete it yourself")


def _write_manifest(directory: Path, kind: str) -> None:
    files = {}
    for file in sorted(file for file in directory.rglob("*") if file.is_file()):
        sync_file(file)
        record = FileRecord(file.stat().st_size, sha256_of_file(file))
        files[file.relative_to(directory).as_posix()] = asdict(record)
    manifest = {"kind": kind, "format_version": FORMAT_VERSION, "files": dict(sorted(files.items()))}
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8", newline="\n")
    sync_file(directory / MANIFEST)
    for folder in (directory, *(folder for folder in directory.rglob("*") if folder.is_dir())):
        sync_directory(folder)


def _move_into_place(temporary: Path, path: Path) -> Path | None:
    """Rename `temporary` to `path`; return the directory that was there, under its new name."""
    old = None
    if path.exists() and exchange_directories(temporary, path):
        old = temporary
    elif path.exists():
        # A directory with files cannot be replaced by a rename: for a moment there is neither.
        old = _move_aside(path, _REPLACED_PREFIX)
        try:
            temporary.rename(path)
        except BaseException:
            _restore(old)
            old.rmdir()
            raise
    else:
        temporary.rename(path)
    sync_directory(path.parent)
    return old


def exchange_directories(first: Path, second: Path) -> bool:
    """Swap the names of two directories in one step; return False if the system or the disk cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0)


def clear_directory(path: Path) -> None:
    """Delete the contents of a run but its lock; the directory itself may be a mount point."""
    with disk_errors(path):
        # The settings go last: they identify a half-deleted run as a run.
        for entry in sorted(path.iterdir(), key=lambda entry: entry.name == RUN_CONFIG):
            if entry.name == LOCK_FILE:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def remove_directory(path: Path) -> None:
    """Delete a directory; if the process is killed, no half-deleted directory is left under its name."""
    shutil.rmtree(_move_aside(path, f"{TEMPORARY_PREFIX}old-"), ignore_errors=True)


def _move_aside(path: Path, prefix: str) -> Path:
    """Move a directory into a new temporary directory next to it."""
    aside = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    try:
        path.rename(aside / path.name)
    except OSError:
        aside.rmdir()
        raise
    return aside


def _restore(aside: Path) -> None:
    """Move back what `_move_aside` moved, unless there is something else under its name."""
    for old in aside.iterdir():
        if not (aside.parent / old.name).exists():
            old.rename(aside.parent / old.name)


def remove_temporary_files(parent: Path) -> None:
    """Delete what killed writers left in `parent`, and restore what they were about to replace.

    Only for directories with one writer.
    """
    for replaced in parent.glob(f"{_REPLACED_PREFIX}*"):
        _restore(replaced)
    for temporary in parent.glob(f"{TEMPORARY_PREFIX}*"):
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def read_manifest(directory: Path, *, kind: str | None = None) -> Manifest:
    """Read the manifest of a directory without checking the files.

    Raises:
        IntegrityError: the manifest is missing or damaged.
        InputError: it is of another kind or of another format version.
    """
    directory = Path(directory)
    if not directory.is_dir():
        replaced = next(directory.parent.glob(f"{_REPLACED_PREFIX}*/{glob.escape(directory.name)}"), None)
        remedy = (
            f"A killed process was replacing {replaced}: move it back" if replaced else _REMEDIES.get(kind)
        )
        if not directory.exists():
            raise InputError("no such directory", where=directory, remedy=remedy)
        raise InputError("is a file, not a directory", where=directory, remedy=remedy)
    file = directory / MANIFEST
    if not file.exists():
        what = f"not a {kind or 'directory'} written by cloze: it has no {MANIFEST}"
        raise IntegrityError(what, where=directory, remedy=_REMEDIES.get(kind))
    try:
        raw = read_json(file)
        files = {name: FileRecord(entry["bytes"], entry["sha256"]) for name, entry in raw["files"].items()}
        if any(type(r.bytes) is not int or not isinstance(r.sha256, str) for r in files.values()):
            raise TypeError("bytes must be numbers, sha256 strings")
        manifest = Manifest(raw["kind"], raw["format_version"], files)
        if type(manifest.format_version) is not int:
            raise TypeError("format_version must be a number")
        if manifest.format_version == FORMAT_VERSION and manifest.kind not in KINDS:
            raise TypeError(f"no kind {manifest.kind!r}")
    except (InputError, KeyError, TypeError, AttributeError) as error:
        reason = error.what if isinstance(error, InputError) else error
        what = f"damaged manifest ({reason})"
        raise IntegrityError(what, where=file, remedy="Copy or write the directory again") from error
    for name in manifest.files:
        safe_join(directory, name, where=file)
    if manifest.format_version != FORMAT_VERSION:
        what = f"format version {manifest.format_version}, this cloze reads {FORMAT_VERSION}"
        raise InputError(what, where=file, remedy="Use the cloze version that wrote it, or write it again")
    if kind is not None and manifest.kind != kind:
        raise InputError(f"is a {manifest.kind}, not a {kind}", where=directory, remedy=_REMEDIES.get(kind))
    return manifest


def directory_sha256(directory: Path) -> str:
    """Return the SHA-256 of a directory: of its manifest, or of all its files but the card if it has none."""
    if (directory / MANIFEST).is_file():
        return sha256_of_file(directory / MANIFEST)
    digest = hashlib.sha256()
    for file in sorted(file for file in directory.iterdir() if file.is_file()):
        if file.name != CARD_FILE:
            digest.update(f"{file.name}\n{sha256_of_file(file)}\n".encode())
    return digest.hexdigest()


def read_card(directory: Path) -> str:
    """Return the text of a model card, or "" for a model without one; invalid UTF-8 is replaced."""
    card = directory / CARD_FILE
    return read_file(card, max_bytes=MAX_JSON_BYTES).decode("utf-8", "replace") if card.is_file() else ""


def verify(
    directory: Path, *, kind: str | None = None, only: Callable[[str], bool] | None = None
) -> Manifest:
    """Check the files of a directory whose names `only` accepts against its manifest, except for the card.

    Raises:
        IntegrityError: a file is missing, or its size or SHA-256 has changed.
        InputError: as `read_manifest`.
    """
    directory = Path(directory)
    manifest = read_manifest(directory, kind=kind)
    remedy = "Copy or write it again"
    files = {
        directory / name: record
        for name, record in manifest.files.items()
        if name != CARD_FILE and (only is None or only(name))
    }
    for file, record in files.items():
        if not file.is_file():
            raise IntegrityError(f"missing, but listed in {directory / MANIFEST}", where=file, remedy=remedy)
        size = file.stat().st_size
        if size != record.bytes:
            what = f"damaged: {size:,} bytes, {record.bytes:,} in the manifest"
            raise IntegrityError(what, where=file, remedy=remedy)
    with ThreadPoolExecutor(usable_processors()) as threads:
        for (file, record), sha256 in zip(files.items(), threads.map(sha256_of_file, files), strict=True):
            if sha256 != record.sha256:
                what = "damaged: its SHA-256 differs from the manifest"
                raise IntegrityError(what, where=file, remedy=remedy)
    return manifest
