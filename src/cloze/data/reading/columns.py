"""The columns of a table that are asked for, and the names that data may have for them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cloze.errors import InputError
from cloze.suggestions import list_names, nearest

Kind: TypeAlias = Literal["text", "texts", "label", "flag", "other"]
"""Text; a list of texts; a label or answer, which unlabeled data lack; 0 or 1 for a label; anything else."""

_BOOLEANS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
_MAX_WORDS = 3  # of a suggested name
_END_OF_SENTENCE = re.compile(r"[.?!…](?:\s|$)")
_MIN_RATIO = 0.75  # 'Ticket' is no spelling of 'text'


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is asked for."""

    key: str
    """Name by which a row has its cell."""
    kind: Kind = "text"
    names: tuple[str, ...] = ()
    """Names that data may have for it, of which the first that is there is used; by default the key."""
    setting: str | None = None
    """Setting of a task that names it."""
    flag: str | None = None
    """What the user may say to name another, for the remedy if there is none."""
    flags_setting: str | None = None
    """Setting of a task that names columns of flags to read instead, for the remedy."""
    is_required: bool = True
    """Whether a row without it is an error. A null cell of another column is as none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", self.names or (self.key,))

    @property
    def is_label(self) -> bool:
        """Whether it is read of labeled data only, as a label is, and lists of texts that may be missing."""
        return self.kind in ("label", "flag") or (self.kind == "texts" and not self.is_required)

    def find(self, cells: Mapping[str, Any]) -> str | None:
        """Return the name that it has among the cells of a row, or among names."""
        return next((name for name in self.names if name in cells), None)


class NoColumnError(InputError):
    """A row has no such column."""

    near: str | None = None
    """A column of a similar name, which the remedy suggests."""
    flags: Sequence[str] = ()
    """What the user may say to name each missing column."""


def as_flag(value: object) -> bool | None:
    """Return a cell that is 0 or 1, true or false as a boolean; None if it is anything else."""
    return _BOOLEANS.get(str(value).strip().lower())


def find_columns(cells: Mapping[str, Any], columns: Sequence[Column], where: str) -> dict[str, str]:
    """Return the names that columns have among the cells of a row, without optional ones that it lacks or are null.

    Args:
        cells: those of a row by name; all are None if only the names are known.
        columns: all that are asked for.
        where: "file:line", for the error.

    Raises:
        NoColumnError: a required column is missing; the remedy names all that the row suggests.
    """
    names: dict[str, str] = {}
    missing: list[Column] = []
    for column in columns:
        name = column.find(cells)
        if name is not None and (column.is_required or cells[name] is not None):
            names[column.key] = name
        elif column.is_required:
            missing.append(column)
    if missing:
        raise _no_column(cells, missing, {*names.values()}, where)
    return names


def _no_column(
    cells: Mapping[str, Any], missing: Sequence[Column], others: set[str], where: str
) -> NoColumnError:
    """Return the error about missing columns; `others` are the names of the columns that were found."""
    near = _similar_name(missing[0], cells)
    suggested = [_suggest_flag(column, cells, others) for column in missing]
    remedy = f"There are {list_names(map(repr, cells))}" if cells else "The row is empty"
    if near:
        remedy = f"Did you mean {near!r}? {remedy}"
    if suggested[0]:  # a suggestion that works when pasted
        remedy += f"; say {' and '.join(filter(None, suggested))}"
    elif missing[0].flag:
        remedy += f"; say which it is with {missing[0].flag}"
        if missing[0].flags_setting and all(cell is None for cell in cells.values()):
            remedy += f""", or columns of 0 and 1 with `{missing[0].flags_setting}=["…", "…"]`"""
    error = NoColumnError(f"no column {' or '.join(map(repr, missing[0].names))}", where=where, remedy=remedy)
    error.near = near
    error.flags = [
        text for column, flag in zip(missing, suggested, strict=True) if (text := flag or column.flag)
    ]
    return error


def _suggest_flag(column: Column, cells: Mapping[str, Any], others: set[str]) -> str | None:
    """Return the setting that reads a column, with a similar name or the names of all columns of flags; or None."""
    if near := _similar_name(column, cells):
        return column.flag and column.flag.replace("NAME", near)
    flags = [
        name
        for name, cell in cells.items()
        if as_flag(cell) is not None and name.strip() and as_flag(name) is None and name not in others
    ]
    if not column.flags_setting or len(flags) < 2:  # one is rather the number of the row
        return None
    return f"`{column.flags_setting}={json.dumps(flags, ensure_ascii=False)}`"


def _similar_name(column: Column, cells: Mapping[str, Any]) -> str | None:
    """Return the name of the most similar column; without a header the names are the texts of a row."""
    names = [name for name in cells if len(name.split()) <= _MAX_WORDS and not _END_OF_SENTENCE.search(name)]
    return nearest(column.names[0], names, separators=" _", min_ratio=_MIN_RATIO)
