"""Download the files of a model that are read, from the Hugging Face Hub to its cache; interrupted downloads resume.

The layout of the cache is the one that huggingface_hub documents: files under the hash of their contents in `blobs`,
links to them in `snapshots`, and the commit of each branch in `refs`. Each file is checked against its hash before it
is linked.
"""

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from cloze import file_io
from cloze.errors import InputError, RunError
from cloze.hub import (
    CONFIG,
    LOG,
    MODEL_FILES,
    MODULES,
    PICKLE,
    TOKENIZER_FILES,
    TOKENIZERS,
    WEIGHTS,
    WEIGHTS_INDEX,
    HubFiles,
    HubName,
    cache_directory,
    checkpoint_files,
    find_cached,
    first_missing,
    has_all,
    hub_errors,
    import_hub,
    is_commit,
    is_unreachable,
    module_files,
    retry_after,
    to_cloze_error,
    weight_names,
)
from cloze.progress import SILENT, Bar, Progress

SHOWS_PROGRESS: ContextVar[bool] = ContextVar("SHOWS_PROGRESS", default=True)
"""Whether downloads have a progress bar on a terminal; the command line switches it off for --quiet."""

_OTHER_WEIGHTS = (".bin", ".h5", ".msgpack", ".ckpt.index", ".onnx", ".pt")
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MEGABYTE = 1e6
_TIMEOUT_SECONDS = 30.0
_MAX_ATTEMPTS = 3
_MAX_WAIT_SECONDS = 60
_RETRY_SECONDS = 0.5

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a commit."""

    name: str
    hash: str
    """SHA-256 of a large file; git's hash of a small one."""
    bytes: int


def download(name: HubName, files: HubFiles) -> Path:
    """Return the directory of a model in the cache, after downloading the files that are missing there.

    Without a connection, what is in the cache is used, with a message.

    Args:
        name: the model; a commit whose files are in the cache needs no network.
        files: those that are read.

    Raises:
        InputError: there is no such model or revision, it may not be read, or it has no weights that cloze reads.
        RunError: the Hub cannot be reached or is busy, a file is damaged, or the disk is full.
    """
    hub = import_hub(name)
    from huggingface_hub import errors

    cached = find_cached(name)
    if cached is not None and name.commit is not None and has_all(cached, files):
        return cached
    try:
        commit, available = _list_files(hub, name)
    except Exception as error:
        if not (isinstance(error, errors.OfflineModeIsEnabled) or is_unreachable(error)):
            with hub_errors(name):
                raise
        if cached is None or first_missing(cached, files) is not None:
            raise to_cloze_error(error, name) or error from error
        LOG.info("%s: commit %s, from the cache: there is no connection", name, cached.name)
        return cached
    _check_readable(name, available, files)
    directory = cache_directory(name)
    snapshot = directory / "snapshots" / commit
    with file_io.disk_errors(directory), hub_errors(name):
        copy = _CachedCopy(hub, name, commit, directory)
        wanted = TOKENIZER_FILES if files == "tokenizer" else MODEL_FILES
        indexes = () if WEIGHTS in available or files == "tokenizer" else (WEIGHTS_INDEX,)
        copy.fetch(_pick(available, (*wanted, *indexes)), SILENT)
        if files != "tokenizer":
            weights = [WEIGHTS] if WEIGHTS in available else weight_names(snapshot) or [PICKLE]
            others = (*module_files(snapshot), *checkpoint_files(snapshot))
            copy.fetch(_pick(available, (*weights, *others)), _progress(name))
            if MODULES not in available:
                file_io.write_text(directory / ".no_exist" / commit / MODULES, "", sync=False)
        if name.commit is None:
            ref = file_io.safe_join(directory / "refs", name.revision or "main", where=directory)
            file_io.write_text(ref, commit, sync=False)
    LOG.info("%s: commit %s", name, commit)
    return snapshot


def _list_files(hub: Any, name: HubName) -> tuple[str, dict[str, _File]]:
    """Return the commit of a revision, and its files by name."""
    api = hub.HfApi()
    info = _with_patience(
        name,
        lambda: api.model_info(
            name.repo, revision=name.revision, files_metadata=True, timeout=_TIMEOUT_SECONDS
        ),
    )
    files = {}
    for entry in info.siblings or ():
        key, size = (entry.blob_id, entry.size) if entry.lfs is None else (entry.lfs.sha256, entry.lfs.size)
        if isinstance(key, str) and _HASH.fullmatch(key) and isinstance(size, int):
            files[entry.rfilename] = _File(entry.rfilename, key, size)
    if not is_commit(str(info.sha)):
        raise RunError(f"the Hub says that its commit is {info.sha!r}", where=name)
    return str(info.sha), files


def _check_readable(name: HubName, available: Collection[str], files: HubFiles) -> None:
    """Refuse a repository without a tokenizer or a model that cloze reads, before anything is downloaded."""
    if files == "tokenizer":
        if not any(file in available for file in TOKENIZERS):
            raise InputError(f"no tokenizer: neither {' nor '.join(TOKENIZERS)}", where=name)
        return
    if CONFIG not in available:
        raise InputError(f"not a model: it has no {CONFIG}", where=name, remedy="Give another name")
    if WEIGHTS in available or WEIGHTS_INDEX in available or (files == "pickle" and PICKLE in available):
        return
    if PICKLE in available:
        what = f"its weights are pickled: it has {PICKLE}, but no {WEIGHTS}"
        remedy = f"Run cloze import {name} -o DIR, which reads tensors alone and runs no code in the file"
        raise InputError(what, where=name, remedy=remedy)
    others = sorted(file for file in available if file.endswith((*_OTHER_WEIGHTS, ".safetensors")))
    what = f"no weights that cloze reads: no {WEIGHTS}" + (f", but {', '.join(others[:3])}" if others else "")
    raise InputError(what, where=name, remedy="Give another name or another revision")


