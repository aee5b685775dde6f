"""Settings: frozen dataclasses in Python, TOML on disk, `a.b=value` on the command line.

Each dataclass is defined next to what it configures and holds the defaults; this module reads and writes them.
An unknown key or a wrong type is an error with the dotted key and the nearest existing key.
"""

import contextlib
import dataclasses
import json
import math
import operator
import re
import sys
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin

from cloze.errors import InputError
from cloze.file_io import read_file
from cloze.suggestions import MAX_LISTED, check_keywords, did_you_mean, list_names, nearest, no_such_path
from cloze.text_encoding import LONE_SURROGATE, how_to_convert, to_json_text

Config = TypeVar("Config")

SETTINGS = "settings"
"""The source of settings that are not from a file, for messages."""
_MAX_TOML_BYTES = 1 << 24
_MAX_KEY_PARTS = 32
"""No setting has more than four."""
_MAX_INTEGER = 1 << 64  # thresholds of 64-bit hashes are the largest
_TOO_LARGE = "has more digits than any setting needs"
_TOO_MANY_PARTS = f"a key has more than {_MAX_KEY_PARTS} parts"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Settings:
    """The base of dataclasses whose settings a task or a model's size has other defaults for: knows which are given."""

    __slots__ = ("_explicit",)
    _explicit: frozenset[str]

    def __new__(cls, *_: object, **values: object) -> Self:
        """Record the names of the settings."""
        known = [field.name for field in dataclasses.fields(typing.cast(Any, cls))]
        check_keywords(cls.__name__, values, known, lambda: setting_names(cls))
        settings = super().__new__(cls)
        object.__setattr__(settings, "_explicit", frozenset(values))
        return settings

    def explicit(self) -> dict[str, Any]:
        """Return the settings that were given, as nested dictionaries.

        After `dataclasses.replace`, which gives all, those that differ from the default.
        """
        all_fields = dataclasses.fields(typing.cast(Any, self))
        names = self._explicit if len(self._explicit) < len(all_fields) else frozenset[str]()
        table: dict[str, Any] = {}
        for name, value in to_dict(self).items():
            field = next(field for field in all_fields if field.name == name)
            setting = getattr(self, name)
            if name in names or _is_required(field) or setting != _default_of(field):
                table[name] = setting.explicit() if isinstance(setting, Settings) else value
        return table


def load(config: type[Config], path: Path | None = None, overrides: Iterable[str] = ()) -> Config:
    """Build `config` from its defaults, then a TOML file, then overrides of the form `section.key=value`."""
    return from_dict(config, read_dict(path, overrides), where="settings" if path is None else str(path))


