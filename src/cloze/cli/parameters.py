"""The parameters of a function as flags, from its signature and docstring, and the flags of all commands."""

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import cyclopts
from docstring_parser import parse_from_object

from cloze.config import read_dict
from cloze.errors import InputError
from cloze.file_io import to_json_text
from cloze.progress import Progress
from cloze.signatures import evaluate_annotation, field_descriptions
from cloze.text_encoding import escape_controls

SHORT_FLAGS = {
    "config": "-c",
    "data": "-d",
    "model": "-m",
    "output": "-o",
    "top_k": "-k",
    "train": "-d",
}
"""A second flag for a parameter, the same for all commands."""
NEGATIVE_FLAGS = {"normalize": "--no-normalize"}
"""Flags that mean False, where None is another value."""
SETTINGS = "settings"
"""The parameter with the settings that have no flag, which are those of `--set`."""
IN_PYTHON = ("callbacks", "progress")
"""Keywords whose values cannot be written on a command line."""
COMMON = "flags"
"""The parameter with the flags of all commands."""
IN_MEMORY = "texts"
"""The keyword of texts in memory, which has no flag if its type is Any."""
_MAX_DIGITS = 18
"""Libraries count in 64 bits."""
STDIN = "\0stdin"
"""Stands for the word -, which cyclopts takes for a flag."""
_ONLY_PYTHON = " In Python"
"""Starts the end of a description that the help of the shell leaves out."""
EMPTY = inspect.Parameter.empty
POSITIONAL = "positional"
"""Marks a field of a dataclass that is no flag, in its `Annotated` type."""


