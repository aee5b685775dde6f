"""Map a function over data in several processes or on a cluster, with bounded memory."""

import multiprocessing
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Annotated, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from cloze.arguments import describe
from cloze.errors import InputError, RunError, handle_data_warnings
from cloze.signatures import Option

_MAX_WORKERS = 1024

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    """A place to run workers other than the processes of this machine."""

    @property
    def num_workers(self) -> int:
        """Number of calls that run at once."""

    def open(self, function: Callable[[Item], Result]) -> "OpenedWorkers[Item, Result]":
        """Open the workers of a function; leaving the context cancels unfinished calls."""

    def with_resources(self, device: str, *, items: int | None = None) -> "WorkerPlacement":
        """Return an executor whose calls have a device and processors of their own.

        Args:
            device: cpu, cuda, mps or auto.
            items: number of items, if each is worth many processors; None for many small ones.
        """


OpenedWorkers: TypeAlias = AbstractContextManager[Callable[[Item], Future[Result]]]
"""A context in which the function that it yields starts calls."""
Workers: TypeAlias = int | Executor
"""Number of processes on this machine, where 1 is the current process; or an executor."""


AnyWorkers: TypeAlias = Annotated[
    int | Literal["auto", "ray"] | Executor,
    Option("number of processes; auto is one per core (in Python 1), ray the cluster at RAY_ADDRESS."),
]
"""What public functions take: "auto" is every core for the command line, which may start its process again, and this
process in Python; "ray" is the cluster at RAY_ADDRESS."""


class WorkerPlacement(NamedTuple):
    """Where a computation runs."""

    workers: Workers
    device: str
    """Device of each worker: cpu, cuda, mps or auto."""
    threads: int
    """Threads of each worker; this process keeps its own."""

    @property
    def in_process(self) -> bool:
        """Whether this process computes itself."""
        return self.workers == 1

    @property
    def local_device(self) -> str:
        """The device of this process, which only reads and writes if there are workers."""
        return self.device if self.in_process else "cpu"


def num_workers(workers: Workers) -> int:
    """Return the number of calls that run at once."""
    check_workers(workers)
    return workers if isinstance(workers, int) else workers.num_workers


def check_workers(workers: object) -> None:
    """Raise InputError if `workers` is neither a positive number up to a maximum nor an executor."""
    if isinstance(workers, bool) or not (isinstance(workers, int) or hasattr(workers, "num_workers")):
        remedy = "Give a number of processes, or a cluster"
        raise InputError(f"workers is {describe(workers)}", remedy=remedy)
    if isinstance(workers, int) and not 1 <= workers <= _MAX_WORKERS:
        what = f"{workers} is less than 1" if workers < 1 else f"more than {_MAX_WORKERS:,} processes"
        raise InputError(what, where="workers", remedy="Choose the number of cores")


def map_ordered(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: Workers
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in the order of the items; see `map_unordered`."""
    return map_unordered(function, items, workers=workers, ordered=True)


def map_unordered(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: Workers, ordered: bool = False
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in order of completion.

    Few items per worker are in flight, so `items` may be a generator over more than fits in memory. Workers end with
    this process, however it ends, and are stopped at the first error. `function` must be picklable: a top-level
    function or a `partial` of one.
    """
    check_workers(workers)
    if workers == 1:
        yield from map(function, items)
        return
    pending: deque[Future[tuple[Result, list[Warning]]]] = deque()
    call = partial(_call, function)
    opened = _open_processes(workers, call) if isinstance(workers, int) else workers.open(call)
    with opened as submit:

        def take() -> Result:
            done = pending[0] if ordered else next(iter(wait(pending, return_when=FIRST_COMPLETED).done))
            pending.remove(done)
            result, data_warnings = done.result()
            for warning in data_warnings:
                warnings.warn(warning, stacklevel=3)
            return result

        for item in items:
            pending.append(submit(item))
            if len(pending) >= (4 if ordered else 2) * num_workers(workers):  # some wait for an earlier one
                yield take()
        while pending:
            yield take()


def _call(function: Callable[[Item], Result], item: Item) -> tuple[Result, list[Warning]]:
    """Return the result of a call and its warnings about data, which a worker cannot show as this process does."""
    data_warnings: list[Warning] = []
    with handle_data_warnings(data_warnings.append):
        return function(item), data_warnings


@contextmanager
def _open_processes(
    workers: int, function: Callable[[Item], Result]
) -> Iterator[Callable[[Item], Future[Result]]]:
    """Start processes that end with this one, and at once if an error leaves the block."""
    # Not fork: this process may have threads (tokenizers, progress bars), and a fork copies the locks that they hold.
    context = multiprocessing.get_context("spawn")
    read_end, write_end = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, initializer=_end_with_parent, initargs=(read_end,))

    def submit(item: Item) -> Future[Result]:
        try:
            return pool.submit(function, item)
        except OSError as error:  # a worker died while another was starting, and their queue is closed
            raise BrokenProcessPool from error

    try:
        yield submit
    except BaseException as error:
        write_end.close()
        if isinstance(error, BrokenProcessPool):
            remedy = "Run it again, with fewer `workers` if memory ran out"
            raise RunError("a worker process died", remedy=remedy) from error
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        write_end.close()
        read_end.close()


def _end_with_parent(read_end: Connection) -> None:
    """End this worker when the parent closes its end of the pipe, as the system does if the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes, and the parent handles it

    def wait_for_end() -> None:
        read_end.poll(None)  # nothing is ever sent, so this returns when the pipe is closed
        os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()