def read_dict(path: Path | None = None, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Read a TOML file and apply overrides."""
    table = {} if path is None else read_toml(path)
    for override in overrides:
        merge_dicts(table, _parse_override(override))
    return table


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file into nested dictionaries."""
    content = b""
    try:
        content = read_file(Path(path), max_bytes=_MAX_TOML_BYTES)
        text = content.decode("utf-8-sig")
        if any(line.partition("=")[0].count(".") >= _MAX_KEY_PARTS for line in text.splitlines()):
            raise ValueError(_TOO_MANY_PARTS)  # tomllib takes minutes for many
        return tomllib.loads(text)
    except FileNotFoundError:
        raise no_such_path(path) from None
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", where=path, remedy=how_to_convert(content)) from error
    except (ValueError, RecursionError) as error:  # also of a number of thousands of digits
        raise InputError(f"not a TOML file: {error}", where=path, remedy="Write lines KEY = VALUE") from error


def find_recipe(name: str | None, folder: str | Path = "", *, where: str = "config") -> Path | None:
    """Return the path of a TOML file or of a recipe of cloze; None for None.

    Args:
        name: a path, or the name of a recipe.
        folder: a path, or a folder within the recipes of cloze.
    """
    if name is None or name.endswith(".toml") or Path(name).is_file():
        return None if name is None else Path(name)
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
        config: the dataclass; its fields may be dataclasses.
        where: the source of the values, for error messages.
        prefix: dotted key of the table with a final dot, for error messages.
        default: values of missing keys; None takes the defaults of the class.
        others: further keys that an error about an unknown one lists.
    """
    assert dataclasses.is_dataclass(config)
    hints = typing.get_type_hints(config)
    known = {field.name: field for field in dataclasses.fields(config)}
    for key in table:
        if key not in known:
            keys = [*(prefix + name for name in known), *others]
            nested = (prefix + name for name in setting_names(config))
            near = nearest(key, [*keys, *nested])
            full_list = "; --print-config lists all" if len(keys) > MAX_LISTED else ""
            remedy = f"Did you mean {near}?" if near else f"Known keys are {list_names(keys)}{full_list}"
            raise InputError(f"unknown key {prefix}{key}", where=where, remedy=remedy)
    values = {}
    for key, value in table.items():
        inner = _default_of(known[key]) if default is None else getattr(default, key)
        values[key] = _convert(hints[key], value, f"{prefix}{key}", where, inner)
    missing = [name for name, field in known.items() if name not in values and _is_required(field)]
    if missing and default is None:
        raise InputError(f"missing {', '.join(prefix + name for name in missing)}", where=where)
    try:
        if default is None:
            return config(**values)
        replaced: Config = dataclasses.replace(typing.cast(Any, default), **values)
        return replaced
    except SettingError as error:
        key = f"{prefix}{error.name}"
        if where == SETTINGS:
            raise InputError(error.what, where=key) from error
        raise InputError(f"{key} {error.what}", where=where) from error
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


def check_positive(settings: object, *names: str, **maxima: int) -> None:
    """Raise SettingError unless settings are positive, or None, and not above their maximum.

    Args:
        names: settings without a maximum.
        maxima: the maximum of others, by name; the values of a list are checked one by one.
    """
    for name in (*names, *maxima):
        value = getattr(settings, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not number > 0:
                raise SettingError(name, f"{number} is not positive")
            if number is not None and number > maxima.get(name, math.inf):
                raise SettingError(name, f"{number} is more than {maxima[name]:,}")


def check_interval(settings: object, interval: str, *names: str) -> None:
    """Raise SettingError unless settings, or all values of lists, are in an interval, as in "[0, 1)", or None."""
    low, high = interval[1:-1].split(", ")
    is_above, start = (operator.ge, "at least") if interval[0] == "[" else (operator.gt, "above")
    is_below, end = (operator.le, "at most") if interval[-1] == "]" else (operator.lt, "below")
    expected = f"{start} {low}"
    if high != "inf":
        expected += f" and {end} {high}"
    elif end == "below":
        expected += " and finite"
    for name in names:
        value = getattr(settings, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not (is_above(number, float(low)) and is_below(number, float(high))):
                raise SettingError(name, f"{number} is not {expected}")


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default_of(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def check_types(config: Any) -> None:
    """Refuse a value in a dataclass that is not of the type of its field."""
    hints, where = typing.get_type_hints(type(config)), type(config).__name__
    for field in dataclasses.fields(config):
        hint, value = hints[field.name], getattr(config, field.name)
        if value is not None or type(None) not in get_args(hint):
            _convert(hint, value, field.name, where)


def _convert(hint: Any, value: Any, key: str, where: str, default: Any = None) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        *others, last = (argument for argument in get_args(hint) if argument is not type(None))
        for choice in others:
            with contextlib.suppress(InputError):
                return _convert(choice, value, key, where, default)
        return _convert(last, value, key, where, default)
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
        raise InputError(f"{key} is nan", where=where, remedy="Give a number")
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


def nest(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings whose names may have dots as nested dictionaries, without those that are None or of NumPy.

    >>> nest({"epochs": 2, "optimizer.learning_rate": 1e-4, "dev": None})
    {'epochs': 2, 'optimizer': {'learning_rate': 0.0001}}
    """
    table: dict[str, Any] = {}
    for key, value in settings.items():
        *sections, last = key.split(".")
        inner: dict[str, Any] = {last: value.explicit() if isinstance(value, Settings) else value}
        if hasattr(value, "tolist"):  # of NumPy
            inner = {last: value.tolist()}
        for section in reversed(sections):
            inner = {section: inner}
        if value is not None:
            merge_dicts(table, inner)
    return table


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
    table: dict[str, Any] = {}
    inner = table
    *sections, last = key.strip().split(".")
    if len(sections) >= _MAX_KEY_PARTS:
        raise InputError(_TOO_MANY_PARTS, where="--set", remedy="Write section.key=value")
    for section in sections:
        inner = inner.setdefault(section, {})
    inner[last] = parsed
    return table


def merge_dicts(table: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Update a nested dictionary with the values of another."""
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(table.get(key), dict):
            merge_dicts(table[key], value)
        else:
            table[key] = value


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
    """Yield the values of nested dictionaries and dataclasses by dotted key."""
    for key, value in table.items():
        value = to_dict(value) if dataclasses.is_dataclass(value) else value
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
