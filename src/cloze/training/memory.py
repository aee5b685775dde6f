"""Keeping the process's memory instead of giving it back after every step."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
_NEVER = 2**31 - 1
_LARGE = 2**30


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
