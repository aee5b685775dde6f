"""Several files that are one source: globs, and directories of `save_to_disk` of the library datasets and of brat."""

import glob
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloze import file_io
from cloze.data.reading.files import file_sha256
from cloze.errors import InputError
from cloze.remote_files import is_file, is_url, list_files

_SPLITS = "dataset_dict.json"
_STATE = "state.json"
_INFO = "dataset_info.json"
_CACHE_PREFIX = "cache-"  # of files that map and filter left
ANNOTATIONS = ".ann"
"""Extension of brat's files of annotations, each beside a text of the same name."""
TEXT = ".txt"


def names_in_dataset(folder: str | Path, names: Sequence[str]) -> list[str] | None:
    """Return the files or splits with the rows of a folder of `save_to_disk`, given its names; None for another one."""
    if _SPLITS in names:
        return _names_within(folder, _SPLITS, _json_list(folder, _SPLITS, "splits"))
    if _STATE in names and _INFO in names:
        if _json_list(folder, _STATE, "_indices_data_files"):
            what = "only a selection of these rows is the data set, which the library datasets applies"
            remedy = "Call flatten_indices() before save_to_disk"
            raise InputError(what, where=folder, remedy=remedy)
        return _names_within(
            folder, _STATE, [entry["filename"] for entry in _json_list(folder, _STATE, "_data_files")]
        )
    if _INFO in names:
        return [name for name in names if name.endswith(".arrow") and not name.startswith(_CACHE_PREFIX)]
    return None


def _names_within(folder: str | Path, file: str, names: Sequence[object]) -> list[str]:
    for name in names:
        file_io.safe_join(Path(folder), str(name), where=Path(folder, file))
    return list(map(str, names))


def _json_list(folder: str | Path, name: str, key: str) -> list[Any]:
    table = file_io.read_json(Path(folder, name), remedy="The data set is damaged: copy it again")
    values: list[Any] = table.get(key) or []
    return values


def _local_folder(path: object) -> Path | None:
    if not isinstance(path, str | Path) or is_url(path) or not Path(path).is_dir():
        return None
    return Path(path)


def find_splits(path: object) -> list[str]:
    """Return the splits of a local directory of a DatasetDict; none of anything else."""
    folder = _local_folder(path)
    if folder is None or not (folder / _SPLITS).is_file():
        return []
    return _names_within(folder, _SPLITS, _json_list(folder, _SPLITS, "splits"))


def dataset_files(path: object) -> list[str]:
    """Return the Arrow files of a local directory with one split of a data set; none of anything else."""
    folder = _local_folder(path)
    if folder is None or not (folder / _INFO).is_file():
        return []
    names = names_in_dataset(folder, sorted(entry.name for entry in folder.iterdir()))
    return [str(folder / name) for name in names or ()]


def brat_texts(path: object, *, labeled: bool) -> list[Path]:
    """Return the texts below a local directory of brat, sorted; none of anything else.

    Without annotations it is one only if labels are not needed.
    """
    folder = _local_folder(path)
    if folder is None:
        return []
    texts = sorted(folder.rglob(f"*{TEXT}"))
    is_annotated = any(text.with_suffix(ANNOTATIONS).is_file() for text in texts)
    return texts if is_annotated or not labeled else []


def glob_files(path: object) -> list[str]:
    """Return the files that a glob matches, sorted by name; none of anything else."""
    if not isinstance(path, str | Path) or not glob.has_magic(str(path)) or Path(path).exists():
        return []
    return list_files(str(path)) if is_url(path) else sorted(glob.glob(str(path), recursive=True))


def _files_of(path: object) -> list[str]:
    """Return the files of a local directory of data, or of a glob; none of anything else."""
    of_brat = (
        file for text in brat_texts(path, labeled=True) for file in (text, text.with_suffix(ANNOTATIONS))
    )
    return glob_files(path) or dataset_files(path) or [str(file) for file in of_brat if file.is_file()]


def is_data_set(path: object) -> bool:
    """Return whether a local directory, or a glob, is one source of labeled data."""
    return bool(_files_of(path))


def is_source(path: str) -> bool:
    """Return whether a path or URL is a file, a directory of data or a glob."""
    return is_data_set(path) or is_file(path)


def source_sha256(path: str) -> str:
    """Return the SHA-256 of a file, or of the names and SHA-256 of all files of a directory of data or a glob."""
    files = _files_of(path)
    if not files:
        return file_sha256(path)
    digest = hashlib.sha256()
    for file in files:
        name = Path(file).relative_to(path) if Path(path).is_dir() else Path(file).name
        digest.update(f"{name} {file_sha256(file)}\n".encode())
    return digest.hexdigest()
