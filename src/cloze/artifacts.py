"""Directories written whole or not at all, that prove themselves when they are read.

A directory is filled under a temporary name beside its destination, every file is synced, a manifest with the
size and SHA-256 of each file is written last, and one rename puts it in place. Whoever reads it checks the
manifest first, so a truncated or bit-flipped file is found before it is used.
"""

import ctypes
import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from cloze.errors import ClozeError, InputError, RunError

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
RUN_CONFIG = "run.toml"
"""A run has no manifest, since it grows; its settings tell that it is one."""
CARD = "README.md"
"""For people, to read and to edit: nothing is read from it, so it is not checked either."""
_TEMPORARY_PREFIX = ".writing-"
_REPLACED_PREFIX = f"{_TEMPORARY_PREFIX}replaced-"
_MOST_MANIFEST_BYTES = 1 << 26  # of a data set of a hundred thousand shards
_HERE, _RENAME_EXCHANGE = -100, 2  # of Linux's renameat2: relative to the working directory; swap


class DamageError(InputError):
    """Files are not as they were written."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What the manifest knows of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The last file written into a directory: what it is and what it holds."""

    kind: str
    format_version: int
    files: dict[str, FileRecord]


def read_file(path: Path, *, most_bytes: int) -> bytes:
    """Read a whole file that others may have written.

    Args:
        path: must be a file: a pipe or a device may have no end.
        most_bytes: no file of its kind is larger.

    Raises:
        FileNotFoundError: there is none.
        InputError: it is no file, too large, or cannot be read.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise InputError("is no file", where=path)
        if size > most_bytes:
            raise InputError(f"{size:,} bytes, at most {most_bytes:,} are read", where=path)
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from error


def file_in(directory: Path, name: str, *, where: Path) -> Path:
    """Return a file or folder that another file names; it may be a link, as those of Hugging Face's cache are.

    Args:
        directory: that it must be in.
        name: relative to the directory.
        where: the file that names it.

    Raises:
        InputError: the name leads out of the directory.
    """
    parts = PurePosixPath(name).parts
    if PurePosixPath(name).is_absolute() or ".." in parts or "\\" in name or "\0" in name:
        raise InputError(f"names {name!r}, which is not in {directory}", where=where)
    return directory.joinpath(*parts)


def resolved(path: Path) -> Path:
    """Return what a path leads to, absolute and without links.

    Raises:
        InputError: it leads back to itself.
    """
    found = Path(os.path.realpath(path))  # Path.resolve raises where it leads back, but not of every Python
    if found.is_symlink():
        raise InputError("is a link that leads back to itself", where=path)
    return found


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def refuse_existing(
    path: Path,
    *,
    overwrite: bool,
    inputs: Iterable[Path | str | None] = (),
    resume_hint: str = "",
    directory: bool = True,
) -> None:
    """Raise unless `path` is free, empty or may be overwritten.

    Args:
        path: where something shall be written.
        overwrite: whether it may replace what is there.
        inputs: what is read for it, which must not go with what is replaced.
        resume_hint: a further remedy.
        directory: whether it is a directory that shall be written, or a file.

    Raises:
        InputError: something is there already; or it shall be overwritten, but is no directory of cloze's, or
            a file where a directory shall be; or `path` lies below a file.
    """
    for parent in path.parents:
        if parent.is_file():
            remedy = "Choose another name"
            raise InputError(f"is a file: {path} cannot be in it", where=parent, remedy=remedy)
    if path.exists() and path.is_dir() != directory:
        there, wanted = ("file", "directory") if directory else ("directory", "file")
        what = f"is a {there}, and a {wanted} shall be written"
        raise InputError(what, where=path, remedy="Choose another name")
    if path.exists() and not path.is_dir() and not path.is_file():
        raise InputError("is no regular file", where=path, remedy="Choose another name")
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not overwrite:
        remedy = f"Choose another name{resume_hint} or say --overwrite"
        raise InputError("exists already", where=path, remedy=remedy)
    if path.is_dir() and not any((path / name).is_file() for name in (MANIFEST, RUN_CONFIG)):
        what = "is not a directory that cloze wrote, so it is not deleted"
        raise InputError(what, where=path, remedy="Choose another name, or delete it yourself")
    for given in inputs:
        if given is not None and resolved(Path(given)).is_relative_to(resolved(path)):
            raise InputError("is to be read, and replaced", where=given, remedy="Choose another --output")


@contextmanager
def write_directory(
    path: Path,
    *,
    kind: str,
    overwrite: bool = False,
    room: Path | None = None,
    when_sealed: Callable[[Path], object] = lambda directory: None,
) -> Iterator[Path]:
    """Fill the yielded directory; on leaving it becomes `path` in one step, on an error nothing is left.

    Args:
        path: where the directory shall be; where that is a link, it is what the link leads to.
        kind: what it is ("dataset", "checkpoint", "vocabulary"): the manifest says so and readers ask for it.
        overwrite: replace what is there now.
        room: where to fill it, on the same disk; None is beside `path`. A kill leaves there what is half-written.
        when_sealed: called with the directory when it has its manifest, just before it becomes `path`.

    Raises:
        InputError: `path` exists and `overwrite` is False.
        RunError: the disk is full or cannot be written.
    """
    path = Path(path)
    if path.is_symlink():  # else the link would be replaced, and what it leads to would stay as it was
        path = resolved(path)
    refuse_existing(path, overwrite=overwrite)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = (room or path.parent) / f"{_TEMPORARY_PREFIX}{path.name}-{secrets.token_hex(8)}"
        temporary.mkdir()  # what tempfile makes is closed to others, whatever the umask says
    try:
        with disk_errors(path):
            yield temporary
            _seal(temporary, kind)
            when_sealed(temporary)
            refuse_existing(path, overwrite=overwrite)  # another may have been quicker
            _replace(temporary, path)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, ClozeError) and error.where is not None:
            error.where = error.where.replace(str(temporary), str(path))  # the name that the user knows
        raise


def _seal(directory: Path, kind: str) -> None:
    names = sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())
    records = {}
    for name in names:
        file = directory / name
        with file.open("r+b") as stream:  # some systems sync only what is open for writing
            os.fsync(stream.fileno())
        records[name] = FileRecord(file.stat().st_size, sha256_of(file))
    manifest = {
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "files": {n: asdict(r) for n, r in records.items()},
    }
    _write_synced(directory / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    for folder in {directory, *(p for p in directory.rglob("*") if p.is_dir())}:
        _sync_directory(folder)


def _replace(temporary: Path, path: Path) -> None:
    """Rename `temporary` to `path` and delete what was there."""
    old = None
    if path.exists() and _exchange(temporary, path):
        old = temporary
    elif path.exists():  # a full directory cannot be replaced: for a moment there is neither
        old = _move_aside(path, _REPLACED_PREFIX)
        try:
            temporary.rename(path)
        except BaseException:
            _put_back(old)
            old.rmdir()
            raise
    else:
        temporary.rename(path)
    _sync_directory(path.parent)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Let two directories change names in one step; return False where the system or its disk cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    return bool(rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _RENAME_EXCHANGE) == 0)


def clear_directory(path: Path) -> None:
    """Delete what is in a directory, where there is one; it stays: it may be a mount point, or where the user is."""
    if not path.is_dir():
        return
    with disk_errors(path):
        # the settings last: by them a run that is half deleted is still known as one
        for entry in sorted(path.iterdir(), key=lambda entry: entry.name == RUN_CONFIG):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def remove_directory(path: Path) -> None:
    """Delete a directory; a kill in the middle leaves none that is half empty under its name."""
    shutil.rmtree(_move_aside(path, f"{_TEMPORARY_PREFIX}old-"), ignore_errors=True)


def _move_aside(path: Path, prefix: str) -> Path:
    aside = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    try:
        path.rename(aside / path.name)
    except OSError:
        aside.rmdir()
        raise
    return aside


def _put_back(aside: Path) -> None:
    """Give what was moved aside its name again, where nothing came in its place."""
    for old in aside.iterdir():
        if not (aside.parent / old.name).exists():
            old.rename(aside.parent / old.name)


def write_text(path: Path, text: str) -> None:
    """Write a small file in one step: readers see the old text or the new one, never a part."""
    with write_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def write_file(path: Path) -> Iterator[Path]:
    """Fill the file whose name is yielded; on leaving it becomes `path` in one step, on an error nothing is left.

    Raises:
        RunError: the disk is full or cannot be written.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{_TEMPORARY_PREFIX}{path.name}-{os.getpid()}")
        try:
            yield temporary
            with temporary.open("rb+") as stream:
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)


