"""Run a function as a command: cyclopts parses its arguments, and errors are one line about a flag."""

import dataclasses
import errno
import inspect
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import cyclopts
from cyclopts import exceptions

import cloze
from cloze.cli.parameters import (
    COMMON,
    EMPTY,
    SETTINGS,
    STDIN,
    CommonOptions,
    Parameter,
    paragraphs,
    parameters_of,
)
from cloze.errors import MISSING, ClozeError, InputError, RunError
from cloze.process import usable_processors
from cloze.progress import is_rank_zero
from cloze.suggestions import did_you_mean, nearest
from cloze.tables import MIN_COLUMNS

_QUOTED = re.compile(r"`([\w.-]+)(?:=([^`]*))?`")
"""A parameter or a setting in a text, which may have a value."""


Shown: TypeAlias = tuple[Any, str]
"""The result of a verb for `--json` and as text."""
Show: TypeAlias = Callable[..., Shown | None]
"""Prints the result of a function, or returns it to be printed; takes arguments of the function by name."""


@dataclasses.dataclass(frozen=True)
class Verb:
    """A public function, and how the command line prints what it returns."""

    source: Callable[..., Any] | str
    """The function, or its name in `cloze`, from which it is imported on use."""
    show: Show
    work: Literal["batches", "requests"] = "batches"
    """The use for which the memory of the process is configured, if the function takes a device."""
    modes: Mapping[str, "Verb"] = dataclasses.field(default_factory=dict)
    """Functions that a flag calls instead, by its name, as in dry_run."""
    is_distributed: bool = False
    """Whether torchrun's ranks share the work, so that only rank zero prints."""

    @property
    def function(self) -> Callable[..., Any]:
        """The function."""
        public: Callable[..., Any] = (
            getattr(cloze, self.source) if isinstance(self.source, str) else self.source
        )
        return public


COMMON_FLAGS = {field.name for field in dataclasses.fields(CommonOptions)}
AnyShow = TypeVar("AnyShow", bound=Show)
VERBS: dict[str, Verb] = {}
"""The verbs of the modules that were imported."""


def verb(
    name: str,
    source: Callable[..., Any] | str,
    modes: Mapping[str, Verb] = MappingProxyType({}),
    **others: Any,
) -> Callable[[AnyShow], AnyShow]:
    """Make a function that prints results the verb of a public function; arguments are the fields of `Verb`."""

    def register(show: AnyShow) -> AnyShow:
        VERBS[name] = Verb(source, show, modes=modes, **others)
        return show

    return register


def is_silent_rank(verb: Verb) -> bool:
    """Return whether another rank prints the results of a verb."""
    return verb.is_distributed and not is_rank_zero()


