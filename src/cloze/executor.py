"""Mapping a function over data in several processes, each result as soon as it is there, with memory bounded."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from cloze.errors import InputError, RunError

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    """Somewhere else that a function is mapped over data, as on a cluster."""

    @property
    def num_workers(self) -> int:
        """How many items are worked on at once."""

    def equipped(self, device: str, *, items: int | None = None) -> "Equipment":
        """Return the same such that each item has what it computes on.

        Args:
            device: cpu, cuda, mps or auto.
            items: that there are, each worth many processors; None where they are many and small.
        """

    def map_unordered(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Do as the function of this name does."""

    def map_ordered(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Do as the function of this name does."""


class Equipment(NamedTuple):
    """An executor, and what each of its items computes with."""

    executor: Executor
    device: str
    threads: int


Workers: TypeAlias = int | Executor
"""So many processes of this machine, where 1 is this process itself; or an executor."""


def num_workers(workers: Workers) -> int:
    """Return how many items are worked on at once."""
    return workers if isinstance(workers, int) else workers.num_workers


def map_unordered(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: Workers
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in the order in which they are done.

    At most two items a worker are under way, so `items` may be a generator over more than memory holds. No worker
    outlives this process, however it ends, nor an error: what the others were at is given up.

    Args:
        function: a top-level function, which travels to other processes by name, or a `partial` of one.
        items: what to map over.
        workers: where.

    Raises:
        InputError: `workers` is not positive.
        RunError: a worker died (most often killed for want of memory).
    """
    if not isinstance(workers, int):
        yield from workers.map_unordered(function, items)
        return
    if workers == 1:
        yield from map(function, items)
        return
    pending: set[Future[Result]] = set()
    with _pool(workers) as pool:
        for item in items:
            pending.add(_submit(pool, function, item))
            if len(pending) >= 2 * workers:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


def map_ordered(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: Workers
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in their order; else as `map_unordered`.

    At most four items a worker are under way or done and waiting for one before them.
    """
    if not isinstance(workers, int):
        yield from workers.map_ordered(function, items)
        return
    if workers == 1:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    with _pool(workers) as pool:
        for item in items:
            pending.append(_submit(pool, function, item))
            if len(pending) >= 4 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that end with this one, and at once where an error leaves the block."""
    if workers < 1:
        raise InputError(f"{workers} is less than 1", where="workers")
    # Not fork: the parent may hold threads (tokenizers' pool, progress), and a fork copies their locks held.
    context = multiprocessing.get_context("spawn")
    lifeline, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, initializer=_depend_on, initargs=(lifeline,))
    try:
        yield pool
    except BaseException as error:
        ours.close()
        if isinstance(error, BrokenProcessPool):
            remedy = "Run it again, with fewer --workers if memory ran out"
            raise RunError("a worker process died", remedy=remedy) from error
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        ours.close()
        lifeline.close()


def _submit(pool: ProcessPoolExecutor, function: Callable[[Item], Result], item: Item) -> Future[Result]:
    try:
        return pool.submit(function, item)
    except OSError as error:
        # It starts a worker where none is free, which fails if another dies meanwhile: their queue is closed then
        raise BrokenProcessPool from error


def _depend_on(lifeline: Connection) -> None:
    """End this worker when the other end of a pipe is closed, as it is when the process that holds it dies."""
    # Ctrl-C reaches all processes, and the parent answers for them
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_at_end_of, args=(lifeline,), daemon=True).start()


def _leave_at_end_of(lifeline: Connection) -> None:
    lifeline.poll(None)  # nothing is ever sent: what comes is the end
    os._exit(1)
