"""Mapping a function over data on a Ray cluster: the same functions and results as in processes of this machine."""

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from cloze.errors import InputError, RunError
from cloze.executor import Equipment
from cloze.extras import require

Item = TypeVar("Item")
Result = TypeVar("Result")

_ITEMS_PER_WORKER = 2
_RETRIES = 5
"""Of an item whose worker or machine was lost; one that kills every worker must come to an end."""


@dataclass(frozen=True, slots=True)
class RayCluster:
    """The cluster that this process belongs to, or that the variable RAY_ADDRESS names; else one on this machine.

    Ray finds the machines, moves items and results, and does again what a lost machine was at. cloze must be
    installed on each of them, and the paths that a function reads and writes must be the same files everywhere.
    """

    num_cpus: float = 1
    """That an item takes."""
    num_gpus: float = 0

    def equipped(self, device: str, *, items: int | None = None) -> Equipment:
        """Return the cluster such that an item has what it computes on.

        Args:
            device: cuda is a GPU for each item; auto is one where the cluster has some, else processors.
            items: that there are: each takes as many processors as leave room for the others.
        """
        nodes = [node["Resources"] for node in _ray().nodes() if node["Alive"]]
        num_cpus, num_gpus = self.num_cpus, self.num_gpus
        if items is not None:
            num_cpus = _cpus_for(items, [int(node.get("CPU", 0)) for node in nodes])
        if device == "auto":
            device = "cuda" if any(node.get("GPU", 0) > 0 for node in nodes) else "cpu"
        if device.startswith("cuda"):  # of those that it sees, an item has one
            device, num_gpus = "cuda", num_gpus or 1
        return Equipment(replace(self, num_cpus=num_cpus, num_gpus=num_gpus), device, max(1, int(num_cpus)))

    @property
    def num_workers(self) -> int:
        """How many items the machines that are there now can work on at once."""
        resources = _ray().cluster_resources()
        by_cpu = resources.get("CPU", 0) / self.num_cpus
        fitting = min(by_cpu, resources.get("GPU", 0) / self.num_gpus) if self.num_gpus else by_cpu
        if fitting < 1:
            what = f"no machine of the Ray cluster has {self.num_cpus:g} CPUs and {self.num_gpus:g} GPUs to spare"
            raise InputError(what, where="executor")
        return int(fitting)

    def map_unordered(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield `function(item)` for each item, in the order in which they are done; two a worker are under way."""
        with self._submitting(function) as (submit, pending):
            for item in items:
                pending.append(submit(item))
                if len(pending) >= _ITEMS_PER_WORKER * self.num_workers:
                    yield _take_one_that_is_done(pending)
            while pending:
                yield _take_one_that_is_done(pending)

    def map_ordered(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield `function(item)` for each item, in their order; four a worker are under way or wait for their turn."""
        with self._submitting(function) as (submit, pending):
            for item in items:
                pending.append(submit(item))
                if len(pending) >= 2 * _ITEMS_PER_WORKER * self.num_workers:
                    yield _result(pending.popleft())
            while pending:
                yield _result(pending.popleft())

    @contextmanager
    def _submitting(
        self, function: Callable[[Item], Result]
    ) -> Iterator[tuple[Callable[[Item], Any], deque[Any]]]:
        """Yield what begins an item, and a queue for those under way; they are given up where an error leaves it."""
        ray = _ray()
        pending: deque[Any] = deque()
        here = os.getcwd()

        def work(item: Item) -> Result:
            os.chdir(here)  # so that relative paths are those of this process
            return function(item)

        task = ray.remote(num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=_RETRIES)(work)
        try:
            yield task.remote, pending
        finally:
            for reference in _unfinished(pending):
                ray.cancel(reference, force=True)


def _cpus_for(items: int, nodes: Sequence[int]) -> int:
    """Return the most processors that so many items can have at once; one where there are not even as many.

    Where there are several machines two of them have as many, so that an item of a lost one can go elsewhere.
    """
    largest = sorted((node for node in nodes if node), reverse=True)[:2] or [1]
    most = largest[-1]
    return next((size for size in range(most, 1, -1) if sum(node // size for node in nodes) >= items), 1)


def _unfinished(pending: Collection[Any]) -> list[Any]:
    """Return those that do not end in a second.

    Ray aborts this process where an item ends in the very moment it is given up (ray-project/ray#54798 mends half of
    it). Of short items one always might; so they end by themselves.
    """
    if not pending:
        return []
    _, unfinished = _ray().wait(list(pending), num_returns=len(pending), timeout=1)
    return list(unfinished)


def _take_one_that_is_done(pending: deque[Any]) -> Any:
    (done, *_), _ = _ray().wait(list(pending), num_returns=1)
    pending.remove(done)
    return _result(done)


def _result(reference: Any) -> Any:
    ray = _ray()
    try:
        return ray.get(reference)
    except (
        ray.exceptions.RayTaskError
    ) as error:  # the function's own, with the stack of another machine as its text
        raise error.cause from None
    except ray.exceptions.RayError as error:
        what = f"an item was lost {_RETRIES + 1} times: {str(error).splitlines()[0]}"
        raise RunError(
            what, where="ray", remedy="Run it again; what is finished is not done again"
        ) from error


def _ray() -> Any:
    """Return Ray, connected.

    Raises:
        InputError: it is not installed, or the cluster does not answer.
    """
    require(["ray"], extra="ray", where="executor")
    import ray

    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
        except (ConnectionError, ValueError, RuntimeError) as error:
            what = f"no Ray cluster to be had: {str(error).splitlines()[0]}"
            raise InputError(
                what, where="executor", remedy="Begin one with ray start --head, or unset RAY_ADDRESS"
            ) from error
    return ray
