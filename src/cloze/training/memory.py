"""Keeping the process's memory instead of giving it back after every step, and saying that there is too little."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from cloze.errors import RunError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
_NEVER = 2**31 - 1
_LARGE = 2**30
_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
_REFUSALS = ("can't allocate memory", "out of memory")  # torch's on the CPU, and on GPUs


def keep_freed_memory() -> None:
    """Have glibc keep large freed blocks for the next step.

    By default every array over 32 MB is mapped anew and its pages are faulted in one by one; a training step on a
    CPU then spends 5 to 20% of its time there. The setting holds for the whole process, so the program chooses it,
    not the library. Elsewhere than on Linux with glibc this does nothing.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        libc.mallopt(_M_TRIM_THRESHOLD, _NEVER)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error is a refusal of memory: torch tells those of the CPU by their text alone."""
    refused = isinstance(error, RuntimeError) and any(words in str(error) for words in _REFUSALS)
    return refused or isinstance(error, MemoryError)


def give_back_cached_memory(device: torch.device) -> None:
    """Let an accelerator's allocator cut its free blocks anew."""
    if device.type != "cpu":
        torch.accelerator.empty_cache()


def available_memory(device: torch.device) -> int | None:
    """Return the bytes that could be taken without swapping; None where the system or the device does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu" or not _MEMINFO.exists():
        return None
    fields = dict(line.split(":") for line in _MEMINFO.read_text("ascii").splitlines())
    free = int(fields["MemAvailable"].split()[0]) * 1024
    return min([free, *_cgroup_rest()])


def _cgroup_rest() -> list[int]:
    """Return what a container's limit leaves, where there is one; files that were read make room when it is needed."""
    limit, used = _CGROUP / "memory.max", _CGROUP / "memory.current"
    if not limit.exists() or limit.read_text("ascii").strip() == "max":
        return []
    counts = dict(line.split() for line in (_CGROUP / "memory.stat").read_text("ascii").splitlines())
    files = int(counts["inactive_file"]) + int(counts["active_file"])
    return [int(limit.read_text("ascii")) - int(used.read_text("ascii")) + files]


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn a refusal of memory that smaller micro-batches did not cure into one line for the user."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        remedy = "Say --set micro_batch_tokens=N with a smaller N: the results are the same but for rounding"
        raise RunError("out of memory", remedy=remedy) from error
