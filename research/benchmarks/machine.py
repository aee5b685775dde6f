"""The machine of a benchmark: versions, memory of processes, and its rate of matrix products."""

import math
import os
import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch

from cloze.process import THREAD_VARIABLES
from cloze.training.precision import peak_memory
from cloze.training.run_directory import describe_environment

CPU = torch.device("cpu")
Value = TypeVar("Value")

_LONG_SECONDS = 0.5
"""A product that takes longer than this is not repeated."""
_STATUS = Path("/proc/self/status")


def describe_machine(
    device: torch.device = CPU, dtype: torch.dtype = torch.float32, peers: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the machine and the versions of cloze and its peers, as in "transformers" or "transformers-tuned"."""
    environment = describe_environment(device, dtype)
    packages = [re.sub("-(float32|tuned|compiled|int8)$", "", peer) for peer in peers]
    environment["versions"] |= {package: metadata.version(package) for package in packages}
    environment["thread_settings"] = {
        name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ
    }
    environment["vector_instructions"] = torch.backends.cpu.get_cpu_capability()
    return environment


def dtype_name(dtype: torch.dtype) -> str:
    """Return a number format as settings have it, as in "float32"."""
    return str(dtype).removeprefix("torch.")


def synchronize(device: torch.device) -> None:
    """Wait until a device has finished its work."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def matrix_product_rate(device: torch.device, dtype: torch.dtype) -> tuple[float, int]:
    """Return the best FLOP/s of several square matrix products, and their size, which keeps the device busy."""
    size = 1024 if device.type == "cpu" else 8192
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))

    best = math.inf
    for _ in range(20):
        started = time.perf_counter()
        left @ right
        synchronize(device)
        best = min(best, time.perf_counter() - started)
        if best > _LONG_SECONDS:  # a number format that the processor emulates
            break
    return 2 * size**3 / best, size


def in_new_process(function: Callable[[], Value]) -> Value:
    """Call a function in a process of its own, so that its memory is not shared."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function).result()


def peak_bytes() -> int:
    """Return the peak memory of this process."""
    return peak_memory(CPU) or 0


def resident_bytes(process: int | str = "self") -> int:
    """Return the current memory of a process; 0 if the system does not report it."""
    statm = Path("/proc") / str(process) / "statm"
    return int(statm.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0
