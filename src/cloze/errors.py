"""Errors with one-line messages for users: where, what is wrong, and the remedy."""

import errno
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

MISSING = "is missing"
"""Problem of an argument that one use of a function needs; the shell reports it like a required flag."""
_MAX_CHARACTERS = 2000
"""Maximum length of an error's line."""


_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "could not create a primitive",  # of oneDNN
    "failed to map segment",  # of the loader of libraries
    "bad_alloc",
    "can't start new thread",
    "failed to launch worker thread",  # of Arrow
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an allocation failed; torch, Arrow and the loader of libraries have no exception class for it."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    is_candidate = isinstance(error, RuntimeError | OSError | ImportError) or type(error).__name__.startswith(
        "Arrow"
    )
    return is_candidate and any(text in str(error).lower() for text in _OUT_OF_MEMORY)


class ClozeError(Exception):
    """An error that the command line prints without a traceback.

    Args:
        what: the problem in a few words, without a period.
        where: the file, `file:line` or setting.
        remedy: the solution as a sentence without a period.

    >>> print(InputError("734 tokens, the model takes 512", where="train.jsonl:118", remedy="Use --truncate"))
    train.jsonl:118: 734 tokens, the model takes 512. Use --truncate.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: object = None, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = None if where is None else str(where)
        self.remedy = remedy

    def __str__(self) -> str:
        message = self.what if self.where is None else f"{self.where}: {self.what}"
        line = (
            message
            if self.remedy is None
            else f"{message}. {self.remedy}{'' if self.remedy.endswith('?') else '.'}"
        )
        # names and values from files may contain terminal escape sequences
        line = " ".join(line.split())
        if len(line) > _MAX_CHARACTERS:  # a table may have thousands of columns, or a value megabytes
            half = (_MAX_CHARACTERS - 3) // 2
            line = f"{line[:half]} … {line[-half:]}"
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


class InputError(ClozeError):
    """A wrong input: a file, a setting, a command. Exit code 2."""

    exit_code = 2


class DataWarning(UserWarning):
    """A remark on a file of data, such as the number of rows that are left out."""


@contextmanager
def handle_data_warnings(handle: Callable[[Warning], object]) -> Iterator[None]:
    """Call a function with each `DataWarning` instead of showing it; other warnings are shown as before."""
    show_other = warnings.showwarning

    def show(message: Any, category: type[Warning], *place: Any, **rest: Any) -> None:
        if issubclass(category, DataWarning):
            handle(message)
        else:
            show_other(message, category, *place, **rest)

    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        warnings.showwarning = cast(Any, show)
        yield


class RunError(ClozeError):
    """A failure while running with correct input: a full disk, a NaN loss. Exit code 1."""
