"""The ranks of a run: the processes that torchrun starts, on one machine or several, and their communication.

Rank zero alone writes files and messages. Data about the run (a clock, a request to stop, a few sums) are sent from
CPU to CPU, gradients from device to device. Without torchrun there is one rank, and nothing is sent.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeVar

import torch
from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from cloze.config import Settings
from cloze.errors import InputError, RunError
from cloze.models.torch_internals import is_lost_rank
from cloze.progress import is_torchrun
from cloze.training.interrupts import catch_signals
from cloze.training.precision import resolve_device

Value = TypeVar("Value")

ROLL_CALL_SECONDS = 5.0
"""Time for the remaining ranks to report after one was lost."""
WAIT_TIMEOUT = timedelta(days=7)
"""Time that ranks wait for rank zero, which may build Google's instances for hours."""
_connections = itertools.count()


@dataclass(frozen=True, kw_only=True, slots=True)
class DistributionConfig(Settings):
    """How the devices of a run that torchrun started share it; a run on one device ignores it."""

    reduce_dtype: Literal["float32", "bfloat16"] = "float32"
    """The format in which gradients are sent and summed; bfloat16 halves the traffic."""


@dataclass(frozen=True, slots=True)
class DistributedContext:
    """This rank and its communication with the other ranks of the run."""

    device: torch.device
    """The device of this rank."""
    rank: int = 0
    world_size: int = 1
    wait_group: distributed.ProcessGroup | None = None
    """All ranks, with a long timeout, for waiting for rank zero."""

    @property
    def is_rank_zero(self) -> bool:
        """Whether this rank writes files and messages."""
        return self.rank == 0

    def all_reduce(self, *values: float) -> list[float]:
        """Return the sums over all ranks; integers up to 2**53 stay exact."""
        if self.world_size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(tensor)
        sums: list[float] = tensor.tolist()
        return sums

    def any(self, flag: object) -> bool:
        """Return whether the flag is true on some rank."""
        return self.all_reduce(bool(flag))[0] > 0

    def all_gather(self, value: Value) -> list[Value]:
        """Return every rank's value, in the order of ranks."""
        if self.world_size == 1:
            return [value]
        values: list[Value | None] = [None] * self.world_size
        distributed.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def share(self, items: Sequence[Value]) -> Iterator[Value | None]:
        """Yield this rank's items, of each round the one of its number; None if the last round has none for it.

        All ranks yield equally often, so that they can communicate in between.
        """
        for start in range(self.rank, len(items) + self.rank, self.world_size):
            yield items[start] if start < len(items) else None

    def run_on_rank_zero(self, function: Callable[[], Value]) -> Value:
        """Call a function on rank zero while the other ranks wait; return its result on every rank.

        If it fails, rank zero raises its error and the other ranks SystemExit, without a message.
        """
        if self.world_size == 1:
            return function()
        message: list[object] = [None, 0]
        failure = None
        if self.is_rank_zero:
            try:
                message[0] = function()
            except BaseException as error:  # or the other ranks wait without end
                failure, message[1] = error, getattr(error, "exit_code", 1)
        distributed.broadcast_object_list(message, src=0, group=self.wait_group, device=torch.device("cpu"))
        if failure is not None:
            raise failure
        if message[1]:
            raise SystemExit(message[1])
        return message[0]  # type: ignore[return-value]

    def check_batch_sizes(self, batch_sizes: Sequence[int]) -> None:
        """Check that every batch can be divided evenly among the ranks."""
        if uneven := [size for size in batch_sizes if size % self.world_size]:
            what = f"{self.world_size} ranks cannot share a batch of {uneven[0]} evenly"
            sizes = " and ".join(map(str, sorted({*batch_sizes})))
            remedy = f"Start a number that divides {sizes}, or set another batch_size"
            error = InputError(what, where="torchrun", remedy=remedy)
            raise error if self.is_rank_zero else SystemExit(error.exit_code)  # one message is enough


def num_restarts() -> int:
    """Return how often torchrun has restarted this command."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


@contextmanager
def init_distributed(device: str) -> Iterator[DistributedContext]:
    """Connect to the other ranks that torchrun started, and disconnect at the end; without torchrun there are none.

    Each rank takes the accelerator of its number on the machine. If one is lost, the others raise RunError.
    """
    resolved = resolve_device(device)
    world_size = int(os.environ["WORLD_SIZE"]) if is_torchrun() else 1
    if world_size == 1:
        yield DistributedContext(resolved)
        return
    rank, backend = int(os.environ["RANK"]), "gloo"
    if resolved.type != "cpu":
        number, count = int(os.environ.get("LOCAL_RANK", "0")), torch.accelerator.device_count()
        if number >= count:
            what = f"rank {number} of this machine has no device: it has {count} of type {resolved.type}"
            raise InputError(what, where="torchrun", remedy=f"Say --nproc-per-node {count}")
        torch.accelerator.set_device_index(number)
        resolved = torch.device(resolved.type, number)
        # gloo between CPUs, and the accelerator's backend for gradients
        backend = f"cpu:gloo,{resolved.type}:{distributed.get_default_backend_for_device(resolved)}"
    store, _, _ = next(rendezvous("env://"))
    # addresses from before a restart, and of an earlier run of this process, are stale
    store = PrefixStore(f"restart-{num_restarts()}/{next(_connections)}", store)
    distributed.init_process_group(backend, store=store, rank=rank, world_size=world_size)
    wait_group = distributed.new_group(backend="gloo", timeout=WAIT_TIMEOUT)
    context = DistributedContext(resolved, rank, world_size, wait_group)
    try:
        yield context
    except Exception as error:
        if not is_lost_rank(error):
            raise
        with catch_signals():  # torchrun terminates all ranks as soon as one is lost
            distributed.destroy_process_group()  # so that ranks which wait for this one fail, too
            lost = _lost_ranks(store, context)
        names = f"rank{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost))}" if lost else "a rank"
        what = f"lost {names} of 0..{world_size - 1}"
        remedy = "See its own message or torchrun's report; `resume` continues from the newest checkpoint"
        raise RunError(what, where=f"rank {rank}", remedy=remedy) from error
    else:
        distributed.barrier()
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _lost_ranks(store: Store, context: DistributedContext) -> list[int]:
    """Return the ranks that do not report through torchrun's store; an empty list if the store is gone, too."""
    keys = [f"cloze/survived/{rank}" for rank in range(context.world_size)]
    lost: list[int] = []
    end = time.monotonic() + ROLL_CALL_SECONDS
    try:
        store.set(keys[context.rank], "")
        while time.monotonic() < end:
            lost = [rank for rank, key in enumerate(keys) if not store.check([key])]
            if not lost:
                break
            time.sleep(0.1)
    except RuntimeError:
        return []
    return lost
