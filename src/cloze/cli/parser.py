"""Turn functions into commands with cyclopts: parameters become flags, docstrings help, and errors one line."""

import builtins
import dataclasses
import difflib
import inspect
import re
import shutil
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import cyclopts
from cyclopts import exceptions
from docstring_parser import parse_from_object
from rich.console import Console

from cloze.cli.options import CommonOptions, Flag
from cloze.config import read_dict
from cloze.errors import InputError
from cloze.parallel_map import default_workers
from cloze.tables import MIN_COLUMNS

SHORT_FLAGS = {
    "config": "-c",
    "data": "-d",
    "layers": "--layer",
    "model": "-m",
    "output": "-o",
    "top_k": "-k",
    "train": "-d",
}
"""Second names of flags by parameter, for all commands."""
NEGATIVE_FLAGS = {"normalize": "--no-normalize"}
"""Flags that mean False, where None is another value."""
IN_PYTHON = ("callbacks", "progress")
"""Keywords whose values cannot be written on a command line."""
IN_MEMORY = "texts"
"""Likewise, where they are of any type."""
COMMON = "flags"
"""The parameter with the flags of all commands, and the name of their group in the help."""
_MAX_DIGITS = 18
"""Libraries count in 64 bits."""
_SETTINGS = {
    "cloze finetune": ("cloze.tasks.config", "FinetuneConfig"),
    "cloze pretrain": ("cloze.pretraining.config", "PretrainConfig"),
}
"""The settings class of `--set`."""
_SYNONYMS = {
    "cuda": "device",
    "eval-file": "dev",
    "gpu": "device",
    "no-cuda": "device",
    "data": "train",
    "examples": "train-examples",
    "train-file": "train",
    "validation-file": "dev",
}
"""Flags of other programs that share no word with ours."""
_URL = re.compile(r"[a-z][a-z0-9+.-]+:/")
"""A URL as `Path` writes it, with one slash."""
_QUOTED = re.compile(r"`(\w+)`")
_STDIN = "\0stdin"
"""Stands for the word -, which cyclopts takes for a flag."""
_ONLY_PYTHON = " In Python"
"""Starts the end of a description that the help of the shell leaves out."""
_EMPTY = inspect.Parameter.empty


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a function, or a field of a dataclass that is one, as flag or positional argument."""

    name: str
    owner: str | None = None
    """The parameter whose field it is."""
    kind: Any
    """What a word is converted to: str, int, float, bool, Path, a Literal, or a union of these."""
    shape: Literal["one", "many", "table"]
    """A table is made of words KEY=VALUE."""
    default: Any
    help: str
    flag: Flag
    is_positional: bool

    @property
    def names(self) -> list[str]:
        """The flags, the long one first."""
        long = "set" if self.shape == "table" else self.flag.name or self.name
        short = [SHORT_FLAGS[self.name]] if self.name in SHORT_FLAGS else []
        return list(dict.fromkeys(["--" + long.replace("_", "-"), *short, *self.flag.aliases]))

    @property
    def metavar(self) -> str | None:
        """The word for a value in the help; None for switches and choices, which cyclopts names."""
        if self.flag.metavar is not None or self.kind is bool or get_origin(self.kind) is Literal:
            return self.flag.metavar
        if self.shape == "table":
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
        return " ".join(
            [
                *self.names,
                *filter(None, ["{" + ",".join(map(str, choices)) + "}" if choices else self.metavar]),
            ]
        )

    @property
    def text(self) -> str:
        """The help with the default."""
        return f"{self.help} (default: {self.default})" if self.is_default_shown else self.help

    @property
    def is_default_shown(self) -> bool:
        """Whether the default says something."""
        return self.default not in (None, False, (), _EMPTY) and self.shape != "table"

    def to_signature(self, *, is_required: bool) -> inspect.Parameter:
        """Return the parameter as cyclopts reads it."""
        options = cyclopts.Parameter(
            name=None if self.is_positional else self.names,
            help=self.help,
            negative=NEGATIVE_FLAGS.get(self.name, ""),
            metavar=self.metavar,
            show_default=(lambda _: str(self.default)) if self.is_default_shown else False,
            allow_leading_hyphen=self._is_of_integers,
            allow_repeating=True,  # the last counts
        )
        is_of_numbers = int in _members(self.kind) or float in _members(self.kind)
        word: Any = str if is_of_numbers else self.kind  # cyclopts would round 1.5 to an integer
        if self.is_positional and self.shape == "many":
            return inspect.Parameter(
                self.name, inspect.Parameter.VAR_POSITIONAL, annotation=Annotated[word, options]
            )
        shape: Any = word if self.shape == "one" else types.GenericAlias(tuple, (word, ...))
        kind = inspect.Parameter.POSITIONAL_ONLY if self.is_positional else inspect.Parameter.KEYWORD_ONLY
        if is_required:
            return inspect.Parameter(self.name, kind, annotation=Annotated[shape, options])
        return inspect.Parameter(self.name, kind, default=None, annotation=Annotated[shape | None, options])

    def convert(self, value: Any, *, see: str) -> Any:
        """Return what cyclopts parsed as the function takes it; `see` is the remedy for a wrong word.

        Raises:
            InputError: a number has too many digits or is none, or a local path is a URL.
        """
        words = [_without_stand_in(word) for word in (value if isinstance(value, tuple) else (value,))]
        if self._is_of_integers:
            words = [part for word in words for part in word.split(",")]
        words = [self._to_number(word, see) if isinstance(word, str) else word for word in words]
        for word in words:
            if isinstance(word, Path) and _URL.match(str(word)):
                url = str(word).replace(":/", "://", 1)
                raise InputError("this flag takes a local path", where=url, remedy="Copy the files first")
        if self.shape == "table":
            return read_dict(overrides=words)
        return words[0] if self.shape == "one" else tuple(words)

    @property
    def _is_of_integers(self) -> bool:
        """Whether the value is several whole numbers, which may be separated by commas."""
        return self.shape == "many" and self.kind is int

    def _to_number(self, word: str, see: str) -> object:
        """Return a word as the number that a flag takes, or as it is."""
        members = _members(self.kind)
        if word in members or not {int, float} & {*members}:
            return word
        number = float if float in members else int
        is_too_long = word.lstrip("+-").isdecimal() and (number is int) and len(word) > _MAX_DIGITS
        with suppress(ValueError):
            if not is_too_long:
                return number(word)
        name = "number" if number is float else "whole number"
        what = (
            f"the number has more than {_MAX_DIGITS} digits"
            if is_too_long
            else f"{word[:40]!r} is not a {name}"
        )
        raise InputError(what, where=self.names[0], remedy="Give a smaller one" if is_too_long else see)


def _members(kind: Any) -> list[Any]:
    """Return the types of a union, and the choices of a Literal."""
    if get_origin(kind) in (typing.Union, types.UnionType):
        return [member for part in get_args(kind) for member in _members(part)]
    return list(get_args(kind)) if get_origin(kind) is Literal else [kind]


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """Return the flags and positional arguments of a function, or of the fields of a dataclass."""
    hints = typing.get_type_hints(function, localns=_Names(function), include_extras=True)
    texts = _descriptions(function)
    parameters: list[Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        hint, flag = _split_annotation(hints[name])
        is_positional = flag.is_positional or not (
            inspect.isclass(function) or parameter.kind is inspect.Parameter.KEYWORD_ONLY
        )
        if not is_positional and (name in IN_PYTHON or (name == IN_MEMORY and hint is Any)):
            continue
        if dataclasses.is_dataclass(hint):
            parameters += _fields_of(hint, name, parameter.default)
            continue
        kind, shape = _words_of(hint, is_positional=is_positional)
        text = flag.help or texts.get(name, "")
        parameters.append(
            Parameter(
                name=name,
                kind=kind,
                shape=shape,
                default=parameter.default,
                help=text,
                flag=flag,
                is_positional=is_positional,
            )
        )
    return parameters


def _fields_of(kind: Any, owner: str, default: Any) -> Iterator[Parameter]:
    for field in parameters_of(kind):
        value = getattr(default, field.name) if isinstance(default, kind) else field.default
        yield dataclasses.replace(field, owner=owner, default=value)


class _Names(dict[str, Any]):
    """The names in the annotations of a function; those that only type checkers import stand for any type."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(vars(builtins) | vars(import_module(function.__module__)))

    def __missing__(self, name: str) -> Any:
        return Any


