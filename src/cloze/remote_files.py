"""Read and write files on object stores by URL (s3://, gs://, hf://, file://, …), through fsspec.

The libraries of the stores find credentials in their own files and environment variables. cloze stores none.
"""

import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from cloze import artifacts, file_io, hub
from cloze.arguments import check_path
from cloze.errors import ClozeError, InputError, RunError
from cloze.file_names import MANIFEST
from cloze.optional_dependencies import import_package, require

PathOrUrl: TypeAlias = Path | str
"""A local path, or the URL of a file or directory on an object store."""
Result = TypeVar("Result")

_BLOCK_BYTES = 1 << 22
_LOCAL_PREFIX = "file://"
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub", "az": "adlfs"}


def is_url(name: PathOrUrl) -> bool:
    """Return whether a name is the URL of an object store."""
    return "://" in str(name)


def to_path_or_url(name: PathOrUrl, argument: str = "path") -> PathOrUrl:
    """Return a URL as it is, and the name of a local file or directory as a path."""
    check_path(name, argument)
    name = str(name).removeprefix(_LOCAL_PREFIX)
    return name if is_url(name) else Path(name)


def join_path(directory: PathOrUrl, name: str) -> PathOrUrl:
    """Return the path or URL of `name` in a directory."""
    return f"{str(directory).rstrip('/')}/{name}" if is_url(directory) else Path(directory) / name


def is_file(path: PathOrUrl) -> bool:
    """Return whether a file exists; raise an InputError if the store cannot be read."""
    return _remote_type(str(path)) == "file" if is_url(path) else Path(path).is_file()


def is_directory(path: PathOrUrl) -> bool:
    """Return whether a directory exists; on a store, whether there are files below that name."""
    return _remote_type(str(path)) == "directory" if is_url(path) else Path(path).is_dir()


def _remote_type(url: str) -> str | None:
    """Return "file", "directory", or None; unlike fsspec's `isfile`, raise if the store denies access."""
    with _store(url) as (system, path):
        try:
            return str(system.info(path)["type"])
        except FileNotFoundError:
            return None


def list_files(url: str) -> list[str]:
    """Return the URLs of the files that a file, directory or glob matches, at least one, sorted by name.

    Hidden files are left out, unless the URL contains the hidden name itself.
    """
    with _store(url) as (system, path):
        literal = re.split(r"[*?\[]", path)[0]
        matches = [path] if literal == path else sorted(system.glob(path))
        files = [file for match in matches for file in sorted(system.find(match))]
        urls = [
            system.unstrip_protocol(file) for file in dict.fromkeys(files) if not _is_hidden(file, literal)
        ]
    if not urls:
        raise InputError("no such file, and no files below it", where=url)
    return urls


def _is_hidden(file: str, prefix: str) -> bool:
    names = file.removeprefix(prefix).split("/")
    if not prefix.endswith("/"):
        del names[0]  # it continues a name that the prefix begins, as .txt does in part*.txt
    return any(name.startswith(".") for name in names)


def remote_size(url: str) -> int:
    """Return the size of a file in bytes."""
    with _store(url) as (system, path):
        return int(system.size(path))


def remote_version(url: str) -> str:
    """Return an identifier that changes when the file is overwritten."""
    with _store(url) as (system, path):
        return str(system.ukey(path))


@contextmanager
def open_url(url: str) -> Iterator["io.BufferedReader[Any]"]:
    """Open a file for reading and seeking; blocks are downloaded on demand."""
    with _store(url) as (system, path):
        stream = system.open(path, "rb", block_size=_BLOCK_BYTES)
    with stream:
        yield io.BufferedReader(_RemoteStream(stream, url))


class _RemoteStream(io.RawIOBase):
    """An fsspec stream whose errors name the store, so that they differ from the errors of whoever reads it."""

    def __init__(self, stream: Any, url: str) -> None:
        self._stream = stream
        self._url = url

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with _remote_errors(self._url):
            return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, buffer: Any) -> int:
        with _remote_errors(self._url):
            block = self._stream.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)


def upload_directory(directory: Path, url: str, *, overwrite: bool = False) -> None:
    """Copy a directory with a manifest to a store; the manifest goes last and marks the copy as complete."""
    names = artifacts.read_manifest(directory).files
    with _store(url, writing=True) as (system, path):
        files, final = system.find(path), f"{path}/{MANIFEST}"
        _check_destination(files, path, url, overwrite=overwrite)
        if final in files:
            old = _names_in_manifest(system.cat_file(final))
            for name in (MANIFEST, *old):
                if f"{path}/{name}" in files:
                    system.rm_file(f"{path}/{name}")
        for name in (*names, MANIFEST):
            system.put_file(str(directory / name), f"{path}/{name}")


