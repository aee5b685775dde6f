"""The names of classes that the library `datasets` keeps beside columns of their numbers."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from cloze.errors import InputError

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
