"""Find the data of a task: files that are named or in the directory of a benchmark, and rows in memory."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cloze.artifacts import LEARNED_FROM, SCORED_ON, read_card
from cloze.data.reading.annotations import ANSWER, find_tool, from_spacy
from cloze.data.reading.directories import find_splits, glob_files, is_data_set, source_sha256
from cloze.data.reading.memory import (
    Data,
    MemoryRows,
    are_splits,
    describe_row,
    is_table,
    iterate_rows,
    plain_row,
)
from cloze.errors import DataWarning, InputError
from cloze.remote_files import PathOrUrl, is_directory, is_file, is_url, join_path, to_path_or_url
from cloze.tasks.task import Split, Task
from cloze.tasks.texts import TextReader


def read_memory(task: Task, data: Any, name: str, *, labeled: bool = True) -> tuple[Task, MemoryRows]:
    """Return data in memory as rows of a task, and the task, which knows from tuples whether there are pairs.

    Data are rows as dicts or tuples, a table of pandas, datasets or Arrow, or a dict of columns. A tuple has the values
    in the order of the task's columns; a pair of texts may be a tuple in it.
    """
    rows = [from_spacy(row) for row in iterate_rows(data, name, task.answer.keeps_numbers)]
    if not rows:
        raise InputError("holds no rows", where=name)
    if not labeled:
        rows = [(row,) if isinstance(row, str) else row for row in rows]
    rows = [
        (*row[0], *row[1:]) if isinstance(row, tuple) and row and isinstance(row[0], tuple) else row
        for row in rows
    ]
    if widths := [len(row) for row in rows if isinstance(row, tuple)]:
        task, columns = _columns_of_tuples(task, max(widths), labeled=labeled)
    for number, row in enumerate(rows):
        where = f"{name}[{number}]"
        if isinstance(row, tuple):
            if len(row) != len(columns):
                what = f"{len(row)} values, expected {len(columns)}: {', '.join(columns)}"
                raise InputError(what, where=where, remedy="Give these, or a dict by column")
            rows[number] = dict(zip(columns, row, strict=True))
        elif not isinstance(row, Mapping):
            remedy = "Give a tuple such as (text, label), or a dict by column"
            raise InputError(f"{where} is {describe_row(row)}", remedy=remedy)
    memory = MemoryRows(name, tuple(map(plain_row, rows)))
    asked = task.reader.options(task.answer, labeled=True).columns
    # a run keeps the rows as JSON, where a table's column of this name would be Prodigy's
    is_unclear = labeled and is_table(data) and task.settings.get("format") is None
    if is_unclear and not any(column.find({ANSWER: ""}) for column in asked):
        for row, where in memory:
            if find_tool(row) == "prodigy":
                what = f"the column {ANSWER!r} may be Prodigy's"
                raise InputError(what, where=where, remedy="Say `format=prodigy` if it is, or leave it out")
    return task, memory


def _columns_of_tuples(task: Task, width: int, *, labeled: bool) -> tuple[Task, list[str]]:
    """Return the task and the columns that the values of tuples are of."""
    reader = task.reader
    if isinstance(reader, TextReader) and reader.pair_column is None and width == 2 + labeled:
        task = replace(task, reader=replace(reader, pair_column="pair"))
    asked = task.reader.options(task.answer, labeled=labeled).columns
    required = [column.names[0] for column in asked if column.is_required]
    optional = [column.names[0] for column in asked if not column.is_required and column.kind == "texts"]
    if not required:
        what = "tuples have no order of columns here"
        raise InputError(what, where=task.name, remedy="Give dicts by column")
    return task, [*required, *optional[: max(0, width - len(required))]]


_SPLITS: dict[Split, tuple[str, ...]] = {"train": ("train",), "dev": ("validation", "dev")}
"""The names of the splits of data sets of the library datasets."""


def _find_in(task: Task, folder: PathOrUrl, split: Split) -> PathOrUrl | None:
    names, splits = _SPLITS[split], find_splits(folder)
    if name := next((name for name in names if name in splits), None):
        return join_path(folder, name)
    files = task.train_files if split == "train" else task.dev_files
    if file := next(filter(is_file, (join_path(folder, file) for file in files)), None):
        return file
    globs = (join_path(folder, f"{at}{name}-*-of-*.parquet") for name in names for at in ("", "data/"))
    return None if is_url(folder) else next(filter(glob_files, globs), None)


def find_split_file(task: Task, path: PathOrUrl, split: Split) -> PathOrUrl:
    """Return the data of a split: `path` itself, or what the directory has under one of the task's names."""
    if not is_directory(path):
        return to_path_or_url(path)
    file = _find_in(task, path, split)
    if file is None and is_data_set(path):
        return to_path_or_url(path)
    if file is None and (splits := find_splits(path)):
        what = f"no split {' nor '.join(_SPLITS[split])} in this data set, which has {', '.join(splits)}"
        remedy = f"Name one of its directories: {join_path(path, splits[0])}"
        raise InputError(what, where=path, remedy=remedy)
    if file is None:
        files = task.train_files if split == "train" else task.dev_files
        what = f"no {' nor '.join(files)} in this directory"
        raise InputError(what, where=path, remedy="Name the file itself, or several as '*.csv'")
    return file


def open_data(task: Task, data: Any, name: str, split: Split) -> tuple[Task, Data]:
    """Return the source of data, a file or rows in memory, and the task as `read_memory` does."""
    if isinstance(data, (str, Path)):
        return task, find_split_file(task, data, split)
    return read_memory(task, select_split(data, name, split), name)


def select_split(data: Any, name: str, split: Split) -> Any:
    """Return a split of several in memory, as of a `DatasetDict`; other data as they are."""
    if not are_splits(data):
        return data
    if (known := next((known for known in _SPLITS[split] if known in data), None)) is None:
        what = (
            f"no split {' nor '.join(_SPLITS[split])} in these data, which have {', '.join(map(str, data))}"
        )
        raise InputError(what, where=name, remedy=f"Give one of them, as in {name}[{next(iter(data))!r}]")
    return data[known]


def select_splits(train: Any, dev: Any) -> tuple[Any, Any]:
    """Return training and dev data; a `DatasetDict` in memory may hold both, as a directory does."""
    if dev is None and are_splits(train) and not train.keys().isdisjoint(_SPLITS["dev"]):
        dev = train
    return select_split(train, "train", "train"), select_split(dev, "dev", "dev")


def find_files(task: Task, train: str, dev: str | None) -> tuple[str, str | None]:
    """Return the training and dev files; a directory of training data may have both."""
    train_file = str(find_split_file(task, train, "train"))
    if dev is not None:
        return train_file, str(find_split_file(task, dev, "dev"))
    dev_file = _find_in(task, train, "dev") if is_directory(train) else None
    return train_file, None if dev_file is None else str(dev_file)


def warn_of_training_data(checkpoint: Path, data: Data) -> None:
    """Warn if a model learned from a file, under any name: its card has the SHA-256 of each file that it read.

    A URL is not read for this.
    """
    if not (isinstance(data, MemoryRows) or Path(data).is_file() or is_data_set(data)):
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
