"""Settings: frozen dataclasses in Python, TOML on disk, `a.b=value` on the command line.

Each dataclass is defined next to what it configures and holds the defaults; its annotations hold the types, the ranges
and which settings may change when a run is resumed. This module merges, checks, reads and writes them.
"""

import contextlib
import dataclasses
import functools
import json
import math
import re
import sys
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from cloze.errors import InputError
from cloze.file_io import read_file, to_json_text
from cloze.suggestions import did_you_mean
from cloze.text_encoding import CONVERT_FILE, LONE_SURROGATE

Config = TypeVar("Config")
Value = TypeVar("Value")

SETTINGS = "settings"
"""The source of settings that are not from a file, for messages."""
_MAX_KEY_PARTS = 32  # no setting has more than four
_MAX_INTEGER = 1 << 64  # thresholds of 64-bit hashes are the largest
_TOO_LARGE = "has more digits than any setting needs"
_TOO_MANY_PARTS = f"a key has more than {_MAX_KEY_PARTS} parts"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclasses.dataclass(frozen=True)
class Range:
    """The interval of a number, or of each number in a list, as in `Annotated[float, Range("[0, 1)")]`."""

    interval: str

    def check(self, name: str, number: float) -> None:
        """Raise SettingError for a number outside of the interval."""
        start, (low, high), end = self.interval[0], self.interval[1:-1].split(", "), self.interval[-1]
        is_above = number >= float(low) if start == "[" else number > float(low)
        is_below = number <= float(high) if end == "]" else number < float(high)
        if is_above and is_below:
            return
        if (start, low) == ("[", "1"):
            what = f"more than {int(high):,}" if is_above else "not positive"
        else:
            what = f"not {'at least' if start == '[' else 'above'} {low}"
            if high != "inf":
                what += f" and {'at most' if end == ']' else 'below'} {high}"
            elif end == ")":
                what += " and finite"
        raise SettingError(name, f"{number} is {what}")


Positive = Annotated[Value, Range("[1, inf]")]
CHANGEABLE = "may change when a run is resumed"
MOVABLE = "may be moved"
Changeable = Annotated[Value, CHANGEABLE]
"""A setting, or a section, that may change when a run is resumed."""


class Settings:
    """The base of dataclasses of settings, which checks types and ranges."""

    __slots__ = ()
    replaced: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """By key, the settings of the layers below that a setting replaces."""

    def __post_init__(self) -> None:
        check_types(self)
        self._check()

    def _check(self) -> None:
        """Raise ValueError for settings that contradict each other."""


def resolve(config: type[Config], *layers: Mapping[str, Any], where: str = SETTINGS) -> Config:
    """Return settings from layers, each over those before it, and the first over the defaults of the class.

    Args:
        layers: settings by dotted key or in nested mappings; None counts as not given.
        where: the source of the values, for error messages.
    """
    return from_dict(config, merge(*layers, replaced=getattr(config, "replaced", {})), where=where)