def _split_annotation(hint: Any) -> tuple[Any, Flag]:
    """Return a type and how it is shown."""
    flag = Flag()
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        for note in notes:
            if isinstance(note, Flag):
                changes = {name: value for name, value in vars(note).items() if value}
                flag = dataclasses.replace(flag, **changes)
    return hint, flag


def _words_of(hint: Any, *, is_positional: bool) -> tuple[Any, Literal["one", "many", "table"]]:
    """Return what each word of a parameter is converted to, and how many there are.

    Of the types of a parameter, those count that can be written in a shell: of a path or rows in memory the path. A
    parameter whose first type is a sequence has several words, and one that is positional if any of them is.
    """
    members = list(get_args(hint)) if get_origin(hint) in (typing.Union, types.UnionType) else [hint]
    members = [_split_annotation(member)[0] for member in members if member is not types.NoneType]
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
    """Return the text on each parameter of a docstring, or below each field of a dataclass."""
    sources = reversed(function.__mro__[:-1]) if inspect.isclass(function) else [function]
    texts = (entry for source in sources for entry in parse_from_object(source).params)
    return {entry.arg_name: _one_line(entry.description).partition(_ONLY_PYTHON)[0] for entry in texts}


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


Show: TypeAlias = Callable[..., "tuple[Any, str] | None"]
"""Prints the result of a function, or returns it for `--json` and as text; takes arguments of the function by name."""


