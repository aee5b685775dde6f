"""The columns of a table that are asked for, and the names that data may have for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cloze.errors import InputError
from cloze.suggestions import list_names, nearest

Kind: TypeAlias = Literal["text", "texts", "label", "flag", "other"]
"""Text; a list of texts; a label or answer, which unlabeled data lack; 0 or 1 for a label; anything else."""


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


def find_column(cells: Mapping[str, Any], column: Column, where: str) -> str:
    """Return the name that a column has among the cells of a row, or raise `NoColumnError`."""
    name = column.find(cells)
    if name is not None:
        return name
    near = nearest(column.names[0], cells, separators=" _")
    columns = f"There are {list_names(map(repr, cells))}" if cells else "The row is empty"
    remedy = f"Did you mean {near!r}? {columns}" if near else columns
    if column.flag:
        # a suggestion that works when pasted
        remedy += (
            f"; say {column.flag.replace('NAME', near)}" if near else f"; say which it is with {column.flag}"
        )
    error = NoColumnError(f"no column {' or '.join(map(repr, column.names))}", where=where, remedy=remedy)
    error.near = near
    raise error
