"""Exceptions as one line on stderr: errors of cloze, of the system and of packages, and bugs."""

import errno
import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

from cloze.errors import ClozeError, InputError, RunError, is_out_of_memory
from cloze.text_encoding import escape_controls


def report(error: Exception) -> int:
    """Print an error and return the exit code."""
    is_left = isinstance(error, BrokenPipeError) and _is_closed_pipe(sys.stdout)  # as after `| head`
    try:
        sys.stdout.flush()
    except OSError:  # the null device takes the rest, or Python fails on it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if is_left:
        return 0
    reported = _to_cloze_error(error)
    with suppress(OSError):  # stderr may be closed, too
        print(escape_controls(f"error: {reported}"), file=sys.stderr)
    return reported.exit_code


def _to_cloze_error(error: Exception) -> ClozeError:
    """Return a one-line error for any exception.

    A file that cannot be read for lack of memory is not wrong, whatever its reader says.
    """
    if any(map(is_out_of_memory, _causes(error))) and not isinstance(error, RunError):
        return RunError("out of memory", remedy="Use a smaller model, shorter texts or fewer --workers")
    if isinstance(error, ClozeError):
        return error
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        remedy = "Install it: pip install torch (exported graphs answer without it)"
        return InputError("this needs PyTorch, which is not installed", remedy=remedy)
    if package := _failing_package(error):
        remedy = f"Install it again: pip install --force-reinstall {package}"
        return RunError(f"cannot be imported: {_describe(error)}", where=f"package {package}", remedy=remedy)
    if isinstance(error, OSError):
        if error.errno == errno.EBADF and error.filename is None:
            return RunError("cannot be written: it is closed", where="stdout", remedy="Redirect it to a file")
        kind = InputError if error.errno == errno.ENAMETOOLONG else RunError
        is_full = error.errno == errno.ENOSPC  # errors of writing a file name it
        is_print = error.filename is None and (is_full or _modules(error)[-1].startswith("cloze.cli"))
        return kind(error.strerror or str(error), where="stdout" if is_print else error.filename)
    return RunError(_describe(error), remedy="This is a bug in cloze: --debug shows where")


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that it was raised for."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:  # an exception may lead back to itself
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _failing_package(error: Exception) -> str | None:
    """Return the package whose modules raised an exception while they were imported, or that lacks something."""
    names = _modules(error, of_functions=False)
    if isinstance(error, ImportError):
        names.append(error.name or "")
    packages = (name.partition(".")[0] for name in names)
    return next((name for name in packages if name not in ("", "cloze", "__main__")), None)


def _modules(error: Exception, *, of_functions: bool = True) -> list[str]:
    """Return the modules in the traceback of an exception; without those of functions, which were being imported."""
    return [
        str(frame.f_globals.get("__name__"))
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if of_functions or frame.f_code.co_name == "<module>"
    ]


def _is_closed_pipe(stream: TextIO) -> bool:
    """Return whether a stream is a pipe without a reader."""
    import select

    if sys.platform == "win32":  # no poll; a closed pipe is by far the likeliest reason
        return True
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except io.UnsupportedOperation:  # not a file
        return False
