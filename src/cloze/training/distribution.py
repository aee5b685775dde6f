"""The ranks of a run: the processes that torchrun starts, on one machine or many, and what they tell each other.

The first rank, number 0, alone writes and talks. What ranks tell each other about the run (a clock, a request to
stop, a few sums) goes from processor to processor; gradients go from device to device. Without torchrun there is a
world of one, which tells nobody anything.
"""

import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeVar

import torch
from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from cloze.errors import ClozeError, InputError, RunError
from cloze.progress import is_launched
from cloze.training.interrupts import catch_signals
from cloze.training.precision import resolve_device

Value = TypeVar("Value")

_ROLL_CALL_SECONDS = 5.0
_PATIENCE = timedelta(days=7)
"""With what the first rank does alone: Google's instances of much text take hours, and torch waits for half of one."""
_LOST = (
    "gloo",
    "connection closed",
    "connection reset",
    "broken pipe",
)  # torch tells some by their text alone


@dataclass(frozen=True, kw_only=True, slots=True)
class DistributionConfig:
    """How a run that torchrun started on several devices shares them; a run on one ignores it."""

    sharded: bool = False
    """Weights, gradients and averages are shared out over the ranks (FSDP2) instead of being on each (DDP): for models
    that one device has no memory for. Results are the same but for rounding."""
    reduce_dtype: Literal["float32", "bfloat16"] = "float32"
    """The format in which gradients are sent and summed; bfloat16 halves what is sent."""

    def check(self, asked_for: Mapping[str, bool]) -> None:
        """Refuse settings that need each weight whole.

        Args:
            asked_for: for each such setting, whether it is on.

        Raises:
            ValueError: one is, and weights shall be shared out.
        """
        for name, is_on in asked_for.items():
            if is_on and self.sharded:
                raise ValueError(f"{name} needs whole weights: leave it out, or distribution.sharded")


@dataclass(frozen=True, slots=True)
class World:
    """This process among those of its run."""

    device: torch.device
    """Where this rank computes."""
    rank: int = 0
    size: int = 1
    restarts: int = 0
    """How often torchrun has begun anew."""
    waiting: distributed.ProcessGroup | None = None
    """The ranks, where they wait for the first one."""

    @property
    def is_first(self) -> bool:
        """Whether this rank writes and talks."""
        return self.rank == 0

    def sums(self, *values: float) -> list[float]:
        """Return sums over all ranks; integers up to 2**53 stay exact."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(tensor)
        summed: list[float] = tensor.tolist()
        return summed

    def any(self, flag: object) -> bool:
        """Return whether it is true on some rank."""
        return self.sums(bool(flag))[0] > 0

    def gather(self, value: Value) -> list[Value]:
        """Return every rank's value, in the order of ranks."""
        if self.size == 1:
            return [value]
        values: list[Value | None] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def by_first(self, act: Callable[[], Value]) -> Value:
        """Call on the first rank alone, while the others wait; return there and everywhere what it returned.

        Raises:
            ClozeError: what it raised, on the first rank.
            SystemExit: the same on the others, which have nothing to add.
        """
        if self.size == 1:
            return act()
        told: list[object] = [None, 0]
        failure = None
        if self.is_first:
            try:
                told[0] = act()
            except ClozeError as error:
                failure, told[1] = error, error.exit_code
        distributed.broadcast_object_list(told, src=0, group=self.waiting, device=torch.device("cpu"))
        if failure is not None:
            raise failure
        if told[1]:
            raise SystemExit(told[1])
        return told[0]  # type: ignore[return-value]

    def check_width(self, batch_sizes: Sequence[int]) -> None:
        """Refuse a number of ranks that batches cannot be shared out over evenly.

        Raises:
            InputError: it divides one of the sizes not.
        """
        widths = [n for n in range(1, min(batch_sizes) + 1) if not any(size % n for size in batch_sizes)]
        if self.size not in widths:
            sizes = " and ".join(str(size) for size in sorted(set(batch_sizes)))
            what = f"{self.size} ranks cannot share a batch of {sizes} evenly"
            remedy = f"Start {_one_of(widths)}, or set another batch_size"
            self.by_first(lambda: _refuse(what, remedy))


def _one_of(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:-1])) + f" or {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])


def _refuse(what: str, remedy: str) -> None:
    raise InputError(what, where="torchrun", remedy=remedy)


@contextmanager
def join_world(device: str) -> Iterator[World]:
    """Meet the other ranks that torchrun started, and part from them at the end; else be alone.

    Args:
        device: cpu, cuda, mps or auto; of an accelerator each rank takes the device of its number on the machine.

    Raises:
        InputError: there is no such device, or there are more ranks on a machine than devices.
        RunError: a rank was lost; its number is told.
    """
    found = resolve_device(device)
    size = int(os.environ["WORLD_SIZE"]) if is_launched() else 1
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if size == 1:
        yield World(found, restarts=restarts)
        return
    own, rank = _own_device(found), int(os.environ["RANK"])
    store, _, _ = next(rendezvous("env://"))
    store = PrefixStore(f"begun-{restarts}", store)  # an address of ranks that are gone is nobody's
    distributed.init_process_group(_backend(own), store=store, rank=rank, world_size=size)
    waiting = distributed.new_group(backend="gloo", timeout=_PATIENCE)
    world = World(own, rank, size, restarts, waiting)
    try:
        yield world
    except (RuntimeError, pickle.UnpicklingError) as error:
        if not _is_loss_of_a_rank(error):
            raise
        with catch_signals():  # torchrun asks all ranks to leave as soon as it misses one
            distributed.destroy_process_group()  # so that ranks which wait for this one find out
            lost = _ranks_that_do_not_answer(store, world)
        raise _loss(lost, world) from error
    else:
        distributed.barrier()
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _own_device(device: torch.device) -> torch.device:
    if device.type == "cpu":
        return device
    own, count = int(os.environ.get("LOCAL_RANK", "0")), torch.accelerator.device_count()
    if own >= count:
        what = f"rank {own} of this machine has no device: it has {count} of type {device.type}"
        raise InputError(what, where="torchrun", remedy=f"Say --nproc-per-node {count}")
    torch.accelerator.set_device_index(own)
    return torch.device(device.type, own)


def _backend(device: torch.device) -> str:
    """Return what carries messages between processors, and gradients between devices."""
    if device.type == "cpu":
        return "gloo"
    return f"cpu:gloo,{device.type}:{distributed.get_default_backend_for_device(device)}"


def _is_loss_of_a_rank(error: Exception) -> bool:
    told = str(error).lower()
    return isinstance(error, distributed.DistError) or any(words in told for words in _LOST)


def _ranks_that_do_not_answer(store: Store, world: World) -> list[int]:
    """Call the roll through the store, which torchrun keeps, not a rank; none where even that is gone."""
    answers = [f"cloze/survived/{rank}" for rank in range(world.size)]
    silent: list[int] = []
    end = time.monotonic() + _ROLL_CALL_SECONDS
    try:
        store.set(answers[world.rank], "")
        while time.monotonic() < end:
            silent = [rank for rank, answer in enumerate(answers) if not store.check([answer])]
            if not silent:
                break
            time.sleep(0.1)
    except RuntimeError:
        return []
    return silent


def _loss(lost: Sequence[int], world: World) -> RunError:
    names = f"rank{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost))}" if lost else "a rank"
    remedy = "Its own message or torchrun's report says why; --resume goes on from the newest checkpoint"
    return RunError(f"lost {names} of 0..{world.size - 1}", where=f"rank {world.rank}", remedy=remedy)
