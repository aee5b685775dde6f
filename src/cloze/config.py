"""Settings: frozen dataclasses in Python, TOML on disk, `a.b=value` on the command line.

The dataclasses stand beside what they configure and hold every default; this file only reads and writes them.
An unknown key or a wrong type is an error that names the dotted key, and the nearest key that exists.
"""

import dataclasses
import difflib
import json
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from cloze.errors import InputError

Config = TypeVar("Config")

_MOST_TOML_BYTES = 1 << 24
_SURROGATE = re.compile("[\ud800-\udfff]")


def load(config: type[Config], path: Path | None = None, overrides: Iterable[str] = ()) -> Config:
    """Build `config` from its defaults, then a TOML file, then overrides of the form `section.key=value`.

    Raises:
        InputError: a key that nobody reads, a wrong type, a value out of range, a file that is not TOML.
    """
    overrides = list(overrides)
    return from_table(config, read_table(path, overrides), where=name_of(path, overrides))


def name_of(path: Path | None, overrides: Sequence[str]) -> str:
    """Say where settings come from, for an error."""
    if path is None:
        return "settings"
    return f"{path} and flags" if overrides else str(path)


def read_table(path: Path | None = None, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Read a TOML file, then overrides, into nested dictionaries."""
    table = {} if path is None else read_toml(path)
    for override in overrides:
        merge(table, _parse_override(override))
    return table


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file into nested dictionaries."""
    try:
        if (size := Path(path).stat().st_size) > _MOST_TOML_BYTES:
            raise InputError(f"{size:,} bytes, at most {_MOST_TOML_BYTES:,} are read", where=path)
        return tomllib.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise InputError("no such file", where=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise InputError(f"not a TOML file: {error}", where=path) from error


def from_table(
    config: type[Config],
    table: Mapping[str, Any],
    *,
    where: str,
    prefix: str = "",
    default: Config | None = None,
) -> Config:
    """Build one dataclass from a mapping, its nested dataclasses from the mappings in it.

    What the mapping leaves out is as in `default`; without one, as the class says.
    """
    assert dataclasses.is_dataclass(config)
    hints = typing.get_type_hints(config)
    known = {field.name: field for field in dataclasses.fields(config)}
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            remedy = (
                f"Did you mean {prefix}{near[0]}" if near else f"Known keys are {', '.join(sorted(known))}"
            )
            raise InputError(f"unknown key {prefix}{key}", where=where, remedy=remedy)
    values = {}
    for key, value in table.items():
        inner = _default_of(known[key]) if default is None else getattr(default, key)
        values[key] = _convert(hints[key], value, f"{prefix}{key}", where, inner)
    needed = [name for name, field in known.items() if name not in values and _has_no_default(field)]
    if needed and default is None:
        raise InputError(f"not given: {', '.join(prefix + name for name in needed)}", where=where)
    try:
        return (
            config(**values) if default is None else dataclasses.replace(typing.cast(Any, default), **values)
        )
    except ValueError as error:
        raise InputError(f"{prefix.rstrip('.') + ': ' if prefix else ''}{error}", where=where) from error


def _has_no_default(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default_of(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _convert(hint: Any, value: Any, key: str, where: str, default: Any = None) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        choices = [argument for argument in get_args(hint) if argument is not type(None)]
        return _convert(choices[0], value, key, where, default)
    if origin is Literal:
        if value not in get_args(hint):
            near = difflib.get_close_matches(str(value), [str(choice) for choice in get_args(hint)], n=1)
            remedy = (
                f"Did you mean {near[0]}" if near else f"Choose from {', '.join(map(str, get_args(hint)))}"
            )
            raise InputError(f"{key} = {value!r} is not a choice", where=where, remedy=remedy)
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise InputError(f"{key} must be a list, not {value!r}", where=where)
        return tuple(_convert(get_args(hint)[0], item, f"{key}[{i}]", where) for i, item in enumerate(value))
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise InputError(f"{key} must be a table, not {value!r}", where=where)
        inner = typing.cast(type, hint)
        start = default if isinstance(default, inner) else None
        return from_table(inner, value, where=where, prefix=f"{key}.", default=start)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool)):
        raise InputError(f"{key} must be of type {hint.__name__}, not {value!r}", where=where)
    return value


def as_overrides(values: Mapping[str, Any]) -> list[str]:
    """Turn dotted keys and values into overrides; a value that is None was not given.

    >>> as_overrides({"model.size": "mini", "steps": None})
    ['model.size="mini"']
    """
    return [f"{key}={_toml_value(value, key)}" for key, value in values.items() if value is not None]


def _parse_override(text: str) -> dict[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"cannot read {text!r}", where="--set", remedy="Write section.key=value")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()  # a bare word is a string
    table: dict[str, Any] = {}
    inner = table
    *sections, last = key.strip().split(".")
    for section in sections:
        inner = inner.setdefault(section, {})
    inner[last] = parsed
    return table


def merge(table: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Put the values of one nested table into another, over those that are there."""
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(table.get(key), dict):
            merge(table[key], value)
        else:
            table[key] = value


def to_table(config: Any) -> dict[str, Any]:
    """Turn a dataclass into nested dictionaries, without what is None: TOML has no word for it."""
    table: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            table[field.name] = to_table(value)
        elif isinstance(value, tuple):
            table[field.name] = [to_table(item) if dataclasses.is_dataclass(item) else item for item in value]
        elif value is not None:
            table[field.name] = value
    return table


def to_toml(config: Any) -> str:
    """Write a dataclass as TOML that `load` reads back to an equal one.

    Raises:
        InputError: a text is none of Unicode's: TOML cannot hold it.
    """
    return "\n".join(_toml_lines(to_table(config), "")).strip() + "\n"


def _toml_lines(table: Mapping[str, Any], prefix: str) -> Iterable[str]:
    tables = {k: v for k, v in table.items() if isinstance(v, Mapping)}
    arrays = {k: v for k, v in table.items() if isinstance(v, list) and v and isinstance(v[0], Mapping)}
    for key, value in table.items():
        if key not in tables and key not in arrays:
            yield f"{key} = {_toml_value(value, prefix + key)}"
    for key, inner in tables.items():
        yield f"\n[{prefix}{key}]"
        yield from _toml_lines(inner, f"{prefix}{key}.")
    for key, items in arrays.items():
        for item in items:
            yield f"\n[[{prefix}{key}]]"
            yield from _toml_lines(item, f"{prefix}{key}.")


def _toml_value(value: Any, key: str) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml_value(item, key) for item in value)}]"
    if isinstance(value, str):
        if _SURROGATE.search(value):
            what = f"{value!a} is not Unicode: it holds half of a pair of surrogates"
            raise InputError(what, where=key, remedy="Give it another name")
        return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007f")  # raw in JSON, not in TOML
    return json.dumps(value) if isinstance(value, bool) else repr(value)
