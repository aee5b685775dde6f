"""The threads and the memory of a process, which its program sets, not the library.

Nothing here imports torch: OpenMP reads its settings once, when torch loads it.
"""

import functools
import os
import platform
import sys
import warnings
from pathlib import Path, PurePosixPath
from typing import Literal

from cloze.signatures import checks_arguments

_SPIN_COUNT = "4000"  # turns of GNU OpenMP's waiting loop, about 80 microseconds; by default 300,000
_WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
_NUMBER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
THREAD_VARIABLES = (*_WAITING, *_NUMBER)
"""Variables of the environment that OpenMP reads when it is loaded."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


@checks_arguments()
def configure_process(work: Literal["batches", "requests"] = "batches") -> None:
    """Set the threads and the memory of this process as the commands do; call it before torch is imported.

    The settings are those of the whole process, so its program chooses them: `import cloze` changes none.

    Args:
        work: batches, of training or of many texts, or requests to a server that runs for weeks.

    Warns:
        UserWarning: torch, or another library that loads OpenMP, is imported already: its threads wait as before.
    """
    configure_threads()
    configure_memory(work)


def configure_threads() -> None:
    """Let threads that wait for each other sleep soon, and start no more of them than there are usable processors.

    Variables of the environment that the user has set stay. Warns as `configure_process`.
    """
    # torch's OpenMP, or another that torch would use, has read the environment
    maps = Path("/proc/self/maps")  # of Linux
    has_openmp = maps.exists() and "/libgomp.so." in maps.read_text("utf-8", "replace")
    is_late = "torch" in sys.modules or has_openmp
    # A thread that has finished its part spins for milliseconds. On a busy machine it holds the core that the others
    # wait for, and every operation takes many times longer. Waits of microseconds cost an idle machine little.
    if not os.environ.keys() & {*_WAITING}:
        os.environ["GOMP_SPINCOUNT"] = _SPIN_COUNT
        if is_late:
            what = "OpenMP is loaded already, so its threads wait for each other as before"
            remedy = "Call cloze.configure_process() before you import torch"
            warnings.warn(f"{what}. {remedy}", stacklevel=3)
    if os.environ.keys() & {*_NUMBER}:
        return
    # In a container torch starts a thread for each core of the machine, and the system stops them all as soon as they
    # have used up the container's time.
    if (threads := usable_processors()) < _processors_of_affinity():
        os.environ["OMP_NUM_THREADS"] = str(threads)
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(min(threads, torch.get_num_threads()))


def compute_threads() -> int:
    """Return the number of threads of an operation: that of torch where it is imported."""
    if torch := sys.modules.get("torch"):
        return int(torch.get_num_threads())
    return openmp_threads() or usable_processors()


def openmp_threads() -> int | None:
    """Return the first number of the list in OMP_NUM_THREADS, for the outermost level; None if it is not set."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) else None


def set_compute_threads(threads: int) -> None:
    """Set the number of threads of an operation, in torch where it is imported, or once it is."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    set_intra_op_threads(threads)


def set_intra_op_threads(threads: int) -> None:
    """Set the number of threads of the operations that the calling thread starts, if torch is imported."""
    if torch := sys.modules.get("torch"):
        torch.get_num_threads()  # else its first operation takes the number that another thread set last
        torch.set_num_threads(threads)


def configure_memory(work: Literal["batches", "requests"] = "batches") -> None:
    """Bound the memory that glibc and oneDNN keep for later computations."""
    # oneDNN has a kernel of up to half a megabyte for each shape in bfloat16 and int8, which takes longer to make than
    # to use. A step of fine-tuning has up to six for each length of its texts; a server keeps those of a few forward
    # passes. torch keeps a thousand more in each thread by default, 400 MB in a server.
    for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):  # read at the first computation
        os.environ.setdefault(cache, "256" if work == "batches" else "64")
    if sys.platform != "linux":
        return
    import ctypes  # the start of a command does not need it

    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return
    # Batches keep large blocks: else a step faults their pages in one by one, 5 to 20% of its time. Requests return
    # them: as lengths vary, the gaps between kept blocks add up over weeks.
    keeps = work == "batches"
    libc.mallopt(_M_MMAP_THRESHOLD, 2**30 if keeps else 2**22)
    libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1 if keeps else 2**24)


def usable_processors(system: Path = Path("/")) -> int:
    """Return the number of processors that this process may use: its affinity, or its control groups' quota if fewer.

    Args:
        system: the root of the file system.

    Source: https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.max), and sched-bwc.html (version 1).
    """
    processors: list[float] = [_processors_of_affinity()]
    groups = system / "proc/self/cgroup"  # of Linux
    for line in groups.read_text("utf-8").splitlines() if groups.exists() else ():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        group = system / "sys/fs/cgroup" / ("cpu" if controllers else "")
        # in a container the path may be the host's, and the files the container's
        for name in ("", *PurePosixPath(path).parts[1:]):
            group /= name
            if (quota := _quota(group)) is not None:
                processors.append(quota)
    return max(1, int(min(processors)))


def _processors_of_affinity() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(group: Path) -> float | None:
    """Return the processors that a control group may use; None without a limit that can be read."""
    try:
        if (file := group / "cpu.max").exists():
            quota, period = map(int, file.read_text("ascii").split())
        else:
            quota, period = (
                int((group / f"cpu.cfs_{name}_us").read_text("ascii")) for name in ("quota", "period")
            )
    except (OSError, ValueError):  # "max" is no number
        return None
    return quota / period if quota > 0 and period > 0 else None


@functools.cache
def processor() -> str:
    """Return the system's name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
