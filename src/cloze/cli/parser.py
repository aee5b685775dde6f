"""Parse the arguments of a command with tyro, and report wrong usage in one line."""

import dataclasses
import functools
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, NamedTuple

import tyro

from cloze.errors import InputError
from cloze.tables import MIN_COLUMNS

_COLOR = re.compile("\x1b\\[[0-9;]*m")
_DECORATION = re.compile("\x1b\\[[0-9;]*m|[╭╮╰╯│]")
_RULE = re.compile("[─-]{3,}")  # hyphens if stdout is not UTF-8
_HINT_LINES = 2
_UNKNOWN = re.compile(r"Unrecognized options: (--[\w-]+)")
_NO_NUMBER = re.compile(
    r"Error parsing (?:-\w/)?(?P<flag>--[\w-]+): .*"
    r"(?:literal for int\(\) with base 10|(?P<float>string to float)|valid parse for arguments): (?P<value>.{,40})"
)
_LONG_NUMBER = re.compile(r"Error parsing (?:-\w/)?(?P<flag>--[\w-]+): .*Exceeds the limit \(")
_TOO_LONG = "the number has more than 18 digits"
_MAX_INTEGER = 10**18
"""Libraries count in 64 bits."""
_ENTRY = re.compile(r"\n {1,2}(?=--?[a-z])")
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
    "train-file": "data",
    "train": "data",
    "validation-file": "dev",
}
"""Flags of other programs that share no word with ours."""
_URL = re.compile(r"[a-z][a-z0-9+.-]+:/")
"""A URL as `Path` writes it, with one slash."""


def parse(run: Callable[..., None], command: str, arguments: list[str]) -> Callable[[], None]:
    """Return the call of `run` that the arguments ask for.

    Raises:
        InputError: a flag is unknown or missing, a value is wrong, or a local path is a URL.
        SystemExit: `--help` was printed.
    """

    @functools.wraps(run)
    def call_later(*args: object, **kwargs: object) -> functools.partial[None]:
        return functools.partial(run, *args, **kwargs)

    message, help_text = io.StringIO(), _Help(sys.stdout)
    try:
        with redirect_stderr(message), redirect_stdout(help_text), _min_columns():
            call: functools.partial[None] = tyro.cli(
                call_later,
                prog=command,
                args=arguments,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
            )
    except SystemExit as exit_request:
        if not exit_request.code:
            _print_help(help_text.getvalue())
            raise
        error, remedy = _first_error(message.getvalue()), f"See {command} --help"
        if unknown := _UNKNOWN.match(error):
            has_hint = "Perhaps you meant" in error
            if suggestion := suggest(unknown[1], run, command, is_exact=has_hint):
                error, remedy = f"no flag {unknown[1]}", f"Did you mean {suggestion}? {remedy}"
        if number := _LONG_NUMBER.match(error):
            raise InputError(_TOO_LONG, where=number["flag"], remedy="Give a smaller one") from None
        if number := _NO_NUMBER.match(error):
            what = f"{number['value'].rstrip('. -')} is not a {'' if number['float'] else 'whole '}number"
            raise InputError(what, where=number["flag"], remedy=remedy) from None
        raise InputError(error, remedy=remedy) from None
    _check_integers(call.keywords)
    for value in (*call.args, *call.keywords.values()):
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and _URL.match(str(path)):
                url = str(path).replace(":/", "://", 1)
                raise InputError("this flag takes a local path", where=url, remedy="Copy the files first")
    return call


def _check_integers(values: Mapping[str, object]) -> None:
    """Refuse integers that libraries cannot count with."""
    for name, value in values.items():
        if dataclasses.is_dataclass(value):
            _check_integers(vars(value))
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and abs(number) > _MAX_INTEGER:
                where = f"--{name.replace('_', '-')}"
                raise InputError(_TOO_LONG, where=where, remedy="Give a smaller one")


@contextmanager
def _min_columns() -> Iterator[None]:
    """Widen very narrow terminals, for which tyro wraps its help endlessly."""
    before = os.environ.get("COLUMNS")
    if shutil.get_terminal_size().columns >= MIN_COLUMNS:
        yield
        return
    os.environ["COLUMNS"] = str(MIN_COLUMNS)
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


