"""Complete the signatures of functions with keywords that several of them have (`cloze.options`)."""

import builtins
import collections.abc
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ForwardRef, get_args, get_origin

_ARGS = re.compile(r"^( *)Args:\n(?:\1 +\S.*\n)*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Option:
    """The help of a keyword, and its default if it is in a group; a description in a docstring takes precedence."""

    help: str
    default: Any = None


def complete_signature(function: Callable[..., Any]) -> tuple[inspect.Signature, str | None]:
    """Return the signature of a function with the keywords of its group, and its docstring with their help."""
    signature = inspect.signature(function)
    parameters, texts = list[inspect.Parameter](), dict[str, str]()
    for parameter in signature.parameters.values():
        hints = {parameter.name: parameter.annotation}
        is_group = parameter.kind is inspect.Parameter.VAR_KEYWORD
        if is_group:
            hints = get_args(parameter.annotation)[0].__annotations__
        for name, hint in hints.items():
            kind, *_, option = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
            kind = kind.__forward_arg__ if isinstance(kind, ForwardRef) else kind
            if isinstance(option, Option):
                texts[name] = option.help
            parameters.append(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=kind
                )
                if is_group
                else parameter
                if option is None
                else parameter.replace(annotation=kind)
            )
    return signature.replace(parameters=parameters), _with_help(function.__doc__, texts)


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
    """The names in a function's annotations; those that only type checkers import are classes known by their names."""

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
