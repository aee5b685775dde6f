"""Read files that others wrote, and write files atomically: bounded reads, JSON, one rename into place."""

import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar, overload

from cloze.errors import ClozeError, InputError, RunError

TEMPORARY_PREFIX = ".writing-"
"""Names of files and directories that are being written; a killed writer leaves them behind."""
MAX_JSON_BYTES = 1 << 26
_MAX_LINK_BYTES = 1 << 12
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}
"""Errors of disks without symbolic links."""
_PRIVILEGE_NOT_HELD = 1314
"""That of Windows where only administrators make links."""
_TOKEN = re.compile("[0-9a-f]{16}")
_UNESCAPED = re.compile("[\x7f-\x9f]")
"""Characters that a terminal obeys and JSON leaves as they are; it escapes those below the space."""

Json = TypeVar("Json", dict[str, Any], list[Any])


def cache_directory() -> Path:
    """Return the directory of files that can be made again.

    Source: https://specifications.freedesktop.org/basedir-spec (XDG_CACHE_HOME).
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cloze"


def read_file(path: Path, *, max_bytes: int) -> bytes:
    """Read a whole regular file; a pipe or a device may have no end.

    Raises:
        FileNotFoundError: the file does not exist.
        InputError: the file is not regular, larger than `max_bytes`, or cannot be read.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise InputError("not a regular file", where=path)
        if size > max_bytes:
            raise InputError(f"{size:,} bytes, at most {max_bytes:,} are read", where=path)
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from error


@overload
def read_json(path: Path, *, remedy: str | None = None) -> dict[str, Any]: ...
@overload
def read_json(path: Path, kind: type[Json], *, remedy: str | None = None) -> Json: ...
def read_json(path: Path, kind: type[Any] = dict, *, remedy: str | None = None) -> Any:
    """Read a JSON object, or a list if `kind` is list."""
    if path.parent.is_file():
        raise InputError("is a file, not a directory", where=path.parent, remedy=remedy)
    try:
        value = json.loads(read_file(path, max_bytes=MAX_JSON_BYTES).decode("utf-8-sig"))
    except FileNotFoundError:
        raise InputError("no such file", where=path, remedy=remedy) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a JSON file: {error}", where=path, remedy=remedy) from error
    if not isinstance(value, kind):
        what = f"not a JSON {'object' if kind is dict else 'list'}"
        raise InputError(what, where=path, remedy=remedy)
    return value


def check_values(table: Mapping[str, Any], required: Mapping[str, Any], *, where: Path) -> None:
    """Refuse a JSON object whose keys have other values than in `required`; an empty value counts as unset."""
    for key, expected in required.items():
        if (value := table.get(key) or expected) != expected:
            raise InputError(f"{key} is {json.dumps(value)}: cloze reads {json.dumps(expected)}", where=where)


def write_json(path: Path, value: object) -> None:
    """Write an indented JSON file atomically, as `write_text` does; NaN is null."""
    write_text(path, json.dumps(with_nulls(value), indent=1) + "\n")