@dataclasses.dataclass(frozen=True)
class CommonOptions:
    """Flags of every command."""

    quiet: bool = False
    """Hide progress and notes."""
    json: bool = False
    """Print the result as JSON."""
    debug: bool = False
    """Show the traceback of an error."""

    @property
    def progress(self) -> Progress:
        """Progress on stderr."""
        return Progress(quiet=self.quiet)

    def print(self, result: Any, text: str) -> None:
        """Print the result as text or, with `--json`, as JSON."""
        print(to_json_text(result) if self.json else escape_controls(text))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a function, or a field of a dataclass, as flag or positional argument."""

    name: str
    kind: Any
    """The type that a word is converted to: str, int, float, bool, Path, a Literal, or a union of these."""
    shape: Literal["one", "many", "table"] = "one"
    """A table is made of words KEY=VALUE."""
    default: Any
    help: str
    is_positional: bool = False

    @property
    def names(self) -> list[str]:
        """The flags, the long one first."""
        long = "set" if self.name == SETTINGS else self.name
        short = [SHORT_FLAGS[self.name]] if self.name in SHORT_FLAGS else []
        return ["--" + long.replace("_", "-"), *short]

    @property
    def metavar(self) -> str | None:
        """The word for a value in the help; None for switches and choices, which cyclopts names."""
        if self.kind is bool or get_origin(self.kind) is Literal:
            return None
        if self.name == SETTINGS:
            return "KEY=VALUE"
        names = {int: "INT", float: "FLOAT", Path: "PATH"}
        if len(members := _members(self.kind)) > 1:
            return "|".join(names.get(member, str(member)) for member in members)
        return names.get(self.kind, self.name.rstrip("_").rpartition("_")[2].upper())

    @property
    def usage(self) -> str:
        """The flag with its short form and the word for its value, or the positional argument."""
        if self.is_positional:
            return self.name.upper() + "…" * (self.shape == "many")
        choices = get_args(self.kind) if get_origin(self.kind) is Literal else ()
        value = f"{{{','.join(map(str, choices))}}}" if choices else self.metavar
        return " ".join([*self.names, *([value] if value else [])])

    @property
    def text(self) -> str:
        """The help with the default."""
        return self.help + (f" (default: {self._shown_default})" if self._shown_default else "")

    @property
    def _shown_default(self) -> str:
        """The default, "" if it says nothing."""
        if self.default in (None, False, (), EMPTY) or self.shape == "table":
            return ""
        return " ".join(map(str, self.default)) if isinstance(self.default, tuple) else str(self.default)

    def to_signature(self, *, is_required: bool) -> inspect.Parameter:
        """Return the parameter as cyclopts reads it."""
        options = cyclopts.Parameter(
            name=None if self.is_positional else self.names,
            help=self.help,
            negative=NEGATIVE_FLAGS.get(self.name, ""),
            metavar=self.metavar,
            show_default=(lambda _: self._shown_default) if self._shown_default else False,
            allow_leading_hyphen=self._is_of_numbers,
            allow_repeating=True,  # the last counts
        )
        is_number = bool({int, float} & {*_members(self.kind)})
        word: Any = str if is_number else self.kind  # cyclopts would round 1.5 to an integer
        shape: Any = word if self.shape == "one" else types.GenericAlias(tuple, (word, ...))
        default = EMPTY if is_required else None
        kind: Any = inspect.Parameter.KEYWORD_ONLY
        if self.is_positional:
            kind = inspect.Parameter.POSITIONAL_ONLY
            if self.shape == "many":
                kind, shape, default = inspect.Parameter.VAR_POSITIONAL, word, EMPTY
        annotation: Any = Annotated[shape if default is EMPTY else shape | None, options]
        return inspect.Parameter(self.name, kind, default=default, annotation=annotation)

    def convert(self, value: Any, *, see: str) -> Any:
        """Return what cyclopts parsed as the function takes it; `see` is the remedy for a wrong word."""
        words = [*value] if isinstance(value, tuple) else [value]
        if self._is_of_numbers:
            words = [part for word in words for part in word.split(",")]
        members, flag = _members(self.kind), self.names[0]
        for place, word in enumerate(words):
            if str(word) == STDIN:
                words[place] = type(word)("-")
            elif {int, float} & {*members} and word not in members:
                number, kind = (float, "number") if float in members else (int, "whole number")
                if number is int and len(word) > _MAX_DIGITS and word.lstrip("+-").isdecimal():
                    what = f"the number has more than {_MAX_DIGITS} digits"
                    raise InputError(what, where=flag, remedy="Give a smaller one")
                try:
                    words[place] = number(word)
                except ValueError:
                    raise InputError(f"{word[:40]!r} is not a {kind}", where=flag, remedy=see) from None
        if self.shape == "table":
            return read_dict(overrides=words)
        return words[0] if self.shape == "one" else tuple(words)

    @property
    def _is_of_numbers(self) -> bool:
        """Whether the value is several numbers, which may be separated by commas."""
        return self.shape == "many" and self.kind in (int, float)


def _members(kind: Any) -> list[Any]:
    """Return the types of a union, and the choices of a Literal."""
    if get_origin(kind) in (typing.Union, types.UnionType):
        return [member for part in get_args(kind) for member in _members(part)]
    return list(get_args(kind)) if get_origin(kind) is Literal else [kind]


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """Return the flags and positional arguments of a function, or of the fields of a dataclass."""
    texts = _descriptions(function)
    parameters: list[Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = evaluate_annotation(parameter.annotation, function)
        hint, *marks = get_args(annotation) if get_origin(annotation) is Annotated else [annotation]
        is_keyword = inspect.isclass(function) or parameter.kind is inspect.Parameter.KEYWORD_ONLY
        is_positional = POSITIONAL in marks or not is_keyword
        is_in_python = name in IN_PYTHON or (name == IN_MEMORY and hint is Any)
        if name == COMMON or (is_in_python and not is_positional):
            continue
        kind, shape = _words_of(hint, is_positional=is_positional)
        parameters.append(
            Parameter(
                name=name,
                kind=kind,
                shape=shape,
                default=parameter.default,
                help=texts.get(name, ""),
                is_positional=is_positional,
            )
        )
    return parameters


def _words_of(hint: Any, *, is_positional: bool) -> tuple[Any, Literal["one", "many", "table"]]:
    """Return what each word of a parameter is converted to, and how many there are.

    Of the types of a parameter, those count that can be written in a shell: of a path or rows in memory the path. A
    parameter whose first type is a sequence has several words, and one that is positional if any of them is.
    """
    members = list(get_args(hint)) if get_origin(hint) in (typing.Union, types.UnionType) else [hint]
    members = [member for member in members if member is not types.NoneType]
    if get_origin(members[0]) in (dict, Mapping):
        return str, "table"
    sequences = [member for member in members if get_origin(member) in (tuple, list, Sequence, Iterable)]
    if sequences and (is_positional or members[0] is sequences[0]):
        return _words_of(get_args(sequences[0])[0], is_positional=False)[0], "many"
    simple = [m for m in members if m in (bool, int, float) or get_origin(m) is Literal]
    if any(m in (str, Any) for m in members) or not (simple or Path in members):
        return str, "one"
    simple += [Path] if Path in members else []
    return typing.Union[tuple(simple)], "one"  # noqa: UP007 (of a list)


def _descriptions(function: Callable[..., Any]) -> dict[str, str]:
    if inspect.isclass(function):
        return field_descriptions(function)
    texts = parse_from_object(function).params
    return {entry.arg_name: _one_line(entry.description).partition(_ONLY_PYTHON)[0] for entry in texts}


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def paragraphs(function: Callable[..., Any]) -> str:
    """Return the description of a docstring, a line for each paragraph."""
    text = parse_from_object(function)
    parts = [text.short_description, *(text.long_description or "").split("\n\n")]
    return "\n\n".join(line for line in map(_one_line, parts) if line and not line.startswith(">>>"))
