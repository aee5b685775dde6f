"""Where work is shared out to, and what each worker computes with."""

import os
from dataclasses import dataclass

from cloze.errors import InputError
from cloze.executor import Workers
from cloze.training.precision import resolve_device


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where work is done."""

    workers: Workers
    device: str
    """Of each worker: cpu, cuda, mps or auto."""
    threads: int
    """Of each worker; this process keeps those that it has."""

    @property
    def is_here(self) -> bool:
        """Whether this process does the work itself."""
        return self.workers == 1

    @property
    def device_here(self) -> str:
        """The device of this process: where others work it only reads and writes."""
        return self.device if self.is_here else "cpu"


def find_workplace(workers: Workers, device: str, *, items: int | None = None) -> Workplace:
    """Return where workers compute: each with its share of this machine's threads, or with what a cluster gives it.

    Args:
        workers: processes, or a cluster.
        device: cpu, cuda, mps or auto.
        items: that there are, each worth many threads; None where they are many and small.

    Raises:
        InputError: there is no worker, or several processes would share an accelerator.
    """
    if not isinstance(workers, int):
        return Workplace(*workers.equipped(device, items=items))
    if workers < 1:
        raise InputError(f"{workers} is less than 1", where="workers")
    if workers > 1:
        found = resolve_device(device).type
        if found != "cpu":
            what = f"several processes cannot share a device of {found}"
            raise InputError(what, where="workers", remedy="Leave --workers out, or say --device cpu")
    return Workplace(workers, device, threads=max(1, (os.cpu_count() or 1) // workers))