def with_nulls(value: Any) -> Any:
    """Return a JSON value with null for NaN and infinity."""
    if isinstance(value, Mapping):
        return {name: with_nulls(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_nulls(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_json_text(value: object) -> str:
    """Return a JSON value as one line, with its letters as they are and without what a terminal would obey.

    NaN and infinity, which JSON does not have, are null.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(with_nulls(value), ensure_ascii=False)
    return _UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write_text(path: Path, text: str, *, sync: bool = True, make_parents: bool = True) -> None:
    """Write a small file atomically: readers see the old text or the new text, never a part."""
    with write_file(path, sync=sync, make_parents=make_parents) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def write_file(path: Path, *, sync: bool = True, make_parents: bool = True) -> Iterator[Path]:
    """Yield a temporary file to fill; rename it to `path` on success, delete it on an error.

    Args:
        sync: flush the file to disk before the rename, so that it also survives a power failure.
    """
    with disk_errors(path):
        if make_parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        # a directory of many parts, which has its parents, is deleted as a whole
        with claim_temporary(path, Path.touch, clean=make_parents) as temporary:
            yield temporary
            if sync:
                sync_file(temporary)
            temporary.replace(path)
        if sync:
            sync_directory(path.parent)


def write_link(path: Path, target: str) -> None:
    """Write a symbolic link atomically, in a directory with one writer: readers see the old link or the new link.

    A disk without links, such as one with exFAT, gets a text file with the target, as git and unzip write it there; so
    does Windows without its developer mode.
    """
    if path.is_symlink() and os.readlink(path) == target:
        return
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
    with disk_errors(path):
        temporary.unlink(missing_ok=True)  # of a killed writer
        try:
            temporary.symlink_to(target)
        except OSError as error:
            is_refused = getattr(error, "winerror", None) == _PRIVILEGE_NOT_HELD
            if error.errno not in _NO_LINKS and not is_refused:
                raise
            temporary.write_text(f"{target}\n", encoding="utf-8")
        temporary.replace(path)
        sync_directory(path.parent)


def read_link(path: Path) -> str:
    """Return the target of a symbolic link, or of a file that `write_link` wrote in its place."""
    if path.is_symlink():
        return os.readlink(path)
    return read_file(path, max_bytes=_MAX_LINK_BYTES).decode(errors="replace").strip()


@contextmanager
def claim_temporary(
    path: Path, create: Callable[[Path], object], directory: Path | None = None, *, clean: bool = True
) -> Iterator[Path]:
    """Create and lock what will be renamed to `path`, and delete it on an error, as what killed processes left.

    The system releases the lock when the process ends, however it ends, so that what is not locked has no writer.

    Args:
        create: creates an empty file or directory.
        directory: where; None is next to `path`.
        clean: whether to delete what is left, which lists the directory.
    """
    directory = directory or path.parent
    prefix = f"{TEMPORARY_PREFIX}{path.name}-"
    if clean:
        with suppress(OSError):  # a directory may be written and not listed
            for left in list(directory.iterdir()):
                if left.name.startswith(prefix) and _TOKEN.fullmatch(left.name.removeprefix(prefix)):
                    with _locked(left) as has_no_writer:
                        if has_no_writer:
                            _remove(left)
    while True:
        temporary = directory / f"{prefix}{secrets.token_hex(8)}"
        try:
            create(temporary)
            with _locked(temporary):
                if temporary.exists():  # else another process took it for left behind before it was locked
                    yield temporary
                    return
        except BaseException:
            _remove(temporary)
            raise


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Lock a file or a directory if no other process does; yield whether it is locked."""
    if sys.platform == "win32":  # no fcntl
        yield False
        return
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        is_locked = False
        with suppress(OSError):  # it is locked, or the disk has no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        yield is_locked
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Flush a file to disk."""
    with path.open("r+b") as stream:  # some systems sync only files that are open for writing
        os.fsync(stream.fileno())


def sync_directory(path: Path) -> None:
    """Flush the names in a directory to disk."""
    if sys.platform == "win32":  # directories cannot be opened there, and renames are journaled
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError while writing `path` into a RunError."""
    try:
        yield
    except ClozeError:
        raise
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "Free some space and run it again" if is_full else None
        raise RunError(f"cannot write: {error.strerror or error}", where=path, remedy=remedy) from error


@contextmanager
def name_file(path: Path | str) -> Iterator[None]:
    """Name a file in the OSErrors of reading it; Python names it only in those of opening it."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # the text of another error, as of damaged compressed data, would be lost
            error.filename = error.filename or str(path)
        raise


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with name_file(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def safe_join(directory: Path, name: str, *, where: Path) -> Path:
    """Join a directory and a relative POSIX path from the file `where`, which must not lead out of it.

    The result may be a link, as files in the cache of Hugging Face's Hub are.
    """
    parts = PurePosixPath(name).parts
    if PurePosixPath(name).is_absolute() or ".." in parts or "\\" in name or "\0" in name:
        raise InputError(f"names {name!r}, which is not in {directory}", where=where)
    return directory.joinpath(*parts)


def resolve_links(path: Path) -> Path:
    """Return the absolute path without links."""
    resolved = Path(os.path.realpath(path))  # Path.resolve raises for cycles, but not in every Python
    if resolved.is_symlink():
        raise InputError("is a link that leads back to itself", where=path)
    return resolved
