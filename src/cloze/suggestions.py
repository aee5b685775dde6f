"""Check the names and kinds of arguments; suggest the nearest name of a flag, a keyword or a setting."""

import difflib
import functools
import inspect
import os
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import (
    Any,
    Literal,
    ParamSpec,
    SupportsFloat,
    SupportsIndex,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from cloze.arguments import check_exclusive, describe, is_ordered
from cloze.errors import InputError
from cloze.signatures import complete_signature, evaluate_annotation

MAX_LISTED = 10
"""Maximum number of names in a message."""
_MIN_RATIO = 0.7

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that is spelled most like a word, also by its last section alone; None if no name is.

    Args:
        names: all that are accepted, such as optimizer.learning_rate or "corpus audit".
    """
    spelled: dict[str, str] = {}
    for name in names:
        for key in (name, re.split("[ .]", name)[-1]):
            spelled.setdefault(_normalize(key), name)
    similar = difflib.get_close_matches(_normalize(word), spelled, n=1, cutoff=_MIN_RATIO)
    return spelled[similar[0]] if similar else None


def _normalize(name: str) -> str:
    return name.strip("-").replace("_", "-").casefold()


def did_you_mean(
    word: object, names: Iterable[str], *, choose: str = "Choose from", full_list: str = ""
) -> str:
    """Return the remedy for an unknown name: the nearest accepted name, or a list of up to ten.

    >>> did_you_mean("bfloat", ["auto", "float32", "bfloat16"])
    'Did you mean bfloat16?'
    >>> did_you_mean("x", ["auto", "float32", "bfloat16"])
    'Choose from auto, float32, bfloat16'

    Args:
        choose: words before a list of names.
        full_list: what prints the names if there are more than ten, as in "cloze tasks".
    """
    names = [*names]
    if near := nearest(str(word), names):
        return f"Did you mean {near}?"
    rest = f"; {full_list} lists all" if full_list and len(names) > MAX_LISTED else ""
    return f"{choose} {list_names(names)}{rest}"


def list_names(names: Iterable[str]) -> str:
    """Return up to ten names with commas, and the number of the others.

    >>> list_names("abcdefghijkl")
    'a, b, c, d, e, f, g, h, i, j and 2 others'
    """
    names = [*names]
    more = len(names) - MAX_LISTED
    others = f" and {more:,} other{'s' * (more > 1)}" if more > 0 else ""
    return ", ".join(names[:MAX_LISTED]) + others


def check_keywords(
    function: str,
    keywords: Iterable[str],
    known: Collection[str],
    settings: Callable[[], Iterable[str]] = tuple,
) -> None:
    """Raise TypeError for keywords that a function does not have, and suggest one.

    Args:
        settings: returns the keys that its argument `settings` may have.
    """
    for word in keywords:
        if word not in known:
            near = nearest(word, [*known, *settings()])
            is_setting = near not in known and "settings" in known
            form = f'settings={{"{near}": …}}' if is_setting else f"{near}=…"
            hint = f". Did you mean {form}?" if near else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {word!r}{hint}")


def suggests_keywords(
    settings: Callable[[], Iterable[str]] = tuple,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Complete the signature of a function (`cloze.options`), and check the names and kinds of its arguments.

    Args:
        settings: returns the keys that its argument `settings` may have.
    """

    def wrap(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        signature, docstring = complete_signature(function)
        parameters = inspect.signature(function).parameters
        known = {
            name: parameter.default
            for name, parameter in signature.parameters.items()
            if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY and name not in ("self", "cls")
        }
        of_group = {name: default for name, default in known.items() if name not in parameters}

        @functools.cache
        def hint_of(name: str) -> Any:
            return evaluate_annotation(signature.parameters[name].annotation, function)

        @functools.wraps(function)
        def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            if not kwargs.keys() <= known.keys():
                check_keywords(function.__qualname__, kwargs, known, settings)
            names = set[str]()
            for name, value in (*zip(signature.parameters, args, strict=False), *kwargs.items()):
                if name in known and value is not known[name]:
                    check_kind(value, hint_of(name), name)
                    names.add(name)
            check_exclusive(names)
            return function(*args, **(of_group | kwargs))

        checked.__doc__ = docstring
        checked.__signature__ = signature  # type: ignore[attr-defined]
        checked.__annotations__ = {
            name: parameter.annotation for name, parameter in signature.parameters.items()
        } | {"return": signature.return_annotation}
        checked.setting_names = settings  # type: ignore[attr-defined]
        return checked

    return wrap


_KINDS = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Path: "the path of a file or directory",
    Mapping: "a dict",
    Sequence: "a list",
    Iterable: "a list",
}


def check_kind(value: object, hint: Any, name: str) -> None:
    """Refuse an argument of a kind that its annotation does not name; the items of a list are left to the function."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    is_path = Path in kinds and isinstance(value, (str, os.PathLike))
    is_no_path = is_path and (not str(value) or "\0" in str(value))
    for kind in kinds if not is_no_path else ():
        if _is_of(value, kind):
            return
    choices = [str(choice) for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    if choices and isinstance(value, str):
        raise InputError(f"{value[:40]!r} is not a choice", where=name, remedy=did_you_mean(value, choices))
    named = [get_origin(kind) or kind for kind in kinds if kind is not types.NoneType]
    words = [
        _KINDS.get(kind, f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}")
        for kind in named
        if kind is not Literal and not (kind is str and Path in named)
    ]
    *others, last = dict.fromkeys([*words, *choices])
    what = f"{name} is {repr(value) if isinstance(value, str) else describe(value)}"
    raise InputError(what, remedy=f"Give {', '.join(others)}{' or ' if others else ''}{last}")


def _is_of(value: object, hint: Any) -> bool:
    """Return whether a value is of a kind; numbers of NumPy and torch are numbers."""
    kind = get_origin(hint) or hint
    if kind is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))
    if kind in (Sequence, Iterable):
        return is_ordered(value)
    similar = {Any: object, int: SupportsIndex, float: SupportsFloat, Path: os.PathLike}
    is_number = kind in (int, float)
    return isinstance(value, similar.get(kind, kind)) and not (is_number and isinstance(value, bool))
