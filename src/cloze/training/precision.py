"""Where a run computes, in which number format, and by which arithmetic."""

import functools
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import torch
from torch.utils import deterministic

from cloze.errors import InputError

Precision = Literal["auto", "float32", "bfloat16"]


def resolve_device(name: str) -> torch.device:
    """Return the device called `name`; "auto" takes the accelerator where there is one.

    Raises:
        InputError: there is no such device here.
    """
    if name == "auto":
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device).cpu()  # which the device "meta", that computes nothing, refuses
    except (RuntimeError, AssertionError) as error:
        what = f"device {name!r} is not to be had"
        raise InputError(what, where="device", remedy="Use auto, or another of cpu, cuda and mps") from error
    return device


@functools.cache
def processor() -> str:
    """Return the name of the processor, as the system has it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def resolve_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """Return the format of matrix products; "auto" takes bfloat16 where that is faster than float32."""
    if precision == "auto":
        return torch.bfloat16 if _is_faster_in_bfloat16(device) else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def _is_faster_in_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        if torch.cpu._is_avx512_supported() and not torch.cpu._is_amx_tile_supported():
            # oneDNN takes it here too, made up of float32 in five times its time, or by instructions of its own, which
            # take 1.7 times as long as float32 on a Xeon, and on an EPYC 1 / 1.7
            return torch.cpu._is_avx512_bf16_supported() and "AMD" in processor()
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return False


def autocast(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """Return the context in which a forward pass runs in `dtype`; weights and sums stay in float32."""
    return torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32)


@contextmanager
def training_arithmetic() -> Iterator[None]:
    """Have torch choose kernels whose sums do not depend on the order in which threads arrive, and no denormal numbers.

    Gradients that pass back through hundreds of steps of a BiLSTM come to less than 1e-38, where a processor takes many
    times as long over each product.
    """
    before = torch.are_deterministic_algorithms_enabled()
    filled = deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    # Filling memory before it is written costs 5% of a step, and nothing reads it unwritten.
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.use_deterministic_algorithms(mode=before, warn_only=True)
        deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