class _Help(io.StringIO):
    """Stands in for stdout: tyro writes colors only to a terminal, and frames only in UTF-8."""

    def __init__(self, stdout: IO[str]) -> None:
        super().__init__()
        self._stdout = stdout

    def isatty(self) -> bool:
        return self._stdout.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._stdout, "encoding", None) or "ascii"


def _print_help(text: str) -> None:
    """Print the help with usage and description, which tyro does not wrap, as wide as the terminal."""
    width = max(shutil.get_terminal_size().columns, MIN_COLUMNS)
    for line in text.splitlines():
        plain = _COLOR.sub("", line)
        is_long = len(plain) > width and not _DECORATION.match(plain)
        indent = "  " if plain.startswith("usage:") else ""
        print(textwrap.fill(plain, width, subsequent_indent=indent) if is_long else line)


class Flag(NamedTuple):
    """A flag of a command, as in --output, -o."""

    name: str
    short: str
    """Empty for most."""
    description: str


def flags_of(run: Callable[..., None], command: str) -> list[Flag]:
    """Return the flags of a command, from its help."""
    text = io.StringIO()
    with redirect_stdout(text), suppress(SystemExit):
        parse(run, command, ["--help"])
    flags = []
    for entry in _ENTRY.split(_DECORATION.sub("", text.getvalue()))[1:]:
        first_line = entry.partition("\n")[0].rstrip()
        names, _, description = entry.partition("  " if "  " in first_line else "\n")
        description = description.partition("\n\n")[0].rpartition("} ")[2]
        shorts = re.findall(r"(?<![\w-])-[a-z]\b", names)
        flags += [
            Flag(name, shorts[0] if shorts else "", " ".join(description.split()))
            for name in re.findall(r"--[a-z][a-z0-9-]*", names)
        ]
    return flags


def suggest(unknown: str, run: Callable[..., None], command: str, *, is_exact: bool = False) -> str | None:
    """Return the flag or the setting of a command that other programs call by another name, or None.

    The other name is a setting, or it has the initials (lr) or all words of a flag (num_train_epochs), or the first
    word of a setting (warmup_ratio).

    Args:
        unknown: the flag.
        run: the function of the command.
        command: words before the flags.
        is_exact: return only a setting of that very name.
    """
    word = unknown.strip("-").replace("_", "-")
    flags = {flag.name.strip("-"): flag.name for flag in flags_of(run, command)}
    settings: dict[str, str] = {}
    if command in _SETTINGS:
        module, config = _SETTINGS[command]
        for setting in _settings(getattr(import_module(module), config)):
            settings.setdefault(setting.rpartition(".")[2].replace("_", "-"), f"--set {setting}=VALUE")
    names = settings | flags
    if is_exact:
        return settings.get(word)
    matches = [
        [name for name in (word, _SYNONYMS.get(word)) if name in names],
        [name for name in (*flags, *settings) if "".join(part[:1] for part in name.split("-")) == word],
        sorted((name for name in flags if {*name.split("-")} <= {*word.split("-")}), key=len, reverse=True),
        [name for name in settings if name.split("-")[0] == word.split("-")[0]],
    ]
    return next((names[similar[0]] for similar in matches if similar), None)


def _settings(config: type) -> Iterator[str]:
    """Yield the dotted keys of a settings class."""
    for field in dataclasses.fields(config):
        default = field.default_factory
        section = None if default is dataclasses.MISSING else default()
        if dataclasses.is_dataclass(section):
            yield from (f"{field.name}.{key}" for key in _settings(type(section)))
        else:
            yield field.name


def _first_error(message: str) -> str:
    """Return the error and the suggestions of tyro's message as one line."""
    sections: list[list[str]] = [[]]
    for line in message.splitlines()[1:]:  # without the title
        text = _DECORATION.sub("", line).strip()
        if _RULE.fullmatch(text):
            sections.append([])
        elif text:
            sections[-1].append(text)
    error, *rest = filter(None, sections)
    hints = [section[:_HINT_LINES] for section in rest if section[0].startswith("Perhaps")]
    return ". ".join(" ".join(section).rstrip(". ") for section in [error, *hints])
