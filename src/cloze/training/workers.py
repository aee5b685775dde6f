"""Worker processes, their devices and threads, and the value that each loads once."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

from cloze.errors import InputError
from cloze.parallel_map import RayCluster, WorkerPlacement, Workers, num_workers
from cloze.process import compute_threads, set_compute_threads, usable_processors

Loaded = TypeVar("Loaded")


def place_workers(workers: Workers, device: str, *, items: int | None = None) -> WorkerPlacement:
    """Return where workers compute: each with its share of this machine's threads, or with resources of a cluster.

    Args:
        device: cpu, cuda, mps or auto.
        items: number of large items, which use many threads each; None for many small ones.
    """
    if isinstance(workers, RayCluster):
        return workers.with_resources(device, items=items)
    num_workers(workers)
    if workers > 1 and device != "cpu" and (device != "auto" or find_spec("torch")):
        from cloze.training.precision import resolve_device  # imports torch

        device_type = resolve_device(device).type
        if device_type != "cpu":
            what = f"several processes cannot share a device of type {device_type}"
            raise InputError(what, where="workers", remedy="Leave `workers` out, or say `device=cpu`")
    threads = min(compute_threads(), max(1, usable_processors() // workers))
    return WorkerPlacement(workers, device, threads)


@dataclass(frozen=True)
class LoadedPerWorker(Generic[Loaded]):
    """A model, or prepared data, that each worker loads on first use and keeps."""

    load: Callable[[], Loaded] = field(compare=False)
    threads: int
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Identifies the value: the same path may hold another model at the next call."""

    def get(self) -> Loaded:
        """Return the value, loading it unless this worker has it already."""
        value: Loaded = _load(self)
        return value


@lru_cache(maxsize=1)
def _load(loaded: LoadedPerWorker[Any]) -> Any:
    set_compute_threads(loaded.threads)
    return loaded.load()
