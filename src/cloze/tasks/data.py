"""Find the files of a task: named, in the directory of a benchmark, or rows in memory."""

import warnings
from pathlib import Path
from typing import Any

from cloze.artifacts import LEARNED_FROM, SCORED_ON, read_card
from cloze.data.reading.directories import find_splits, is_data_directory, source_sha256
from cloze.data.reading.memory import MemoryRows, Source
from cloze.errors import DataWarning, InputError
from cloze.remote_files import PathOrUrl, is_directory, is_file, join_path, to_path_or_url
from cloze.tasks.memory import read_memory
from cloze.tasks.task import AnyTask, Split


def find_split_file(task: AnyTask, path: PathOrUrl, split: Split) -> PathOrUrl:
    """Return the data of a split: `path` itself, or the file or split in that directory with one of the task's names.

    Raises:
        InputError: there is no such file.
    """
    if not is_directory(path):
        return to_path_or_url(path)
    file = _find_in(task, path, split)
    if file is None and is_data_directory(path):
        return to_path_or_url(path)
    if file is None and (splits := find_splits(path)):
        what = f"no split {' nor '.join(_SPLITS[split])} in this data set, which has {', '.join(splits)}"
        raise InputError(
            what, where=path, remedy=f"Name one of its directories: {join_path(path, splits[0])}"
        )
    if file is None:
        what = f"no {' nor '.join(_names(task, split))} in this directory"
        raise InputError(what, where=path, remedy="Name the file itself")
    return file


def open_data(task: AnyTask, data: Any, name: str, split: Split) -> tuple[AnyTask, Source]:
    """Return the source of data, a file or rows in memory, and the task as `read_memory` does.

    Args:
        data: a file, the directory of a benchmark, or rows.
        name: the argument that has the data, for messages.

    Raises:
        InputError: there is no such file, or a row is of another kind.
    """
    if isinstance(data, (str, Path)):
        return task, find_split_file(task, data, split)
    return read_memory(task, data, name)


_SPLITS: dict[Split, tuple[str, ...]] = {"train": ("train",), "dev": ("validation", "dev")}
"""The names of the splits of data sets of the library datasets."""


def _names(task: AnyTask, split: Split) -> tuple[str, ...]:
    return task.train_files if split == "train" else task.dev_files


def _find_in(task: AnyTask, folder: PathOrUrl, split: Split) -> PathOrUrl | None:
    splits = find_splits(folder)
    if name := next((name for name in _SPLITS[split] if name in splits), None):
        return join_path(folder, name)
    files = (join_path(folder, name) for name in _names(task, split))
    return next((file for file in files if is_file(file)), None)


def find_files(task: AnyTask, train: str, dev: str | None) -> tuple[str, str | None]:
    """Return the training and dev files; a directory of training data may have both.

    Raises:
        InputError: a file does not exist.
    """
    train_file = str(find_split_file(task, train, "train"))
    if dev is not None:
        return train_file, str(find_split_file(task, dev, "dev"))
    dev_file = _find_in(task, train, "dev") if is_directory(train) else None
    return train_file, None if dev_file is None else str(dev_file)


def warn_of_training_data(checkpoint: Path, data: Source) -> None:
    """Warn if a model learned from a file, under any name: its card has the SHA-256 of each file that it read.

    A URL is not read for this.
    """
    if not (isinstance(data, MemoryRows) or Path(data).is_file() or is_data_directory(data)):
        return
    lines = read_card(checkpoint).splitlines()
    learned = [line for line in lines if line.startswith(f"| {LEARNED_FROM} |")]
    if not learned:
        return
    sha256 = data.sha256 if isinstance(data, MemoryRows) else source_sha256(str(data))
    if not any(sha256 in line for line in learned):
        return
    is_held_out = not any(line.startswith(f"| {SCORED_ON} |") for line in lines)
    besides = ", all but the rows that its run held out" if is_held_out else ""
    what = f"the model learned from these data{besides}: the scores do not tell how it does on others"
    warnings.warn(DataWarning(f"{data}: {what}. Give data that it has not seen"), stacklevel=2)