def _pick(available: Mapping[str, _File], names: Iterable[str]) -> list[_File]:
    return [available[name] for name in dict.fromkeys(names) if name in available]


def _progress(name: HubName) -> Progress:
    """Return the progress output of downloads: a bar on a terminal, unless it is switched off."""
    is_off = not SHOWS_PROGRESS.get() or bool(os.environ.get("HF_HUB_DISABLE_PROGRESS_BARS"))
    return SILENT if is_off or not sys.stderr.isatty() else Progress()


@dataclass(frozen=True, slots=True)
class _CachedCopy:
    """A commit of a repository in the cache."""

    hub: Any
    name: HubName
    commit: str
    directory: Path

    def fetch(self, files: Iterable[_File], progress: Progress) -> None:
        """Download the files that are missing."""
        missing = [file for file in files if not self._link(file).is_file()]
        total = sum(file.bytes for file in missing)
        if not missing:
            return
        if total > _MEGABYTE:
            LOG.info("%s: downloading %.0f MB to %s", self.name, total / _MEGABYTE, self.directory)
        with progress.bar(self.name.repo, total=total / _MEGABYTE, unit="MB") as bar:
            for file in missing:
                blob = self.directory / "blobs" / file.hash
                lock = self.directory.parent / ".locks" / self.directory.name / f"{file.hash}.lock"
                lock.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(lock):
                    if not blob.is_file():
                        self._download(file, blob, bar)
                self._write_link(file, blob)

    def _link(self, file: _File) -> Path:
        snapshot = self.directory / "snapshots" / self.commit
        return file_io.safe_join(snapshot, file.name, where=self.directory)

    def _write_link(self, file: _File, blob: Path) -> None:
        """Link to a blob, or copy it where links are not supported."""
        link = self._link(file)
        link.parent.mkdir(parents=True, exist_ok=True)
        temporary = file_io.temporary_path(link)
        try:
            temporary.symlink_to(os.path.relpath(blob, link.parent))
        except OSError:
            shutil.copyfile(blob, temporary)
        temporary.replace(link)

    def _download(self, file: _File, blob: Path, bar: Bar) -> None:
        """Download a file to its blob, continuing what an interrupted download left."""
        blob.parent.mkdir(parents=True, exist_ok=True)
        partial = blob.with_name(f"{blob.name}.incomplete")
        if _size(partial) > file.bytes:
            partial.unlink()
        failures, size = 0, _size(partial)
        bar.advance(min(size, file.bytes) / _MEGABYTE)
        while size < file.bytes or not partial.exists():
            try:
                _with_patience(self.name, lambda: self._receive(file, partial, bar))
            except Exception as error:
                failures = 1 if _size(partial) > size else failures + 1
                if not is_unreachable(error) or failures == _MAX_ATTEMPTS:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                if _size(partial) <= size and file.bytes:
                    break
            size = _size(partial)
        if _hash(partial, file) != file.hash:
            partial.unlink()
            what = f"{file.name} is damaged: the contents differ from the hash that the Hub has for it"
            raise RunError(
                what, where=self.name, remedy="Run it again: the file is downloaded from its start"
            )
        partial.replace(blob)

    def _receive(self, file: _File, partial: Path, bar: Bar) -> None:
        """Request the rest of a file and append it."""
        size = _size(partial)
        headers = {**self.hub.utils.build_hf_headers(), "Accept-Encoding": "identity"}
        if size:
            headers["Range"] = f"bytes={size}-"
        url = self.hub.hf_hub_url(self.name.repo, file.name, revision=self.commit)
        session = self.hub.utils.get_session()
        with session.stream("GET", url, headers=headers, timeout=_TIMEOUT_SECONDS) as response:
            self.hub.utils.hf_raise_for_status(response)
            continues = response.status_code == 206
            if size and not continues:
                bar.advance(-size / _MEGABYTE)
            with partial.open("ab" if continues else "wb") as stream:
                for chunk in response.iter_bytes():
                    stream.write(chunk)
                    stream.flush()  # the next process continues from here
                    bar.advance(len(chunk) / _MEGABYTE)


def _with_patience(name: HubName, call: Callable[[], Result]) -> Result:
    """Call a function that makes a request; while the Hub throttles it, wait as long as it says, up to a minute."""
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        try:
            return call()
        except Exception as error:
            status = getattr(getattr(error, "response", None), "status_code", None)
            seconds = retry_after(error) if status == 429 else None
            if seconds is None or seconds > _MAX_WAIT_SECONDS or attempt == _MAX_ATTEMPTS:
                raise
            LOG.info("%s: too many requests, waiting %d seconds", name, seconds)
            time.sleep(seconds)
    raise AssertionError("the last attempt returns or raises")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _hash(path: Path, file: _File) -> str:
    """Return the SHA-256 of a file, or git's hash if it is one of those."""
    if len(file.hash) == 64:
        return file_io.sha256_of_file(path)
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@contextmanager
def quiet_downloads() -> Iterator[None]:
    """Show no progress bars of downloads."""
    token = SHOWS_PROGRESS.set(False)
    try:
        yield
    finally:
        SHOWS_PROGRESS.reset(token)
