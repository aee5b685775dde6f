"""From the words after a verb to a call, and from a wrong usage to one line."""

import functools
import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

import tyro

from cloze.errors import InputError

_DECORATION = re.compile("\x1b\\[[0-9;]*m|[╭╮╰╯│]")
_RULE = re.compile("[─-]{3,}")  # of dashes where stdout is not UTF-8
_LINES_OF_A_HINT = 2
_URL = re.compile(r"[a-z][a-z0-9+.-]+:/")
"""As a path writes it: with one slash."""


def parse(run: Callable[..., None], verb: str, arguments: list[str]) -> Callable[[], None]:
    """Return the call of a verb's `run` that its arguments ask for, without making it.

    Raises:
        InputError: a flag that the verb does not have, a value that a flag does not take, or something is missing;
            a URL where there must be a path.
        SystemExit: --help was asked for and printed.
    """

    @functools.wraps(run)
    def call_later(*args: object, **kwargs: object) -> functools.partial[None]:
        return functools.partial(run, *args, **kwargs)

    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint):
            call: functools.partial[None] = tyro.cli(
                call_later,
                prog=f"cloze {verb}",
                args=arguments,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
            )
    except SystemExit as leaving:
        if not leaving.code:
            raise
        remedy = f"cloze {verb} --help lists what there is"
        raise InputError(_first_words(complaint.getvalue()), remedy=remedy) from None
    for value in (*call.args, *call.keywords.values()):
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Path) and _URL.match(str(each)):
                remedy = "Give a path, and copy from or to the store beside it"
                raise InputError(
                    "no path of this machine", where=str(each).replace(":/", "://", 1), remedy=remedy
                )
    return call


def _first_words(box: str) -> str:
    """Return what a box of tyro's says is wrong, and which flag may have been meant, as one line."""
    sections: list[list[str]] = [[]]
    for line in box.splitlines()[1:]:  # below the title
        words = _DECORATION.sub("", line).strip()
        if _RULE.fullmatch(words):
            sections.append([])
        elif words:
            sections[-1].append(words)
    wrong, *rest = filter(None, sections)
    hints = [section[:_LINES_OF_A_HINT] for section in rest if section[0].startswith("Perhaps")]
    return ". ".join(" ".join(section).rstrip(". ") for section in [wrong, *hints])
