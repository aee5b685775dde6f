"""A run has one process at a time; of several ranks the first stands for all."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from cloze import artifacts
from cloze.errors import InputError
from cloze.training.distribution import World

_LOCK = ".lock"


@contextmanager
def alone_at(run: Path, world: World) -> Iterator[None]:
    """Keep other processes from going on with a run, or beginning it anew, until this one has done with it.

    Raises:
        InputError: another process is at it.
    """
    with ExitStack() as locks:
        world.by_first(lambda: locks.enter_context(_lock(run)))
        yield


def check_nobody_is_at(run: Path) -> None:
    """Refuse to replace a run that another process is at.

    Raises:
        InputError: one is.
    """
    if run.is_dir():
        with _lock(run):
            pass


def _lock(run: Path) -> AbstractContextManager[None]:
    remedy = "Wait for it, or stop it first"
    return artifacts.held(run / _LOCK, InputError("another process is at this run", where=run, remedy=remedy))
