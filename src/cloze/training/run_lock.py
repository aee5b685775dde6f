"""A run has one process at a time; of several ranks the first stands for all."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from cloze import artifacts
from cloze.errors import InputError
from cloze.training.distribution import World

_LOCK = ".lock"


@contextmanager
def held(file: Path, taken: InputError) -> Iterator[None]:
    """Hold a lock, of which the system frees a process that ends in whatever way.

    Args:
        file: in a directory that is there; it stays, and says nothing.
        taken: what is raised where another process holds the lock.

    Raises:
        RunError: the disk is full or cannot be written.
    """
    lock = FileLock(file, timeout=0)
    with artifacts.disk_errors(file), suppress(NotImplementedError):  # of a disk that has no locks
        try:
            lock.acquire()
        except Timeout:
            raise taken from None
    try:
        yield
    finally:
        lock.release()


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
    return held(run / _LOCK, InputError("another process is at this run", where=run, remedy=remedy))
