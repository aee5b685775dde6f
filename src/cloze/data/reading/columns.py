"""The columns of a table that are asked for, and the names of classes that `datasets` keeps for columns of numbers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cloze.errors import InputError
from cloze.suggestions import list_names

Kind: TypeAlias = Literal["text", "texts", "label", "flag", "other"]
"""Text; a list of texts; a label or answer, which unlabeled data lack; 0 or 1 for a label; anything else."""

_BOOLEANS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is asked for."""

    key: str
    """Name by which a row has its cell."""
    kind: Kind = "text"
    names: tuple[str, ...] = ()
    """Names that data may have for it, of which the first that is there is used; by default the key."""
    setting: str | None = None
    flag: str | None = None
    """Setting by which the user names another, for the remedy if there is none."""
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
        for name in self.names:  # next() takes three times as long
            if name in cells:
                return name
        return None


class NoColumnError(InputError):
    """A row has no such column."""


def as_flag(value: object) -> bool | None:
    """Return a cell that is 0 or 1, true or false as a boolean; None if it is anything else."""
    return _BOOLEANS.get(str(value).strip().lower())


def find_columns(cells: Mapping[str, Any], columns: Sequence[Column], where: str) -> dict[str, str]:
    """Return the names that columns have among the cells of a row, without optional ones that it lacks or are null.

    All cells are None if only the names are known.
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
        flags = list(dict.fromkeys(column.flag for column in missing if column.flag))
        remedy = f"There are {list_names(map(repr, cells))}" if cells else "The row is empty"
        remedy += f"; say which it is with {' and '.join(flags)}" if flags else ""
        what = f"no column {' or '.join(map(repr, missing[0].names))}"
        raise NoColumnError(what, where=where, remedy=remedy)
    return names


KeepsNumbers: TypeAlias = Callable[[str, Sequence[str]], bool]
"""Whether a column whose classes have these names is read as numbers."""


def find_class_names(table: Any, keeps_numbers: KeepsNumbers) -> dict[str, tuple[str, ...]]:
    """Return the names of classes by column of an Arrow table or schema, or a data set of `datasets`.

    Columns that are read as numbers are left out.
    """
    features = getattr(table, "features", None)
    metadata = getattr(getattr(table, "schema", table), "metadata", None)
    if features is None and isinstance(metadata, Mapping) and b"huggingface" in metadata:
        try:
            features = json.loads(metadata[b"huggingface"])["info"]["features"]
        except (ValueError, KeyError, TypeError):  # of another program
            return {}
    if not isinstance(features, Mapping):
        return {}
    known = {column: names for column, feature in features.items() if (names := _names(feature))}
    return {column: names for column, names in known.items() if not keeps_numbers(column, names)}


def _names(feature: Any) -> tuple[str, ...]:
    """Return the names in a feature, an object or JSON, or in the feature of its items."""
    if isinstance(feature, list):
        return _names(feature[0]) if feature else ()
    if not isinstance(feature, Mapping):
        feature = {key: getattr(feature, key, None) for key in ("names", "feature")}
    inner = feature.get("feature")
    return tuple(feature.get("names") or ()) or (() if inner is None else _names(inner))


def name_classes(
    row: Mapping[str, Any], class_names: Mapping[str, Sequence[str]], where: str
) -> dict[str, Any]:
    """Return a row with the names of classes for their numbers; -1, which `datasets` has for no class, is null."""
    return {
        column: _name(cell, class_names[column], column, where) if column in class_names else cell
        for column, cell in row.items()
    }


def _name(cell: Any, names: Sequence[str], column: str, where: str) -> Any:
    cell = cell.tolist() if hasattr(cell, "tolist") else cell  # NumPy and torch
    if isinstance(cell, list | tuple):
        return [_name(item, names, column, where) for item in cell]
    if not isinstance(cell, int) or isinstance(cell, bool):
        return cell
    if cell == -1:
        return None
    if not 0 <= cell < len(names):
        what = f"{column!r} holds the number {cell}, and there are {len(names)} names of classes"
        raise InputError(what, where=where, remedy="They count from 0")
    return names[cell]
