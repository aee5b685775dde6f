"""The signatures of public functions: with the keywords of their groups (`cloze.options`), and checked."""

import builtins
import collections.abc
import functools
import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Literal,
    ParamSpec,
    SupportsFloat,
    SupportsIndex,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from cloze.arguments import describe, is_ordered
from cloze.errors import InputError
from cloze.suggestions import did_you_mean, nearest

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
EXCLUDED = {
    "append": ("validation_fraction", "overwrite"),
    "open": ("api_key_file",),
    "resume": ("overwrite",),
    "texts": ("data", "inputs", "format", "text_field", "encoding"),
}
"""By keyword, the keywords that it excludes."""
_ARGS = re.compile(r"^( *)Args:\n(?:\1 +\S.*\n)*", re.MULTILINE)


def complete_signature(function: Callable[..., Any]) -> tuple[inspect.Signature, str | None]:
    """Return the signature of a function with the keywords of its group, and its docstring with their help."""
    signature = inspect.signature(function)
    parameters, texts = list[inspect.Parameter](), dict[str, str]()
    for parameter in signature.parameters.values():
        hints = {parameter.name: parameter.annotation}
        is_group = parameter.kind is inspect.Parameter.VAR_KEYWORD
        group: Any = get_args(parameter.annotation)[-1] if is_group else None
        if isinstance(group, type) and is_dataclass(group):
            kinds = get_type_hints(group)
            of_fields = inspect.signature(group).parameters.values()
            parameters += [field.replace(annotation=kinds[field.name]) for field in of_fields]
            texts |= field_descriptions(group)
            continue
        if is_group:
            hints = group.__annotations__
        for name, hint in hints.items():
            kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint, "")
            text, default = (*marks[-2:], None)[:2]  # those before are of an alias within
            kind = kind.__forward_arg__ if isinstance(kind, ForwardRef) else kind
            if text:
                texts[name] = text
            parameters.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
                if is_group
                else parameter.replace(annotation=kind)
            )
    return signature.replace(parameters=parameters), _with_help(function.__doc__, texts)


def field_descriptions(kind: Any) -> dict[str, str]:
    """Return the docstrings of the fields of a dataclass, in one line each."""
    texts = {name: text for base in reversed(kind.__mro__[:-1]) for name, text in _docstrings(base).items()}
    return {field.name: texts.get(field.name, "") for field in fields(kind)}


@functools.cache
def _docstrings(kind: type) -> dict[str, str]:
    from docstring_parser import parse_from_object  # the import of cloze does not need it

    entries = parse_from_object(kind).params
    return {entry.arg_name: " ".join((entry.description or "").split()) for entry in entries}


def _with_help(docstring: str | None, texts: Mapping[str, str]) -> str | None:
    """Return a docstring with more parameters at the end of its section Args."""
    args = _ARGS.search(docstring or "")
    if docstring is None or args is None:
        return docstring
    indent = args[1] + "    "
    entries = [
        f"{indent}{name}: {text}\n" for name, text in texts.items() if f"\n{indent}{name}: " not in args[0]
    ]
    return docstring[: args.end()] + "".join(entries) + docstring[args.end() :]


class AnnotationNames(dict[str, Any]):
    """The names in a function's annotations; names that only type checkers import stand for classes of these names."""

    def __init__(self, function: Callable[..., Any]) -> None:
        module = vars(sys.modules[function.__module__])
        super().__init__(vars(builtins) | vars(collections.abc) | {"Any": Any, "Path": Path} | module)

    def __missing__(self, name: str) -> Any:
        return _NamedClass(name, (), {})


class _NamedClass(type):
    """A class that is not imported: its instances are known by the names of their classes."""

    def __instancecheck__(cls, value: object) -> bool:
        return cls.__name__ in (kind.__name__ for kind in type(value).__mro__)


def evaluate_annotation(annotation: Any, function: Callable[..., Any]) -> Any:
    """Return the type that an annotation of a function names."""
    if isinstance(annotation, str):
        return eval(annotation, {}, AnnotationNames(function))
    return annotation


def checks_arguments(
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
        hints: dict[str, Any] = {}  # no functools.cache: a cluster's workers get the function by value

        @functools.wraps(function)
        def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            for word in (word for word in kwargs if word not in known):
                near = nearest(word, [*known, *settings()])
                form = f"{near}=…" if near in known else f'settings={{"{near}": …}}'
                hint = f". Did you mean {form}?" if near else ""
                what = f"got an unexpected keyword argument {word!r}{hint}"
                raise TypeError(f"{function.__qualname__}() {what}")
            names = set[str]()
            for name, value in (*zip(signature.parameters, args, strict=False), *kwargs.items()):
                if name in known and value is not known[name]:
                    if name not in hints:
                        hints[name] = evaluate_annotation(signature.parameters[name].annotation, function)
                    check_kind(value, hints[name], name)
                    names.add(name)
            for name in (name for name in EXCLUDED if name in names):
                for other in (other for other in EXCLUDED[name] if other in names):
                    what = f"cannot be combined with `{name}`"
                    raise InputError(what, where=other, remedy="Leave out one of them")
            return function(*args, **(of_group | kwargs))

        checked.__doc__ = docstring
        checked.__signature__ = signature  # type: ignore[attr-defined]
        checked.__annotations__ = {
            name: parameter.annotation for name, parameter in signature.parameters.items()
        } | {"return": signature.return_annotation}
        checked.setting_names = settings  # type: ignore[attr-defined]
        return checked

    return wrap


_SIMILAR: dict[Any, Any] = {Any: object, int: SupportsIndex, float: SupportsFloat, Path: os.PathLike}
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
    is_number = kind in (int, float)
    return isinstance(value, _SIMILAR.get(kind, kind)) and not (is_number and isinstance(value, bool))
