"""Files on object stores, by the URLs that fsspec knows: s3://, gs://, hf://, file:// and others.

Who may read and write there is between the store and its own library, which has its own files and variables for it:
cloze asks for no key and keeps none.
"""

import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TypeAlias

from cloze import artifacts
from cloze.errors import ClozeError, InputError, RunError
from cloze.extras import require

Place: TypeAlias = Path | str
"""A file or folder of this machine by its path; or, as text, by its path or by the URL of what is on a store."""

_BLOCK_BYTES = 1 << 22  # fetched at once
_THIS_MACHINE = "file://"
_BEGUN = "manifest.begun.json"
_PACKAGES = MappingProxyType(
    {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub", "az": "adlfs"}
)


def is_url(name: Place) -> bool:
    """Say whether a name is that of something on a store."""
    return "://" in str(name)


def as_place(name: Place) -> Place:
    """Return the URL of what is on a store as it is, and the name of anything on this machine as a path."""
    name = str(name).removeprefix(_THIS_MACHINE)
    return name if is_url(name) else Path(name)


def below(folder: Place, name: str) -> Place:
    """Return what is called `name` in a folder."""
    return f"{str(folder).rstrip('/')}/{name}" if is_url(folder) else Path(folder) / name


def folder_of(file: Place) -> Place:
    """Return where a file is."""
    return str(file).rpartition("/")[0] if is_url(file) else Path(file).parent


def is_file(place: Place) -> bool:
    """Say whether a file is there.

    Raises:
        InputError: the store does not answer.
    """
    return _kind_at(str(place)) == "file" if is_url(place) else Path(place).is_file()


def is_folder(place: Place) -> bool:
    """Say whether a folder is there; on a store, whether there is something below that name.

    Raises:
        InputError: the store does not answer.
    """
    return _kind_at(str(place)) == "directory" if is_url(place) else Path(place).is_dir()


def _kind_at(url: str) -> str | None:
    """Return what fsspec calls that which is at a URL; its own `isfile` takes a store that refuses for one without."""
    with store_errors(url):
        system, path = _system(url)
        try:
            return str(system.info(path)["type"])
        except FileNotFoundError:
            return None


def files_at(url: str) -> list[str]:
    """Return the URLs of the files that a file, folder or glob stands for, in the order of their names.

    Raises:
        InputError: nothing is there, or the store does not answer.
    """
    with store_errors(url):
        system, path = _system(url)
        written_out = re.split(r"[*?\[]", path)[0]
        paths = sorted(system.glob(path)) if written_out != path else [path]
        found = [file for each in paths for file in sorted(system.find(each)) if _is_shown(file, written_out)]
    if not found:
        raise InputError("no such file, and no files below it", where=url)
    return [system.unstrip_protocol(file) for file in dict.fromkeys(found)]


def _is_shown(file: str, written_out: str) -> bool:
    """Say whether a file is not hidden, nor in a hidden folder, but where the user wrote out its name."""
    return not any(part.startswith(".") for part in file.removeprefix(written_out).split("/"))


def size_of(url: str) -> int:
    """Return the bytes of a file."""
    with store_errors(url):
        system, path = _system(url)
        return int(system.size(path))


def version_of(url: str) -> str:
    """Return what changes when the file is written anew."""
    with store_errors(url):
        system, path = _system(url)
        return str(system.ukey(path))


@contextmanager
def open_url(url: str) -> Iterator[IO[bytes]]:
    """Yield a file to read or seek in; it is fetched in blocks as it is read."""
    with store_errors(url):
        system, path = _system(url)
        stream = system.open(path, "rb", block_size=_BLOCK_BYTES)
    with stream:
        yield io.BufferedReader(_Fetched(stream, url))


class _Fetched(io.RawIOBase):
    """A stream of fsspec whose own errors are told as the store's: those of whoever reads it are the reader's."""

    def __init__(self, stream: Any, url: str) -> None:
        self._stream = stream
        self._url = url

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with store_errors(self._url):
            return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, buffer: Any) -> int:
        with store_errors(self._url):
            block = self._stream.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)