class Command:
    """A function as a command with flags."""

    def __init__(
        self, verb: Verb, words: str, *, epilogue: str = "", choices: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Derive the flags of a function.

        Args:
            verb: the function, and what prints its result.
            words: come before the flags, as in "cloze fill".
            epilogue: the end of the help.
            choices: types of parameters that are other than in the signature, by name.
        """
        self.verb, self.words, self._see = verb, words, f"See {words} --help"
        function = self.function = verb.function
        self.parameters = {parameter.name: parameter for parameter in parameters_of(function)}
        self.parameters |= {parameter.name: parameter for parameter in parameters_of(CommonOptions)}
        for name, mode in verb.modes.items():
            text = paragraphs(mode.function).partition("\n")[0]
            self.parameters[name] = Parameter(name=name, kind=bool, default=False, help=text)
        for name in choices.keys() & self.parameters.keys():
            self.parameters[name] = dataclasses.replace(self.parameters[name], kind=choices[name])
        self.description = paragraphs(function)
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
            # containers configure servers by their environment
            config=[cyclopts.config.Env("CLOZE_", command=False, show=False)]
            if verb.work == "requests"
            else [],
        )
        self.app["--help"].show = False

        def stand_in(*_: object, **__: object) -> None:
            """Have the parameters that cyclopts reads."""

        signature = [p.to_signature(is_required=self._is_required(p)) for p in self.parameters.values()]
        signature.sort(key=lambda parameter: parameter.kind)
        stand_in.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
        stand_in.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
        stand_in.__doc__ = function.__doc__
        self.app.default(stand_in)

    def _is_required(self, parameter: Parameter) -> bool:
        """Return whether a parameter is required in all modes."""
        signatures = [inspect.signature(mode.function).parameters for mode in self.verb.modes.values()]
        return parameter.default is EMPTY and all(
            parameter.name in signature and signature[parameter.name].default is EMPTY
            for signature in signatures
        )

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the arguments that words give."""
        try:
            _, bound, _ = self.app.parse_args([STDIN if word == "-" else word for word in words])
        except exceptions.CycloptsError as error:
            raise self._explain(error) from None
        values: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            if name in bound.arguments:
                values[name] = parameter.convert(bound.arguments[name], see=self._see)
            elif parameter.shape == "many" and parameter.default is EMPTY:
                values[name] = ()  # the function says what is missing
        return values

    def call(self, values: dict[str, Any]) -> None:
        """Call the function of the verb or its mode with arguments of the command line, and print the result."""
        common = CommonOptions(**{name: values.pop(name) for name in COMMON_FLAGS & values.keys()})
        active = [name for name in self.verb.modes if values.pop(name, False)]
        others = [*active[1:], *(["resume"] if active and values.get("resume") else [])]
        if others:
            first, second = (self.parameters[name].names[0] for name in (active[0], others[0]))
            raise InputError(f"cannot be combined with {second}", where=first, remedy="Leave out one of them")
        verb = self.verb.modes[active[0]] if active else self.verb
        signature = inspect.signature(verb.function).parameters
        values = {name: parameter.default for name, parameter in signature.items()} | values
        if values.get("workers") == "auto":
            values["workers"] = usable_processors()
        values |= {COMMON: common, "progress": dataclasses.replace(common.progress, in_flags=self.in_flags)}
        if missing := [name for name in signature if values[name] is EMPTY]:
            raise self._missing(self.parameters[missing[0]].names[0])
        try:
            result = verb.function(**{name: values[name] for name in signature})
            shown_with = [*inspect.signature(verb.show).parameters][1:]
            shown = verb.show(result, **{name: values[name] for name in shown_with})  # may compute the rest
        except ClozeError as error:
            raise self._with_flags(error, values) from error.__cause__
        if shown is not None and not is_silent_rank(verb):
            with _naming_output(values.get("output")):
                common.print(*shown)

    def _with_flags(self, error: ClozeError, values: Mapping[str, Any]) -> ClozeError:
        """Return an error about a parameter as one about its flag; --set is named only where it is used."""
        is_of_others = error.where == SETTINGS and not values.get(SETTINGS)
        where = None if is_of_others else self._flag_of(error.where)
        remedy = error.remedy and self.in_flags(error.remedy)
        if where is None and error.where in self._settings():
            where = f"--set {error.where}"
        if where is not None and error.what == MISSING:
            return self._missing(where, remedy=remedy)
        return type(error)(self.in_flags(error.what), where=where or error.where, remedy=remedy)

    def in_flags(self, text: str) -> str:
        """Return a text with flags in the place of parameters and settings, which it has in backticks.

        `top_k` becomes --top-k, `top_k=5` --top-k 5, and `optimizer.learning_rate=1e-4`, of what has no flag,
        --set optimizer.learning_rate=1e-4.
        """

        def flag(match: re.Match[str]) -> str:
            name, value = match.groups()
            flag = self._flag_of(name)
            if value is None:
                return flag or match[0]
            if flag is not None:
                return f"{flag} {shlex.quote(value)}"
            return f"--set {shlex.quote(f'{name}={value}')}" if SETTINGS in self.parameters else match[0]

        return _QUOTED.sub(flag, text)

    def _flag_of(self, name: str | None) -> str | None:
        parameter = self.parameters.get(name or "")
        return None if parameter is None or parameter.is_positional else parameter.names[0]

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

    def print_help(self) -> None:
        """Print the help, as wide as the terminal."""
        from rich.console import Console  # slow

        width = max(shutil.get_terminal_size().columns, MIN_COLUMNS)
        self.app.help_print([], console=Console(file=sys.stdout, width=width, highlight=False, emoji=False))

    def _missing(self, name: str, *, remedy: str | None = None) -> InputError:
        what = f"the flag {name} is missing" if name.startswith("-") else f"{name} is missing"
        return InputError(what, remedy=remedy or self._see)

    def _explain(self, error: exceptions.CycloptsError) -> InputError:
        """Return the error of a wrong command line in our words."""
        remedy = self._see
        name = error.argument and error.argument.name
        if isinstance(error, exceptions.MissingArgumentError) and name:
            if error.keyword:
                return InputError("needs a value", where=name, remedy=remedy)
            return self._missing(name)
        if isinstance(error, exceptions.UnknownOptionError):
            flag = (error.token.keyword or error.token.value).partition("=")[0]
            flags = {name.strip("-"): name for name in map(self._flag_of, self.parameters) if name}
            if near := nearest(flag, [*flags, *self._settings()]):
                remedy = f"Did you mean {flags.get(near, f'--set {near}=VALUE')}? {remedy}"
            return InputError(f"no flag {flag}", remedy=remedy)
        if isinstance(error, exceptions.CoercionError) and name and error.token:
            value, choices = error.token.value, [*map(str, get_args(error.target_type))]
            remedy = did_you_mean(value, choices)
            return InputError(f"{value[:40]!r} is not a choice", where=name, remedy=remedy)
        if isinstance(error, exceptions.UnusedCliTokensError) and error.unused_tokens:
            return InputError("is one word too many", where=error.unused_tokens[0], remedy=remedy)
        return InputError(str(error).rstrip("."), remedy=remedy)

    def _settings(self) -> list[str]:
        """Return the keys of `--set`, without those of tasks."""
        return [*getattr(self.function, "setting_names", tuple)()]


@contextmanager
def _naming_output(output: object) -> Iterator[None]:
    """Say that an output is complete where the disk has no room for what is printed about it."""
    try:
        yield
        if output is not None:
            sys.stdout.flush()
    except OSError as error:
        if output is None or error.errno != errno.ENOSPC:
            raise
        raise RunError(str(error.strerror), where="stdout", remedy=f"{output} is complete") from error
