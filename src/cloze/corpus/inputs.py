"""What the user names to files: files, folders, globs, URLs, and directories that `save_to_disk` wrote."""

import glob
import json
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cloze.corpus.streams import STDIN, file_version
from cloze.corpus.tables import HUB
from cloze.errors import InputError
from cloze.stores import as_place, files_at, is_url

_SPLITS = "dataset_dict.json"
_STATE = "state.json"
_INFO = "dataset_info.json"
_CACHE = "cache-"  # what map and filter left there


def find_files(given: str) -> list[str]:
    """Return the files of an input; those of a folder or glob in the order of their names.

    Hidden files are left out, links are followed, and a folder is not entered from below itself.

    Raises:
        InputError: nothing is there, or something that is no file.
    """
    if given == STDIN:
        return [given]
    if is_url(given):
        return files_at(given)
    try:
        if os.path.isdir(given):
            found = list(_walk(given, ()))
        elif os.path.lexists(given):
            found = [_regular(given)]
        else:
            found = [file for match in sorted(glob.glob(given, recursive=True)) for file in _below(match)]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=error.filename or given) from error
    if not found:
        raise InputError("no file in this folder" if os.path.isdir(given) else "no such file", where=given)
    return list(dict.fromkeys(found))


def versions_of(given: Sequence[str]) -> dict[str, object]:
    """Return what changes when a file of the inputs is written anew; stdin is never the same again.

    Of a data set of the hub nobody knows when it was written: it is its name.

    Raises:
        InputError: as `find_files`.
    """
    from_hub = {each: each for each in given if each.startswith(HUB)}
    files = [file for each in given if each not in from_hub for file in find_files(each)]
    known = {file: uuid.uuid4().hex if file == STDIN else file_version(file) for file in files}
    return {**from_hub, **known}


def paths_on_disk(inputs: Iterable[str | Path]) -> Iterator[Path]:
    """Yield the files and folders of this machine that inputs stand for, folders as they are."""
    for given in map(str, inputs):
        place = as_place(given)
        if given == STDIN or given.startswith(HUB) or not isinstance(place, Path):
            continue
        yield from [place] if os.path.lexists(place) else map(Path, glob.glob(str(place), recursive=True))


def _below(match: str) -> Iterator[str]:
    if os.path.isdir(match):
        yield from _walk(match, ())
    else:
        yield _regular(match)


def _walk(folder: str, above: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield the files below a folder; `above` are the folders on the way to it."""
    known = os.stat(folder)
    here = (known.st_dev, known.st_ino)
    if here in above:
        return
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    for name in _of_dataset(folder, names) or names:
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            yield from _walk(path, (*above, here))
        else:
            yield _regular(path)


def _of_dataset(folder: str, names: Sequence[str]) -> list[str] | None:
    """Return which of the names in a folder hold the rows, where `save_to_disk` wrote it."""
    if _SPLITS in names:
        return _listed(folder, _SPLITS, "splits")
    if _STATE in names and _INFO in names:
        if _listed(folder, _STATE, "_indices_data_files"):
            what = "only a selection of these rows is the data set, which the library datasets applies"
            raise InputError(
                what, where=folder, remedy="Write it anew with flatten_indices() before save_to_disk"
            )
        return [str(each["filename"]) for each in _listed(folder, _STATE, "_data_files")]
    if _INFO in names:
        return [name for name in names if name.endswith(".arrow") and not name.startswith(_CACHE)]
    return None


def _listed(folder: str, name: str, key: str) -> list[Any]:
    file = os.path.join(folder, name)
    try:
        listed: list[Any] = json.loads(Path(file).read_bytes()).get(key) or []
    except (ValueError, AttributeError) as error:
        raise InputError("damaged: no JSON object", where=file, remedy="Copy the data set anew") from error
    return listed


def _regular(path: str) -> str:
    """Return a path at which there is a file.

    Raises:
        InputError: it is none.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        what = "a link to nothing" if os.path.islink(path) else "no such file, though the data set names it"
        raise InputError(what, where=path) from None
    if stat.S_ISFIFO(mode):
        raise InputError("is a pipe, not a file", where=path, remedy=f"Read it as stdin: - < {path}")
    if not stat.S_ISREG(mode):
        raise InputError("is a device or socket, not a file", where=path)
    return path