def publish(directory: Path, url: str, *, overwrite: bool = False) -> None:
    """Copy a directory that proves itself to a store, its manifest last: with it the copy is whole.

    What a copy that was cut off has put there already is not sent again: the manifest's list of sums, which is sent
    first under another name, tells whether it is the same directory.

    Args:
        directory: as `artifacts.write_directory` wrote it.
        url: where its files shall be.
        overwrite: replace what is there.

    Raises:
        InputError: something else is there, or files that cloze did not write.
        RunError: the store refuses.
    """
    manifest = artifacts.read_manifest(directory)
    text = (directory / artifacts.MANIFEST).read_bytes()
    with store_errors(url, writing=True):
        system, path = _system(url)
        last, begun = f"{path}/{artifacts.MANIFEST}", f"{path}/{_BEGUN}"
        found = {name: info["size"] for name, info in system.find(path, detail=True).items()}
        old = system.cat_file(last) if last in found else None
        if old == text:
            return
        _refuse_found(found, path, url, overwrite=overwrite)
        if old is not None:
            system.pipe_file(begun, old)  # cut off from here on, its files are still known to be cloze's
            system.rm_file(last)  # from here on the old one is none
        elif begun in found:
            old = system.cat_file(begun)
        if old == text:
            sent = found
        else:  # a file of another directory may be as long as one of this: of none is it known that it was sent
            sent = {}
            for name in {*manifest.files, *(_files_of(old) if old else ())}:
                if f"{path}/{name}" in found:
                    system.rm_file(f"{path}/{name}")
            system.pipe_file(begun, text)
        for name, record in manifest.files.items():
            if sent.get(f"{path}/{name}") != record.bytes:
                system.put_file(str(directory / name), f"{path}/{name}")
        system.pipe_file(last, text)
        system.rm_file(begun)


def _files_of(manifest: bytes) -> set[str]:
    """Return the files that a manifest lists, whoever wrote it."""
    try:
        return {name for name in json.loads(manifest)["files"] if ".." not in name.split("/")}
    except (ValueError, KeyError, TypeError, AttributeError):
        return set()


def refuse_existing_url(url: str, *, overwrite: bool) -> None:
    """Raise where something is at the URL of a directory that shall be written, and may not be overwritten.

    What a copy that was cut off has put there may be, and hidden files, as those of a new repository of hf://.

    Raises:
        InputError: it is, or files that cloze did not write are there, or the store does not answer.
    """
    with store_errors(url):
        system, path = _system(url)
        found = system.find(path)
    _refuse_found(found, path, url, overwrite=overwrite)


def _refuse_found(found: Collection[str], path: str, url: str, *, overwrite: bool) -> None:
    if path in found:
        what = "is a file, and a directory shall be written"
        raise InputError(what, where=url, remedy="Choose another name")
    if f"{path}/{artifacts.MANIFEST}" in found:
        if not overwrite:
            raise InputError("exists already", where=url, remedy="Choose another name or say --overwrite")
    elif f"{path}/{_BEGUN}" not in found and any(_is_shown(file, path) for file in found):
        what = "holds files that cloze did not write, so nothing there is replaced"
        raise InputError(what, where=url, remedy="Choose another name, or delete them yourself")


def refuse_existing_file(output: Place, *, overwrite: bool, source: Place) -> None:
    """Raise where something is at the place of a file that shall be written, and may not be overwritten.

    Args:
        output: a path or a URL.
        overwrite: whether it may be replaced.
        source: what is read for it, which may not.

    Raises:
        InputError: it is, or the store does not answer.
    """
    place = as_place(output)
    if isinstance(place, Path):
        artifacts.refuse_existing(place, overwrite=overwrite, inputs=[source], directory=False)
    elif is_file(place) and not overwrite:
        raise InputError("exists already", where=place, remedy="Choose another name or say --overwrite")


