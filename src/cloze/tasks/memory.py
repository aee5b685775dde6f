"""Examples in memory as the rows of a task, which are read and checked as those of a file."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cloze.data.reading.annotations import from_spacy
from cloze.data.reading.memory import MemoryRows, describe_row, iterate_rows, plain_row
from cloze.errors import InputError
from cloze.tasks.task import AnyTask
from cloze.tasks.texts import CustomTexts


def read_memory(task: AnyTask, data: Any, name: str, *, labeled: bool = True) -> tuple[AnyTask, MemoryRows]:
    """Return data in memory as rows of a task, and the task, which knows from tuples whether there are pairs.

    Args:
        data: rows as dicts or tuples, or a table of pandas, datasets or Arrow, or a dict of columns. A tuple has the
            values in the order of the task's columns; a pair of texts may be a tuple in it.
        name: name of the argument, for messages.
        labeled: whether tuples have labels.

    Raises:
        InputError: a row is of another kind, or there are no rows.
    """
    rows = [from_spacy(row) for row in iterate_rows(data, name, task.table(labeled=labeled).keeps_numbers)]
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
    return task, MemoryRows(name, tuple(map(plain_row, rows)))


def _columns_of_tuples(task: AnyTask, width: int, *, labeled: bool) -> tuple[AnyTask, list[str]]:
    """Return the task and the columns that the values of tuples are of.

    Raises:
        InputError: the task has no order of columns.
    """
    if isinstance(task, CustomTexts) and task.pair_column is None and width == 2 + labeled:
        task = replace(task, pair_column="pair")
    asked = task.table(labeled=labeled).columns
    required = [column.names[0] for column in asked if column.is_required]
    optional = [column.names[0] for column in asked if not column.is_required and column.kind == "texts"]
    if not required:
        raise InputError(
            "tuples have no order of columns here", where=task.name, remedy="Give dicts by column"
        )
    return task, [*required, *optional[: max(0, width - len(required))]]