def remove_leftovers(parent: Path) -> None:
    """Delete what a killed writer left half-written in `parent`, and put back what it was about to replace.

    Only for directories with one writer.
    """
    for replaced in parent.glob(f"{_REPLACED_PREFIX}*"):
        _put_back(replaced)
    for leftover in parent.glob(f"{_TEMPORARY_PREFIX}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def read_manifest(directory: Path, *, kind: str | None = None) -> Manifest:
    """Read a directory's manifest without checking the files.

    Args:
        directory: what `write_directory` wrote.
        kind: what it must be; None takes anything.

    Raises:
        DamageError: there is no manifest, or it is damaged.
        InputError: it is of another kind or of a newer format.
    """
    directory = Path(directory)
    if not directory.is_dir():
        replaced = next(directory.parent.glob(f"{_REPLACED_PREFIX}*/{glob.escape(directory.name)}"), None)
        remedy = (
            f"{replaced} is what a writer that was killed was to replace: move it back" if replaced else None
        )
        raise InputError("no such directory", where=directory, remedy=remedy)
    file = directory / MANIFEST
    try:
        raw = json.loads(read_file(file, most_bytes=_MOST_MANIFEST_BYTES))
        files = {name: FileRecord(record["bytes"], record["sha256"]) for name, record in raw["files"].items()}
        if not all(isinstance(r.bytes, int) and isinstance(r.sha256, str) for r in files.values()):
            raise TypeError("bytes must be numbers, sha256 texts")
        manifest = Manifest(raw["kind"], raw["format_version"], files)
    except FileNotFoundError:
        what = f"not a {kind or 'directory'} written by cloze: it has no {MANIFEST}"
        raise DamageError(what, where=directory) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamageError(
            f"damaged manifest ({error})", where=file, remedy="Write the directory anew"
        ) from error
    for name in manifest.files:
        file_in(directory, name, where=file)
    if manifest.format_version != FORMAT_VERSION:
        what = f"format version {manifest.format_version}, this cloze reads {FORMAT_VERSION}"
        raise InputError(what, where=file, remedy="Use the cloze version that wrote it, or write it anew")
    if kind is not None and manifest.kind != kind:
        raise InputError(f"is a {manifest.kind}, not a {kind}", where=directory)
    return manifest


def verify(directory: Path, *, kind: str | None = None, names: Collection[str] | None = None) -> Manifest:
    """Check every file of a directory against its manifest, or those with some names, where it lists them.

    The card is left out: people edit it.

    Raises:
        DamageError: a file is missing, has another size, or another SHA-256 than when it was written.
        InputError: as `read_manifest`.
    """
    directory = Path(directory)
    manifest = read_manifest(directory, kind=kind)
    for name, record in manifest.files.items():
        if name == CARD or (names is not None and name not in names):
            continue
        file = directory / name
        if not file.is_file():
            raise DamageError(
                "missing", where=file, remedy=f"The manifest of {directory} lists it: write it anew"
            )
        size = file.stat().st_size
        if size != record.bytes:
            what = f"{size:,} bytes, the manifest says {record.bytes:,}"
            raise DamageError(what, where=file, remedy="The file is damaged: copy or write it anew")
        if sha256_of(file) != record.sha256:
            raise DamageError(
                "its SHA-256 is not the manifest's",
                where=file,
                remedy="The file is damaged: copy or write it anew",
            )
    return manifest


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals to write into one line for the user."""
    try:
        yield
    except ClozeError:
        raise
    except OSError as error:
        remedies = {
            errno.ENOSPC: "Free some space and run it again",
            errno.EDQUOT: "Free some space and run it again",
        }
        remedy = remedies.get(error.errno or 0)
        raise RunError(f"cannot write: {error.strerror or error}", where=path, remedy=remedy) from error


def _write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_directory(path: Path) -> None:
    if os.name == "nt":  # directories cannot be opened there, and renames are journaled
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