def merge(
    *layers: Mapping[str, Any], replaced: Mapping[str, Iterable[str]] = MappingProxyType({})
) -> dict[str, Any]:
    """Return layers of settings as nested dictionaries; None is left out, and `replaced` is as in `Settings`.

    >>> merge({"epochs": 2, "optimizer.learning_rate": 1e-4, "dev": None}, {"optimizer": {"beta1": 0.8}})
    {'epochs': 2, 'optimizer': {'learning_rate': 0.0001, 'beta1': 0.8}}
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        table: dict[str, Any] = {}
        for key, value in layer.items():
            for section in reversed(str(key).split(".") if value is not None else ()):
                value = {section: value}
            _update(table, value or {})
        for key in dict(flatten(table)).keys() & replaced.keys():
            for section, _, name in (other.rpartition(".") for other in replaced[key]):
                inner = merged.get(section) if section else merged
                if isinstance(inner, dict):
                    inner.pop(name, None)
        for key in table.keys() & merged.keys():
            if isinstance(table[key], dict) and not isinstance(merged[key], dict):
                raise InputError(f"{key} must be a table, not {merged[key]!r}", where=SETTINGS)
        _update(merged, table)
    return merged


def _update(table: dict[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in other.items():
        value = to_dict(value) if dataclasses.is_dataclass(value) else value
        value = value.tolist() if hasattr(value, "tolist") else value  # of NumPy
        if isinstance(value, Mapping):
            inner = table.get(key)
            value = _update(inner if isinstance(inner, dict) else {}, value)
        table[key] = str(value) if isinstance(value, Path) else value
    return table


def load(config: type[Config], path: Path | None = None, overrides: Iterable[str] = ()) -> Config:
    """Build `config` from its defaults, then a TOML file, then overrides of the form `section.key=value`."""
    return resolve(config, read_dict(path, overrides), where=SETTINGS if path is None else str(path))


def read_dict(path: Path | None = None, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Read a TOML file and apply overrides."""
    return merge({} if path is None else read_toml(path), *map(_parse_override, overrides))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file into nested dictionaries."""
    content = b""
    try:
        content = read_file(Path(path), max_bytes=1 << 24)
        text = content.decode("utf-8-sig")
        if any(line.partition("=")[0].count(".") >= _MAX_KEY_PARTS for line in text.splitlines()):
            raise ValueError(_TOO_MANY_PARTS)  # tomllib takes minutes for many
        return tomllib.loads(text)
    except FileNotFoundError:
        raise InputError("no such file", where=path) from None
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", where=path, remedy=CONVERT_FILE) from error
    except (ValueError, RecursionError) as error:  # also of a number of thousands of digits
        raise InputError(f"not a TOML file: {error}", where=path, remedy="Write lines KEY = VALUE") from error


def find_recipe(name: str, folder: str | Path = "", *, where: str = "config") -> Path:
    """Return the path of a TOML file or of a recipe of cloze.

    Args:
        name: a path, or the name of a recipe.
        folder: a path, or a folder within the recipes of cloze.
    """
    if name.endswith(".toml") or Path(name).is_file():
        return Path(name)
    recipes = sorted((Path(__file__).parent / "recipes" / folder).glob("*.toml"))
    for recipe in recipes:
        if recipe.stem == name:
            return recipe
    remedy = did_you_mean(name, [recipe.stem for recipe in recipes], choose="Give a TOML file, or one of")
    raise InputError(f"no recipe {name!r}", where=where, remedy=remedy)


def from_dict(
    config: type[Config],
    table: Mapping[str, Any],
    *,
    where: str,
    prefix: str = "",
    default: Config | None = None,
    others: Iterable[str] = (),
) -> Config:
    """Build a dataclass from nested mappings.

    Args:
        prefix: dotted key of the table with a final dot, for error messages, as `where`.
        default: values of missing keys; None takes the defaults of the class.
        others: further keys that an error about an unknown one lists.
    """
    known = {field.name: field for field in dataclasses.fields(typing.cast(Any, config))}
    for key in table:
        if key not in known:
            keys = [*(prefix + name for name in known), *others, *map(prefix.__add__, setting_names(config))]
            keys = [*dict.fromkeys(keys)]
            remedy = did_you_mean(key, keys, choose="Known keys are", full_list="--print-config")
            raise InputError(f"unknown key {prefix}{key}", where=where, remedy=remedy)
    hints = _hints(typing.cast(Any, config))
    values = {
        name: _default_of(field) if default is None else getattr(default, name)
        for name, field in known.items()
    }
    try:
        for key, value in table.items():
            values[key] = _convert(hints[key], value, f"{prefix}{key}", where, values[key])
        if missing := [prefix + name for name, value in values.items() if value is dataclasses.MISSING]:
            raise InputError(f"missing {', '.join(missing)}", where=where)
        return config(**values)
    except SettingError as error:
        if where == SETTINGS:
            raise InputError(error.what, where=error.name) from error
        raise InputError(str(error), where=where) from error
    except ValueError as error:
        raise InputError(f"{prefix.rstrip('.') + ': ' if prefix else ''}{error}", where=where) from error


def setting_names(config: type) -> Iterator[str]:
    """Yield the dotted keys of a settings class, those without a section first."""
    sections: list[tuple[str, type]] = []
    for field in dataclasses.fields(config):
        section = _default_of(field)
        if dataclasses.is_dataclass(section):
            sections.append((field.name, type(section)))
        else:
            yield field.name
    for name, inner in sections:
        yield from (f"{name}.{key}" for key in setting_names(inner))


class SettingError(ValueError):
    """A value of a setting that is out of range."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name} {what}")
        self.name, self.what = name, what


def _default_of(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@functools.cache
def _hints(config: Any) -> dict[str, Any]:
    return typing.get_type_hints(config, include_extras=True)


def check_types(config: Any) -> None:
    """Convert the values of a dataclass to the types of its fields; refuse others, and numbers out of range."""
    kind: Any = type(config)
    for name in (field.name for field in dataclasses.fields(config)):
        value = _convert(_hints(kind)[name], getattr(config, name), name, kind.__name__)
        object.__setattr__(config, name, value)


def has_mark(config: type, key: str, *marks: str) -> bool:
    """Return whether the annotation of a setting, or of a section that contains it, has one of the marks."""
    name, _, rest = key.partition(".")
    hint = _hints(typing.cast(Any, config)).get(name)
    if not {*marks}.isdisjoint(get_args(hint)[1:]):
        return True
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    sections = [kind for kind in (hint, *get_args(hint)) if dataclasses.is_dataclass(kind)]
    return any(has_mark(typing.cast(type, kind), rest, *marks) for kind in sections)


def _convert(hint: Any, value: Any, key: str, where: str, default: Any = None) -> Any:
    """Return a value as the type of a setting, with None for a value that is not set, and lists as tuples."""
    origin = get_origin(hint)
    if origin is Annotated:
        value = _convert(get_args(hint)[0], value, key, where, default)
        for number in value if isinstance(value, tuple) else (value,):
            for mark in get_args(hint)[1:]:
                if isinstance(mark, Range) and number is not None:
                    mark.check(key, number)
        return value
    if origin in (Union, types.UnionType):
        if value is None and types.NoneType in get_args(hint):
            return None
        *others, last = (choice for choice in get_args(hint) if choice is not types.NoneType)
        for choice in others:
            with contextlib.suppress(InputError):
                return _convert(choice, value, key, where, default)
        return _convert(last, value, key, where, default)
    return _convert_value(hint, origin, value, key, where, default)


def _convert_value(hint: Any, origin: Any, value: Any, key: str, where: str, default: Any) -> Any:
    if origin is Literal:
        if not isinstance(value, (str, int)) or value not in get_args(hint):
            choices = list(map(str, get_args(hint)))
            remedy = did_you_mean(value, choices)
            raise InputError(f"{key} = {value!r} is not a choice", where=where, remedy=remedy)
        return value
    if origin in (tuple, dict):
        return _convert_items(hint, value, key, where)
    if dataclasses.is_dataclass(hint):
        if isinstance(value, typing.cast(type, hint)):
            return value
        if not isinstance(value, Mapping):
            raise InputError(f"{key} must be a table, not {value!r}", where=where)
        inner = typing.cast(type, hint)
        start = default if isinstance(default, inner) else None
        return from_dict(inner, value, where=where, prefix=f"{key}.", default=start)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(_convert(int, value, key, where))
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool)):
        raise InputError(f"{key} must be of type {hint.__name__}, not {value!r}", where=where)
    if isinstance(value, (int, float)):
        _check_number(value, key, where)
    return value


