"""Locks on run directories: one process, or the ranks of one run, at a time."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from cloze import artifacts, file_io
from cloze.errors import InputError
from cloze.training.distributed import DistributedContext


@contextmanager
def file_lock(file: Path, taken: InputError) -> Iterator[None]:
    """Hold a lock that the system releases when the process ends, however it ends.

    Args:
        file: an empty file in an existing directory; it is not deleted.
        taken: the error to raise if another process holds the lock.
    """
    lock = FileLock(file, timeout=0)
    with file_io.disk_errors(file), suppress(NotImplementedError):  # raised on disks without locks
        try:
            lock.acquire()
        except Timeout:
            raise taken from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def run_lock(run: Path, context: DistributedContext) -> Iterator[None]:
    """Keep other processes from creating, resuming or replacing a run; leave what was there if none is created."""
    is_new = not run.exists()
    with ExitStack() as locks:
        context.run_on_rank_zero(lambda: locks.enter_context(_lock(run)))
        try:
            yield
        finally:
            with suppress(OSError):
                if context.is_rank_zero and os.listdir(run) == [artifacts.LOCK_FILE]:
                    (run / artifacts.LOCK_FILE).unlink()
                    if is_new:
                        run.rmdir()


def _lock(run: Path) -> AbstractContextManager[None]:
    with file_io.disk_errors(run):
        run.mkdir(parents=True, exist_ok=True)
    taken = InputError("another process is using this run", where=run, remedy="Wait for it, or stop it first")
    return file_lock(run / artifacts.LOCK_FILE, taken)
