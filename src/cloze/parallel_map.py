"""Map a function over data in several processes or on a Ray cluster, with bounded memory and the same results."""

import multiprocessing
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

from cloze.errors import InputError, RunError, handle_data_warnings
from cloze.optional_dependencies import import_package, require

_MAX_WORKERS = 1024
_RETRIES = 5
"""Of an item whose worker or machine was lost; an item that kills every worker must end."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerPlacement(NamedTuple):
    """Where a computation runs."""

    workers: "int | RayCluster"
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


@dataclass(frozen=True, slots=True)
class RayCluster:
    """The cluster of this process or of the variable RAY_ADDRESS; without either, one on this machine.

    Ray moves items and results, and repeats what a lost machine was working on. cloze must be installed on every
    machine, and the paths that a function reads and writes must be the same files everywhere.
    """

    num_cpus: float = 1
    """Processors per item."""
    num_gpus: float = 0
    """GPUs per item."""

    def with_resources(self, device: str, *, items: int | None = None) -> WorkerPlacement:
        """Return the cluster with a device and processors for each item.

        Args:
            device: cuda is one GPU per item; auto is the same if the cluster has GPUs, else processors.
            items: number of items; each gets as many processors as the others leave.
        """
        nodes = [node["Resources"] for node in _ray().nodes() if node["Alive"]]
        num_cpus, num_gpus = self.num_cpus, self.num_gpus
        if items is not None:
            num_cpus = cpus_per_item(items, [int(node.get("CPU", 0)) for node in nodes])
        if device == "auto":
            device = "cuda" if any(node.get("GPU", 0) > 0 for node in nodes) else "cpu"
        if device.startswith("cuda"):  # Ray shows each item its own GPU only
            device, num_gpus = "cuda", num_gpus or 1
        return WorkerPlacement(
            replace(self, num_cpus=num_cpus, num_gpus=num_gpus), device, max(1, int(num_cpus))
        )

    @property
    def num_workers(self) -> int:
        """Number of items that the current machines can process at once."""
        resources = _ray().cluster_resources()
        workers = resources.get("CPU", 0) / self.num_cpus
        if self.num_gpus:
            workers = min(workers, resources.get("GPU", 0) / self.num_gpus)
        if workers < 1:
            what = f"no machine of the Ray cluster has {self.num_cpus:g} CPUs and {self.num_gpus:g} GPUs to spare"
            raise InputError(what, where="workers")
        return int(workers)

    @contextmanager
    def open(self, function: Callable[[Item], Result]) -> Iterator[Callable[[Item], Future[Result]]]:
        """Open the workers of a function; unfinished calls are canceled on leaving."""
        ray, directory = _ray(), os.getcwd()
        handles: dict[Future[Result], Any] = {}

        def call(item: Item) -> Result:
            os.chdir(directory)  # relative paths belong to this process
            return function(item)

        def submit(item: Item) -> Future[Result]:
            handle = task.remote(item)
            future: Future[Result] = handle.future()
            handles[future] = handle
            future.add_done_callback(handles.pop)
            return future

        task = ray.remote(num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=_RETRIES)(call)
        try:
            yield submit
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # the function's own error, without the stack of another machine
        except ray.exceptions.RayError as error:
            what = f"an item was lost {_RETRIES + 1} times: {str(error).splitlines()[0]}"
            remedy = "Run it again; finished items are not repeated"
            raise RunError(what, where="ray", remedy=remedy) from error
        finally:
            # Ray aborts this process if a call ends at the moment when it is canceled (ray-project/ray#54798 fixes
            # half of it). That is likely for short calls, so they are given time to end.
            if unfinished := list(handles.values()):
                _, unfinished = ray.wait(unfinished, num_returns=len(unfinished), timeout=1)
            for handle in unfinished:
                ray.cancel(handle, force=True)


Workers: TypeAlias = int | RayCluster
"""Number of processes on this machine, where 1 is the current process; or a cluster."""
AnyWorkers: TypeAlias = Annotated[
    int | Literal["auto", "ray"] | RayCluster,
    "number of processes; auto is one per core (in Python 1), ray the cluster at RAY_ADDRESS.",
    "auto",
]
"""What public functions take: "auto" is every core for the command line, which may start its process again, and this
process in Python; "ray" is the cluster at RAY_ADDRESS."""


def resolve_workers(workers: AnyWorkers) -> Workers:
    """Return the number of processes, or the cluster, that an argument of a public function means."""
    if workers == "ray":
        return RayCluster()
    if isinstance(workers, str) and workers != "auto":
        raise InputError(f"{workers[:40]!r} is not a number", where="workers", remedy="Give one, auto or ray")
    return 1 if workers == "auto" else workers


def num_workers(workers: Workers) -> int:
    """Return the number of calls that run at once."""
    if isinstance(workers, RayCluster):
        return workers.num_workers
    if not 1 <= workers <= _MAX_WORKERS:
        what = f"{workers} is less than 1" if workers < 1 else f"more than {_MAX_WORKERS:,} processes"
        raise InputError(what, where="workers", remedy="Choose the number of cores")
    return workers


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
    num_workers(workers)
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


def _end_with_parent(read_end: Any) -> None:  # a Connection, on Windows a PipeConnection
    """End this worker when the parent closes its end of the pipe, as the system does if the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes, and the parent handles it

    def wait_for_end() -> None:
        read_end.poll(None)  # nothing is ever sent, so this returns when the pipe is closed
        os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()


def cpus_per_item(items: int, nodes: Sequence[int]) -> int:
    """Return the largest number of processors that all items can have at the same time; at least 1.

    With several machines, two of them have that many, so that an item of a lost machine can move to another.
    """
    two_largest = sorted((node for node in nodes if node), reverse=True)[:2] or [1]
    sizes = range(two_largest[-1], 1, -1)
    return next((size for size in sizes if sum(node // size for node in nodes) >= items), 1)


def _ray() -> Any:
    require(["ray"], extra="ray", where="workers")
    ray: Any = import_package("ray")
    if not ray.is_initialized():
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
        except (ConnectionError, ValueError, RuntimeError) as error:
            what = f"cannot connect to a Ray cluster: {str(error).splitlines()[0]}"
            remedy = "Start one with ray start --head, or unset RAY_ADDRESS"
            raise InputError(what, where="workers", remedy=remedy) from error
    return ray