@dataclasses.dataclass(frozen=True)
class Verb:
    """A public function, and how the command line prints what it returns."""

    function: Callable[..., Any]
    show: Show
    work: Literal["batches", "requests"] = "batches"
    """What the memory of the process is configured for, if the function takes a device."""
    modes: Mapping[str, "Verb"] = dataclasses.field(default_factory=dict)
    """By their flags, functions that are called instead, with those of its arguments that they take."""


def verb(
    function: Callable[..., Any],
    modes: Mapping[str, Verb] = MappingProxyType({}),
    *,
    work: Literal["batches", "requests"] = "batches",
) -> Callable[[Show], Verb]:
    """Make a function that prints results the verb of a public function."""
    return lambda show: Verb(function, show, work, modes)


class Command:
    """A function as a command with flags."""

    def __init__(
        self,
        command: Verb | Callable[..., Any],
        words: str,
        *,
        epilogue: str = "",
        choices: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Derive the flags of a function.

        Args:
            command: a function, which prints its results, or with one that prints them.
            words: come before the flags, as in "cloze fill".
            epilogue: the end of the help.
            choices: types of parameters that are other than in the signature, by name.
        """
        self.verb = command if isinstance(command, Verb) else Verb(command, lambda _: None)
        self.words = words
        function = self.function = self.verb.function
        self.parameters = {parameter.name: parameter for parameter in parameters_of(function)}
        if COMMON not in inspect.signature(function).parameters:
            common = _fields_of(CommonOptions, COMMON, CommonOptions())
            self.parameters |= {parameter.name: parameter for parameter in common}
        for name, mode in self.verb.modes.items():
            self.parameters[name] = _mode_flag(name, mode)
        for name in choices.keys() & self.parameters.keys():
            self.parameters[name] = dataclasses.replace(self.parameters[name], kind=choices[name])
        self.app = cyclopts.App(
            name=words.rpartition(" ")[2],
            help=self.description,
            help_epilogue=epilogue,
            usage=f"Usage: {self.usage}",
            help_format="plaintext",
            version_flags=[],
            print_error=False,
            exit_on_error=False,
            default_parameter=cyclopts.Parameter(negative=""),
            group_parameters="Flags",
        )
        self.app["--help"].show = False
        self.app.default(self._to_signature())

    def _to_signature(self) -> Callable[..., None]:
        """Return a function with the parameters that cyclopts reads."""

        def stand_in(*_: object, **__: object) -> None: ...

        signature = [
            parameter.to_signature(is_required=self._is_required(parameter))
            for parameter in self.parameters.values()
        ]
        ordered = sorted(signature, key=lambda parameter: parameter.kind)
        stand_in.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
        stand_in.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
        stand_in.__doc__ = self.function.__doc__
        return stand_in

    def _is_required(self, parameter: Parameter) -> bool:
        """Return whether a parameter is required in all modes."""
        signatures = [inspect.signature(mode.function).parameters for mode in self.verb.modes.values()]
        return parameter.default is _EMPTY and all(
            parameter.name in signature and signature[parameter.name].default is _EMPTY
            for signature in signatures
        )

    def parse(self, words: Sequence[str]) -> Callable[[], Any]:
        """Return the call that words ask for.

        Raises:
            InputError: a flag is unknown or missing, or a value is wrong.
        """
        try:
            _, bound, _ = self.app.parse_args([_STDIN if word == "-" else word for word in words])
        except exceptions.CycloptsError as error:
            raise self._explain(error) from None
        values: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            owner = values if parameter.owner is None else values.setdefault(parameter.owner, {})
            if name in bound.arguments:
                owner[name] = parameter.convert(bound.arguments[name], see=self._see)
            elif parameter.shape == "many" and parameter.default is _EMPTY:
                owner[name] = ()  # the function says what is missing
        common = CommonOptions(**values.pop(COMMON, {}))
        active = [name for name in self.verb.modes if values.pop(name, False)]
        others = [*active[1:], *(["resume"] if active and values.get("resume") else [])]
        if others:
            flags = [self.parameters[name].names[0] for name in (active[0], others[0])]
            what = f"cannot be combined with {flags[1]}"
            raise InputError(what, where=flags[0], remedy="Leave out one of them")
        return self._bind(self.verb.modes[active[0]] if active else self.verb, values, common)

    def _bind(self, verb: Verb, values: dict[str, Any], common: CommonOptions) -> Callable[[], None]:
        """Return the call of a function with the arguments of the command line, which prints the result."""
        signature = inspect.signature(verb.function).parameters
        arguments: list[Any] = []
        keywords: dict[str, Any] = {}
        if "workers" in signature and values.get("workers", signature["workers"].default) == "auto":
            values["workers"] = default_workers()
        for name, parameter in signature.items():
            if name == COMMON:
                values[name] = common
            elif name == "progress":
                values[name] = common.progress
            elif name in values and name not in self.parameters:
                values[name] = self._build(name, parameter.default, values[name])
            elif name not in values and parameter.default is _EMPTY:
                raise self._missing(self.parameters[name].names[0])
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                arguments.append(values.get(name, parameter.default))
            elif name in values:
                keywords[name] = values[name]
        known = {name: parameter.default for name, parameter in signature.items()} | values | {COMMON: common}
        shown_with = [*inspect.signature(verb.show).parameters][1:]

        def call() -> None:
            try:
                result = verb.function(*arguments, **keywords)
                shown = verb.show(
                    result, **{name: known[name] for name in shown_with}
                )  # may compute the rest
            except InputError as error:
                raise self._with_flags(error) from error.__cause__
            if shown is not None:
                common.print(*shown)

        return call

    def _with_flags(self, error: InputError) -> InputError:
        """Return an error about a parameter as one about its flag; texts have parameters in backticks."""

        def flag(text: str | None) -> str | None:
            return text and _QUOTED.sub(lambda match: self._flag_of(match[1]) or match[0], text)

        where = self._flag_of(error.where) or error.where
        return type(error)(flag(error.what) or "", where=where, remedy=flag(error.remedy))

    def _flag_of(self, name: str | None) -> str | None:
        parameter = self.parameters.get(name or "")
        return None if parameter is None or parameter.is_positional else parameter.names[0]

    def _build(self, name: str, default: Any, values: Mapping[str, Any]) -> Any:
        """Return a dataclass with some of its fields set."""
        if default is not _EMPTY:
            return dataclasses.replace(default, **values)
        return _split_annotation(typing.get_type_hints(self.function, include_extras=True)[name])[0](**values)

    @property
    def _see(self) -> str:
        """The remedy for a wrong command line."""
        return f"See {self.words} --help"

    @property
    def usage(self) -> str:
        """The command with its positional arguments and required flags."""
        words = [self.words]
        for parameter in self.parameters.values():
            is_required = self._is_required(parameter)
            if parameter.is_positional:
                words.append(parameter.usage if is_required else f"[{parameter.usage}]")
            elif is_required:
                words.append(f"{parameter.names[-1]} {parameter.metavar}")
        return f"{' '.join(words)} [flags]"

    @property
    def description(self) -> str:
        """The description in the docstring."""
        return _paragraphs(self.function)

    def print_help(self) -> None:
        """Print the help, as wide as the terminal."""
        width = max(shutil.get_terminal_size().columns, MIN_COLUMNS)
        self.app.help_print([], console=Console(file=sys.stdout, width=width, highlight=False))

    def _missing(self, name: str) -> InputError:
        what = f"the flag {name} is missing" if name.startswith("-") else f"{name} is missing"
        return InputError(what, remedy=self._see)

    def _explain(self, error: exceptions.CycloptsError) -> InputError:
        """Return the error of a wrong command line in our words."""
        remedy = self._see
        name = error.argument and error.argument.name
        if isinstance(error, exceptions.MissingArgumentError) and name:
            if error.argument and error.argument.tokens:
                return InputError("needs a value", where=name, remedy=remedy)
            return self._missing(name)
        if isinstance(error, exceptions.UnknownOptionError):
            flag = (error.token.keyword or error.token.value).partition("=")[0]
            if suggestion := self._suggest(flag):
                remedy = f"Did you mean {suggestion}? {remedy}"
            return InputError(f"no flag {flag}", remedy=remedy)
        if isinstance(error, exceptions.CoercionError) and name and error.token:
            value, choices = error.token.value, [*map(str, get_args(error.target_type))]
            near = difflib.get_close_matches(value, choices, n=1)
            hint = f"Did you mean {near[0]}" if near else f"Choose from {', '.join(choices)}"
            return InputError(f"{value[:40]!r} is not a choice", where=name, remedy=hint)
        if isinstance(error, exceptions.UnusedCliTokensError) and error.unused_tokens:
            return InputError("is one word too many", where=error.unused_tokens[0], remedy=remedy)
        return InputError(str(error).rstrip("."), remedy=remedy)

    def _suggest(self, unknown: str) -> str | None:
        """Return the flag or the setting that is spelled like a flag, or that other programs call so.

        The other name is a setting, or it has the initials (lr) or all words of a flag (num_train_epochs), or the first
        word of a setting (warmup_ratio).
        """
        word = unknown.strip("-").replace("_", "-")
        flags = {
            parameter.names[0].strip("-"): parameter.names[0]
            for parameter in self.parameters.values()
            if not parameter.is_positional
        }
        settings: dict[str, str] = {}
        if self.words in _SETTINGS:
            module, config = _SETTINGS[self.words]
            for setting in _setting_names(getattr(import_module(module), config)):
                settings.setdefault(setting.rpartition(".")[2].replace("_", "-"), f"--set {setting}=VALUE")
        names = settings | flags
        matches = [
            [name for name in (word, _SYNONYMS.get(word)) if name in names],
            difflib.get_close_matches(word, flags, n=1, cutoff=0.75),
            [name for name in (*flags, *settings) if "".join(part[:1] for part in name.split("-")) == word],
            sorted(
                (name for name in flags if {*name.split("-")} <= {*word.split("-")}), key=len, reverse=True
            ),
            [name for name in settings if name.split("-")[0] == word.split("-")[0]],
            difflib.get_close_matches(word, flags, n=1),
        ]
        return next((names[similar[0]] for similar in matches if similar), None)


def _mode_flag(name: str, mode: Verb) -> Parameter:
    """Return the switch that calls another function."""
    text = _paragraphs(mode.function).partition("\n")[0]
    return Parameter(
        name=name, kind=bool, shape="one", default=False, help=text, flag=Flag(), is_positional=False
    )


def _setting_names(config: type) -> Iterator[str]:
    """Yield the dotted keys of a settings class."""
    for field in dataclasses.fields(config):
        default = field.default_factory
        section = None if default is dataclasses.MISSING else default()
        if dataclasses.is_dataclass(section):
            yield from (f"{field.name}.{key}" for key in _setting_names(type(section)))
        else:
            yield field.name


def _paragraphs(function: Callable[..., Any]) -> str:
    """Return the description of a docstring, a line for each paragraph."""
    text = parse_from_object(function)
    parts = [text.short_description, *(text.long_description or "").split("\n\n")]
    return "\n\n".join(line for line in map(_one_line, parts) if line and not line.startswith(">>>"))


def _without_stand_in(word: Any) -> Any:
    """Return - for the word that stands for it."""
    return type(word)("-") if isinstance(word, (str, Path)) and str(word) == _STDIN else word