def _check_number(value: float, key: str, where: str) -> None:
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        raise InputError(f"{key} {_TOO_LARGE}", where=where)
    if math.isnan(value):
        raise SettingError(key, "nan is not a number")
    if 0 < abs(value) < sys.float_info.min:  # such numbers are 0 during training
        raise InputError(f"{key} is {value}, too close to 0", where=where)


def _convert_items(hint: Any, value: Any, key: str, where: str) -> Any:
    if get_origin(hint) is tuple:
        if not isinstance(value, (list, tuple)):
            raise InputError(f"{key} must be a list, not {value!r}", where=where)
        return tuple(_convert(get_args(hint)[0], item, f"{key}[{i}]", where) for i, item in enumerate(value))
    if not isinstance(value, Mapping):
        raise InputError(f"{key} must be a table, not {value!r}", where=where)
    return {
        str(name): _convert(get_args(hint)[1], item, f"{key}.{name}", where) for name, item in value.items()
    }


def _parse_override(text: str) -> dict[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"cannot read {text!r}", where="--set", remedy="Write section.key=value")
    try:
        parsed, *others = tomllib.loads(f"value = {value}").values()
    except (tomllib.TOMLDecodeError, RecursionError):
        parsed, *others = value.strip().splitlines() or [""]  # a bare word
    except ValueError:
        raise InputError(f"{key.strip()} {_TOO_LARGE}", where="--set") from None
    if others:
        what, remedy = f"more than one setting in {text!r}", "Give each a --set of its own"
        raise InputError(what, where="--set", remedy=remedy)
    if key.count(".") >= _MAX_KEY_PARTS:
        raise InputError(_TOO_MANY_PARTS, where="--set", remedy="Write section.key=value")
    return {key.strip(): parsed}


def to_dict(config: Any) -> dict[str, Any]:
    """Return a dataclass as nested dictionaries, without values that are None, which TOML cannot express."""
    table: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            table[field.name] = to_dict(value)
        elif isinstance(value, tuple):
            table[field.name] = [to_dict(item) if dataclasses.is_dataclass(item) else item for item in value]
        elif value is not None:
            table[field.name] = value
    return table


def differences(one: Any, other: Any) -> dict[str, tuple[Any, Any]]:
    """Return the settings in which two configs or tables differ, by dotted key, with both values; None if unset."""
    tables = [dict(flatten(c if isinstance(c, Mapping) else to_dict(c))) for c in (one, other)]
    values = {key: (tables[0].get(key), tables[1].get(key)) for key in {**tables[0], **tables[1]}}
    return {key: pair for key, pair in values.items() if pair[0] != pair[1]}


def flatten(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield the values of nested dictionaries by dotted key."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def to_toml(config: Any) -> str:
    """Return a dataclass, or a dict of it, as TOML, from which `load` builds an equal one."""
    table = config if isinstance(config, dict) else to_dict(config)
    return "\n".join(_toml_lines(table, "")).strip() + "\n"


def _toml_lines(table: Mapping[str, Any], prefix: str) -> Iterable[str]:
    tables = {k: v for k, v in table.items() if isinstance(v, Mapping)}
    arrays = {k: v for k, v in table.items() if isinstance(v, list) and v and isinstance(v[0], Mapping)}
    for key, value in table.items():
        if key not in tables and key not in arrays:
            name = key if _BARE_KEY.fullmatch(key) else to_json_text(key)
            yield f"{name} = {_toml_value(value, prefix + key)}"
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
        if LONE_SURROGATE.search(value):
            what = f"{value!a} is not Unicode: it has a lone surrogate"
            raise InputError(what, where=key, remedy="Give it another name")
        return to_json_text(value)
    return json.dumps(value) if isinstance(value, bool) else repr(value)
