"""The memory of the process: how much is available, its peak, and the message when it runs out."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from cloze.errors import RunError, is_out_of_memory

_STATUS = Path("/proc/self/status")


def empty_cache(device: torch.device) -> None:
    """Return an accelerator's cached blocks, so that they can be cut differently."""
    if device.type != "cpu":
        torch.accelerator.empty_cache()


def available_memory(
    device: torch.device, *, meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Return the bytes that can be taken without swapping, or None if neither system nor device knows.

    Args:
        cgroup: directory with the limits of the container.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu" or not meminfo.exists():
        return None
    fields = dict(line.split(":") for line in meminfo.read_text("ascii").splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    limit = cgroup / "memory.max"
    if not limit.exists() or limit.read_text("ascii").strip() == "max":
        return available
    counts = dict(line.split() for line in (cgroup / "memory.stat").read_text("ascii").splitlines())
    cached_files = int(counts["inactive_file"]) + int(counts["active_file"])  # dropped when memory is needed
    used = int((cgroup / "memory.current").read_text("ascii")) - cached_files
    return min(available, int(limit.read_text("ascii")) - used)


def peak_memory(device: torch.device) -> int | None:
    """Return the peak bytes of this process, or of its tensors on an accelerator; None if the system does not say."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if device.type != "cpu" or sys.platform == "win32":
        return None
    if not _STATUS.exists():
        import resource  # not on Windows

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    # on Linux not by getrusage: there a spawned process starts with its parent's peak
    lines = dict(line.split(":", 1) for line in _STATUS.read_text("utf-8").splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn a failed allocation that smaller micro-batches did not cure into one line for the user."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        remedy = "Say `micro_batch_tokens=N` with a smaller N: results are the same but for rounding"
        raise RunError("out of memory", remedy=remedy) from error