def _names_in_manifest(manifest: bytes) -> set[str]:
    try:
        return {name for name in json.loads(manifest)["files"] if ".." not in name.split("/")}
    except (ValueError, KeyError, TypeError, AttributeError):
        return set()


def _check_destination(files: Collection[str], path: str, url: str, *, overwrite: bool) -> None:
    """Refuse a destination that holds something else than hidden files or, to overwrite, a complete upload."""
    if path in files:
        raise InputError("is a file, not a directory", where=url, remedy="Choose another name")
    if f"{path}/{MANIFEST}" in files:
        if not overwrite:
            raise InputError("already exists", where=url, remedy="Choose another name or pass `overwrite`")
    elif not all(_is_hidden(file, path) for file in files):
        what = "contains an incomplete upload or files that cloze did not write, so nothing is replaced"
        raise InputError(what, where=url, remedy="Choose another name, or delete them yourself")


def check_output_file(output: PathOrUrl, *, overwrite: bool, source: PathOrUrl) -> None:
    """Raise unless an output file is free or may be overwritten, and is not the source."""
    output = to_path_or_url(output)
    if isinstance(output, Path):
        artifacts.check_output_path(output, overwrite=overwrite, inputs=[source], directory=False)
    elif is_file(output) and not overwrite:
        raise InputError("already exists", where=output, remedy="Choose another name or pass `overwrite`")


@contextmanager
def write_file_to(output: PathOrUrl) -> Iterator[Path]:
    """Yield a temporary local file to fill; on success it becomes the output in one step.

    If an upload fails, the file is kept in the user's cache.
    """
    output = to_path_or_url(output)
    if isinstance(output, Path):
        with file_io.write_file(output) as temporary:
            yield temporary
        return
    staged = _staged_path(output)
    with file_io.write_file(staged) as temporary:
        yield temporary
    try:
        with (
            _store(output, writing=True) as (system, path),
            system.transaction,
            staged.open("rb") as source,
            system.open(path, "wb") as target,
        ):
            shutil.copyfileobj(source, target, _BLOCK_BYTES)
    except RunError as error:
        remedy = f"Copy it from {staged}, where it is kept, or run it again"
        raise RunError(error.what, where=output, remedy=remedy) from error
    shutil.rmtree(staged.parent)


@contextmanager
def write_directory_to(output: PathOrUrl, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield the path of a directory to write with a manifest, for a URL one in the user's cache, which is uploaded."""
    url = to_path_or_url(output)
    if isinstance(url, Path):
        yield url
        return
    with _store(url) as (system, path):
        files = system.find(path)
    _check_destination(files, path, url, overwrite=overwrite)
    staged = _staged_path(url)
    if staged.exists():  # it was not uploaded
        artifacts.remove_directory(staged)
    yield staged
    try:
        upload_directory(staged, url, overwrite=overwrite)
    except RunError as error:
        remedy = f"Copy it from {staged}, where it is kept, with {MANIFEST} last"
        raise RunError(error.what, where=url, remedy=remedy) from error
    shutil.rmtree(staged.parent)


def _staged_path(url: str) -> Path:
    key = hashlib.sha256(url.encode()).hexdigest()[:16]
    return file_io.cache_directory() / key / url.rstrip("/").rpartition("/")[2]


@contextmanager
def _remote_errors(url: str, *, writing: bool = False) -> Iterator[None]:
    """Turn the errors of the stores' libraries, each with its own classes, into a ClozeError."""
    error_class = RunError if writing else InputError
    try:
        yield
    except ClozeError:
        raise
    except ImportError as error:
        package = _PACKAGES.get(url.partition("://")[0])
        what = f"needs the package {package or 'that fsspec asks for'}: {error}"
        raise InputError(what, where=url, remedy=f"Run pip install {package or 'fsspec'}") from error
    except FileNotFoundError as error:
        raise error_class("no such file", where=url) from error
    except Exception as error:
        if url.startswith(hub.PREFIX) and (explained := hub.to_cloze_error(error, url, writing=writing)):
            raise explained from error
        reason = " ".join(str(error).split()) or type(error).__name__
        raise error_class(f"the store refuses: {reason[:300]}", where=url) from error


@contextmanager
def _store(url: str, *, writing: bool = False) -> Iterator[tuple[Any, str]]:
    """Yield fsspec's file system for a URL and the path in it; errors are those of `_remote_errors`."""
    with _remote_errors(url, writing=writing):
        require(["fsspec"], extra="stores", where=url)
        if url.startswith(hub.PREFIX):
            import_package("huggingface_hub")
        system, path = import_package("fsspec.core").url_to_fs(url)
        yield system, str(path).rstrip("/")
