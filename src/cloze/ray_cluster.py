"""Map a function over data on a Ray cluster, with the same functions and results as on one machine."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from cloze.errors import InputError, RunError
from cloze.optional_dependencies import import_package, require
from cloze.parallel_map import AnyWorkers, WorkerPlacement, Workers

Item = TypeVar("Item")
Result = TypeVar("Result")

_RETRIES = 5
"""Of an item whose worker or machine was lost; an item that kills every worker must end."""


def resolve_workers(workers: AnyWorkers) -> Workers:
    """Return the number of processes, or the cluster, that an argument of a public function means."""
    if workers == "ray":
        return RayCluster()
    if isinstance(workers, str) and workers != "auto":
        raise InputError(f"{workers[:40]!r} is not a number", where="workers", remedy="Give one, auto or ray")
    return 1 if workers == "auto" else workers


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
            os.chdir(directory)  # relative paths are those of this process
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


def cpus_per_item(items: int, nodes: Sequence[int]) -> int:
    """Return the largest number of processors that all items can have at the same time; at least 1.

    With several machines, two of them have that many, so that an item of a lost machine can move to another.

    Args:
        nodes: processors of each machine.
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