@contextmanager
def write_file_to(output: Place, *, room: Path) -> Iterator[Path]:
    """Fill the file whose name is yielded; on leaving it becomes `output` in one step, on an error nothing is left.

    That of a URL is filled on this machine and sent when it is whole. Where the store refuses it stays here.

    Args:
        output: a path or a URL.
        room: where files wait that are to be sent.

    Raises:
        RunError: the disk is full or cannot be written, or the store refuses.
    """
    url = as_place(output)
    if isinstance(url, Path):
        with artifacts.write_file(url) as temporary:
            yield temporary
        return
    waiting = _waiting(url, room)
    with artifacts.write_file(waiting) as temporary:
        yield temporary
    try:
        _send(waiting, url)
    except RunError as error:
        remedy = f"Copy it from {waiting}, where it is kept, or run it again"
        raise RunError(error.what, where=url, remedy=remedy) from error
    shutil.rmtree(waiting.parent)


def _send(file: Path, url: str) -> None:
    """Copy a file to a store, where it appears when all of it is there."""
    with store_errors(url, writing=True):
        system, path = _system(url)
        with system.transaction, file.open("rb") as source, system.open(path, "wb") as target:
            shutil.copyfileobj(source, target, _BLOCK_BYTES)


def _waiting(url: str, room: Path, asked: object = None) -> Path:
    """Return where on this machine that waits which is to be at a URL."""
    key = repr((url, asked)).encode()
    return room / hashlib.sha256(key).hexdigest()[:16] / url.rstrip("/").rpartition("/")[2]


def write_to(
    output: str,
    write: Callable[[Path], object],
    *,
    asked: Callable[[], object],
    room: Path,
    overwrite: bool = False,
) -> None:
    """Have a directory written; where its name is a URL on this machine first, and then published.

    What a kill leaves of either half is gone on with: the directory on this machine has a name made of the URL and of
    what was asked for.

    Args:
        output: a path or a URL.
        write: writes a directory that proves itself to the path it is given.
        asked: says what it is made of, and how new that is; the `repr` of it tells it from all else.
        room: where directories wait that are to be published.
        overwrite: replace what is at the URL.

    Raises:
        InputError: something else is there, or what `write` raises.
        RunError: the store refuses; the directory waits in `room`.
    """
    url = as_place(output)
    if isinstance(url, Path):
        write(url)
        return
    refuse_existing_url(url, overwrite=overwrite)
    directory = _waiting(url, room, asked())
    if not directory.exists():
        write(directory)
    try:
        publish(directory, url, overwrite=overwrite)
    except RunError as error:
        remedy = f"Run it again to go on: it is kept in {directory}"
        raise RunError(error.what, where=url, remedy=remedy) from error
    shutil.rmtree(directory.parent)


def cache_directory() -> Path:
    """Return where this user's programs keep what they can make again (the XDG base directory specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cloze"


@contextmanager
def store_errors(url: str, *, writing: bool = False) -> Iterator[None]:
    """Turn what the libraries of stores raise, each a family of its own, into one line for the user."""
    family = RunError if writing else InputError
    try:
        yield
    except ClozeError:
        raise
    except ImportError as error:
        scheme = url.partition("://")[0]
        package = _PACKAGES.get(scheme, "")
        what = f"needs the package {package or 'that fsspec asks for'}: {error}"
        raise InputError(what, where=url, remedy=f"Say pip install {package or 'fsspec'}") from error
    except FileNotFoundError as error:
        raise family("no such file", where=url) from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise family(f"the store refuses: {reason[:300]}", where=url) from error


def _system(url: str) -> tuple[Any, str]:
    """Return fsspec's file system for a URL, and the path in it."""
    require(["fsspec"], extra="stores", where=url)
    from fsspec.core import url_to_fs

    system, path = url_to_fs(url)
    return system, str(path).rstrip("/")
